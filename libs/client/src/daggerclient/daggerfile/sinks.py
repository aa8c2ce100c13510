"""The sinks of a dagger file, of every kind: what a key takes is what the field it fills holds."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import yaml
from daggers.v1 import spec_pb2
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from daggerclient.daggerfile.reader import Reader
from daggerclient.times import duration
from daggerspec import fields, sinks
from daggerspec.keys import Key, flat
from daggerspec.protobuf import is_map

_PLACE = "{env: NAME} or {file: PATH}"
BESIDE = ("name", "registered", "when")
"""The keys of a sink beside its kind that are texts."""
OUTAGE: Final = "on_outage"
REPLAY: Final = "auto_replay"
REFUSED: Final = "max_refused"
LIMIT: Final = "limit"
PER_SECOND: Final = ("rows_per_second", "requests_per_second")
LIMITS: Final = (*PER_SECOND, "max_in_flight")
SECRET = spec_pb2.SecretRef.DESCRIPTOR.full_name
_THEN = {
    "wait": spec_pb2.OnOutage.THEN_WAIT,
    "skip": spec_pb2.OnOutage.THEN_SKIP,
    "fail": spec_pb2.OnOutage.THEN_FAIL,
}


def read(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.Sink:
    """Read an item of the list of sinks; a kind without required keys may be the bare word."""
    sink = spec_pb2.Sink()
    if isinstance(node, yaml.ScalarNode) and node.value in bare():
        getattr(sink, node.value).SetInParent()
        return sink
    if isinstance(node, yaml.ScalarNode):
        mappings = ", ".join(f"{{{name}: …}}" for name in sinks.names())
        problem = f"{path} must be {' or '.join(bare())}, or one of {mappings}"
        reader.fail(node, path, "WRONG_TYPE", problem)
        return sink
    values = reader.mapping(node, path, (*sinks.names(), *BESIDE, LIMIT, OUTAGE, REFUSED))
    for key in BESIDE:
        if key in values:
            setattr(sink, key, reader.text(values.pop(key), f"{path}.{key}"))
    if LIMIT in values:
        sink.limit.CopyFrom(limit(reader, values.pop(LIMIT), f"{path}.{LIMIT}"))
    if OUTAGE in values:
        sink.on_outage.CopyFrom(_outage(reader, values.pop(OUTAGE), f"{path}.{OUTAGE}"))
    if REFUSED in values:
        sink.max_refused = reader.share(values.pop(REFUSED), f"{path}.{REFUSED}")
    kinds = values
    if not kinds and sink.ByteSize():
        names = ", ".join(sinks.names())
        reader.fail(node, path, "MISSING_KEY", f"{path} says no kind of sink: it must have one of {names}")
    if len(kinds) > 1:
        text = f"{path} names {' and '.join(kinds)}: make them items of the list"
        reader.fail(node, path, "MANY_SINKS", text)
    for kind, value in kinds.items():
        message = getattr(sink, kind)
        message.SetInParent()
        fill(
            reader, value, f"{path}.{kind}", message, sinks.load(kind).KEYS, registered=bool(sink.registered)
        )
        break
    return sink


def show(sink: spec_pb2.Sink) -> Any:
    """Make the item of a sink: the inverse of `read`."""
    name = sinks.kind_of(sink)
    if name is None:
        return {}
    message = getattr(sink, name)
    address = _show_keys(message, sinks.load(name).KEYS)
    beside: dict[str, Any] = {key: getattr(sink, key) for key in BESIDE if getattr(sink, key)}
    if sink.HasField(LIMIT):
        beside[LIMIT] = shown_limit(sink.limit)
    if sink.HasField(OUTAGE):
        beside[OUTAGE] = _shown_outage(sink.on_outage)
    if sink.HasField(REFUSED):
        beside[REFUSED] = sink.max_refused
    return {name: address, **beside} if address or beside or name not in bare() else name


def limit(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.RateLimit:
    """Read the rate limit of a sink."""
    value = spec_pb2.RateLimit()
    for key, number in reader.mapping(node, path, LIMITS).items():
        read = reader.number if key in PER_SECOND else partial(reader.integer, least=1)
        setattr(value, key, read(number, f"{path}.{key}"))
    return value


def shown_limit(value: spec_pb2.RateLimit) -> dict[str, float]:
    """Make the document of a rate limit: the inverse of `limit`."""
    limits = {key: getattr(value, key) for key in LIMITS if getattr(value, key)}
    return {key: int(most) if most == int(most) else most for key, most in limits.items()}


def _outage(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.OnOutage:
    """Read what happens in an outage: a word, or {skip: 5m}, which may have `auto_replay` beside it."""
    if isinstance(node, yaml.ScalarNode):
        return spec_pb2.OnOutage(then=_THEN[reader.choice(node, path, tuple(_THEN))])
    values = reader.mapping(node, path, (*_THEN, REPLAY))
    replays = values.pop(REPLAY, None)
    if len(values) != 1:
        problem = (
            f"{path} must be {' or '.join(_THEN)}, or one of {{wait: TIME}}, {{skip: TIME}}, {{fail: TIME}}"
        )
        reader.fail(node, path, "WRONG_TYPE", problem)
        return spec_pb2.OnOutage()
    [(word, after)] = values.items()
    rule = spec_pb2.OnOutage(then=_THEN[word])
    rule.after.FromTimedelta(reader.duration(after, f"{path}.{word}", positive=True))
    rule.auto_replay = replays is not None and reader.boolean(replays, f"{path}.{REPLAY}")
    return rule


def _shown_outage(rule: spec_pb2.OnOutage) -> str | dict[str, str | bool]:
    word = next((word for word, then in _THEN.items() if then == rule.then), "wait")
    if not rule.HasField("after"):
        return word
    return {word: duration(rule.after), **({REPLAY: True} if rule.auto_replay else {})}


def _show_keys(message: Message, keys: Sequence[Key]) -> dict[str, Any]:
    return {key.name: value for key in keys if (value := _value(message, key))}


def file_key(path: str) -> str:
    """Return the key of a dagger file for the path of a sink's field, for example sinks[0].influx.url."""
    for name, kind in sinks.kinds().items():
        for key in flat(kind.KEYS):
            long, short = f".{name}.{key.field}", f".{name}.{key.name}"
            position = path.find(long)
            if position >= 0 and path[position + len(long) : position + len(long) + 1] in ("", ".", "["):
                return path[:position] + short + path[position + len(long) :]
            parent, nested, _ = key.field.rpartition(".")
            if nested and "." not in key.name and path.endswith(f".{name}.{parent}"):
                return path.removesuffix(f".{parent}")
    return path


def bare() -> list[str]:
    """List the kinds that may be written as a word: they have no required keys."""
    return [name for name, kind in sinks.kinds().items() if not any(key.required for key in kind.KEYS)]


def secret(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.SecretRef:
    """Read a reference to a secret: the name of a registered one, or the place where it is."""
    if not isinstance(node, yaml.ScalarNode):
        return place(reader, node, path)
    if any(fields.name(path, node.value)):
        _inline(reader, node, path, f"the name of a registered secret, {_PLACE}")
        return spec_pb2.SecretRef()
    return spec_pb2.SecretRef(name=node.value)


def place(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.SecretRef:
    """Read the place of a secret: {env: NAME} or {file: PATH}."""
    if isinstance(node, yaml.ScalarNode):
        _inline(reader, node, path, _PLACE)
        return spec_pb2.SecretRef()
    kinds = reader.mapping(node, path, ("env", "file"))
    if len(kinds) != 1:
        reader.fail(node, path, "BAD_REFERENCE", f"{path} must be either {{env: NAME}} or {{file: PATH}}")
        return spec_pb2.SecretRef()
    [(kind, value)] = kinds.items()
    return spec_pb2.SecretRef(**{kind: reader.text(value, f"{path}.{kind}")})


def _inline(reader: Reader, node: yaml.Node, path: str, wanted: str) -> None:
    message = f"{path} must be {wanted}: a secret itself is kept nowhere"
    reader.fail(node, path, "INLINE_SECRET", message)


def shown_secret(reference: spec_pb2.SecretRef) -> str | dict[str, str] | None:
    """Make the value of a reference to a secret: the inverse of `secret`; None where none is set."""
    kind = reference.WhichOneof("source")
    if kind == "name":
        return reference.name
    return {kind: getattr(reference, kind)} if kind else None


def fill(
    reader: Reader,
    node: yaml.Node,
    path: str,
    message: Message,
    keys: Sequence[Key],
    *,
    registered: bool = False,
) -> None:
    """Fill a sink's message by the values of a mapping, under these keys.

    registered: the address is that of a registered sink, so that the keys of an address are not required.
    """
    required = [key.name for key in keys if key.required and not (key.address and registered)]
    values = reader.mapping(node, path, [key.name for key in keys], required)
    for key in keys:
        key_path = f"{path}.{key.name}"
        if key.name not in values:
            other, word = key.needed_with
            if other and other in values and getattr(values[other], "value", None) == word:
                problem = f"{key.name} is missing: {other} {word} needs it"
                reader.fail(node, key_path, "MISSING_KEY", problem)
            continue
        _put(reader, values[key.name], key_path, *_field(message, key), key, registered=registered)


def _put(
    reader: Reader,
    value: yaml.Node,
    path: str,
    owner: Message,
    field: FieldDescriptor,
    key: Key,
    *,
    registered: bool,
) -> None:
    """Fill a field of a message by the value of its key."""
    current = getattr(owner, field.name)
    if key.keys:
        current.SetInParent()
        fill(reader, value, path, current, key.keys, registered=registered)
    elif is_map(field):
        current.update(reader.texts(value, path))
    elif field.is_repeated:
        current.extend(reader.text(item, place) for place, item in reader.items(value, path, of="names"))
    elif field.message_type is not None and field.message_type.full_name == SECRET:
        current.CopyFrom(secret(reader, value, path))
    elif field.message_type is not None:
        current.FromTimedelta(reader.duration(value, path))
    else:
        setattr(owner, field.name, _scalar(reader, value, path, field, key))


def _scalar(reader: Reader, value: yaml.Node, path: str, field: FieldDescriptor, key: Key) -> Any:
    if field.enum_type is not None:
        numbers = words(field.enum_type)
        return numbers[reader.choice(value, path, tuple(numbers))]
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return reader.text(value, path)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return reader.boolean(value, path)
    return reader.integer(value, path, least=key.least, most=key.most)


def words(enum: EnumDescriptor) -> dict[str, int]:
    """Return the numbers of an enumeration by their words in a dagger file, without 0, which is unset."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {
        value.name.removeprefix(prefix).lower(): value.number for value in enum.values if value.number != 0
    }


def _value(message: Message, key: Key) -> Any:
    """Make the value of a key; empty or None where its field is not set."""
    owner, field = _field(message, key)
    value = getattr(owner, field.name)
    if key.keys:
        return _show_keys(value, key.keys)
    if field.is_repeated:
        return dict(value) if is_map(field) else list(value)
    if field.message_type is not None and field.message_type.full_name == SECRET:
        return shown_secret(value)
    if field.message_type is not None:
        return duration(value) if owner.HasField(field.name) else None
    if field.enum_type is not None:
        return {number: word for word, number in words(field.enum_type).items()}.get(value, "")
    return value


def _field(message: Message, key: Key) -> tuple[Message, FieldDescriptor]:
    """Find the field that a key fills; return the message it is in, and the field."""
    *parents, name = key.field.split(".")
    for parent in parents:
        message = getattr(message, parent)
    field = message.DESCRIPTOR.fields_by_name[name]
    return message, cast(FieldDescriptor, field)
