"""Cases of ElementAt that name streams: the list stands in the stream whose message has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from tests.conformance import calls
from tests.conformance.corpus import Corpus
from tests.conformance.values import plain

from daggersql import Table, check

_TIME = "event_timestamp"


def names_streams(case: Mapping[str, Any]) -> bool:
    """Whether the case comes with streams and their messages."""
    return "tables" in case.get("given", {})


def arguments(case: Mapping[str, Any], corpus: Corpus) -> list[Any]:
    """The arguments as references take them: messages are dicts. Raises `KeyError` for an unknown message."""
    _, field = _owner(case, corpus)
    items, *rest = map(plain, case["args"])
    return [[_message(item, field.message_type) for item in items], *rest]


def ask(case: Mapping[str, Any], corpus: Corpus) -> calls.Question:
    """The case as a query over its streams. Raises `KeyError` for an unknown message."""
    owner, field = _owner(case, corpus)
    items = arguments(case, corpus)[0]
    listed = [str(field.name), *(calls.literal(each) or "NULL" for each in case["args"][1:])]
    checked = check(calls.query(case, listed, owner.name), _tables(case, corpus))
    return calls.Question(
        checked, calls.view(owner, [{str(field.name): items}]), widened=False, name=owner.name
    )


def _tables(case: Mapping[str, Any], corpus: Corpus) -> list[Table]:
    return [Table(name, corpus.message(message), _TIME) for name, message in case["given"]["tables"]]


def _owner(case: Mapping[str, Any], corpus: Corpus) -> tuple[Table, FieldDescriptor]:
    """The stream and field that the list is: the one its path names, else the first that it may be."""
    size = max(len(plain(item)) for item in case["args"][0])
    found = [
        (table, field)
        for table in _tables(case, corpus)
        for field in table.message.fields
        if field.is_repeated and field.message_type is not None and len(field.message_type.fields) == size
        and not field.message_type.GetOptions().map_entry
    ]  # fmt: skip
    named = [each for each in found if each[1].name == case["args"][1]]
    return (named or found)[0]


def _message(item: Any, message: Descriptor) -> dict[str, Any]:
    return {
        str(field.name): _message(value, field.message_type) if isinstance(value, tuple) else value
        for field, value in zip(message.fields, item, strict=True)
    }
