"""Any field of any message, whole messages included: both forms of SelectFields read the same."""

import base64
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from services.runtime.tests.decode_differential import EXAMPLES, filled
from services.runtime.tests.decode_differential import every_type as shared_every_type

from daggerspec.protobuf import WRAPPERS
from runtime.functions import selectfields
from runtime.values import messages

every_type = shared_every_type  # a fixture

__all__ = ["every_type"]


def paths(message: Descriptor, depth: int = 2) -> Iterator[str]:
    """Paths to every field of a message and of the messages in it that are not repeated."""
    for field in message.fields:
        below = field.message_type
        # Columns know wrappers and JSON by their values only, and no groups.
        if field.type == field.TYPE_GROUP:
            continue
        yield field.name
        google = below is not None and below.full_name.startswith("google.protobuf.")
        times = ("google.protobuf.Timestamp", "google.protobuf.Duration")
        open_ = below is not None and (not google or below.full_name in (*times, *WRAPPERS))
        if below is not None and depth and not field.is_repeated and open_:
            yield from (f"{field.name}.{path}" for path in paths(below, depth - 1))


def files_of(message: Descriptor) -> bytes:
    """The message's file and all that it needs, dependencies first."""
    found: dict[str, FileDescriptor] = {}

    def add(file: FileDescriptor) -> None:
        for dependency in file.dependencies:
            add(dependency)
        found.setdefault(file.name, file)

    add(message.file)
    protos = [FileDescriptorProto.FromString(file.serialized_pb) for file in found.values()]
    return FileDescriptorSet(file=protos).SerializeToString()


def as_json(value: Any) -> Any:
    """A value of the plain form as the JSON that Spark reads it from."""
    match value:
        case dict():
            return {_key(key): as_json(each) for key, each in value.items()}
        case list():
            return [as_json(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            text = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
            return f"{text.removesuffix('.000000')}Z" if text.endswith(".000000") else _millis(text)
        case timedelta():
            seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
            clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
            return f"{'-' if value < timedelta() else ''}{seconds // 86_400} {clock}"
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def _millis(text: str) -> str:
    return f"{text[:-3]}Z" if text.endswith("000") else f"{text}Z"


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


@given(st.data())
@settings(EXAMPLES, max_examples=4 * settings.default.max_examples // 5)
def test_both_forms_read_any_field_of_any_message(every_type: Descriptor, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(paths(every_type))))
    items = [filled(data.draw, every_type).SerializeToString() for _ in range(3)]
    column = pa.array([items], pa.list_(pa.binary()))
    texts, bad = messages.lists(files_of(every_type), column, [every_type.full_name], [path])
    expected = selectfields.reference(items, every_type.full_name, path, pool=every_type.file.pool)

    assert bad == 0
    assert json.loads(texts[0] or "") == json.loads(json.dumps(as_json(expected)))


@pytest.mark.parametrize("path", ["tree", "tree.children", "tree.named", "tree.name"])
def test_both_forms_end_a_message_that_contains_itself_at_the_same_depth(
    every_type: Descriptor, path: str
) -> None:
    message = GetMessageClass(every_type)()
    for way in ("children", "named"):
        tree = message.tree
        for depth in range(6):
            tree.name = f"{depth}"
            tree = tree.children.add() if way == "children" else tree.named["x"]
    items = [message.SerializeToString()]
    column = pa.array([items], pa.list_(pa.binary()))
    texts, _ = messages.lists(files_of(every_type), column, [every_type.full_name], [path])
    expected = selectfields.reference(items, every_type.full_name, path, pool=every_type.file.pool)

    assert json.loads(texts[0] or "") == json.loads(json.dumps(as_json(expected)))
    assert '"3"' not in (texts[0] or "")
