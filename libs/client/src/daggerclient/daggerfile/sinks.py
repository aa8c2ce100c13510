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
    """An item of the list of sinks. A kind that needs nothing said may be the bare word."""
    sink = spec_pb2.Sink()
    if isinstance(node, yaml.ScalarNode) and node.value in bare():
        getattr(sink, node.value).SetInParent()
        return sink
    if isinstance(node, yaml.ScalarNode):
        mappings = ", ".join(f"{{{name}: …}}" for name in sinks.names())
        what = f"{path} must be {' or '.join(bare())}, or one of {mappings}"
        reader.fail(node, path, "WRONG_TYPE", what)
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
        known = ", ".join(sinks.names())
        reader.fail(node, path, "MISSING_KEY", f"{path} says no kind of sink: it must have one of {known}")
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
    """A sink under its keys: the inverse of `read`."""
    name = sinks.kind_of(sink)
    if name is None:
        return {}
    message = getattr(sink, name)
    said = _said(message, sinks.load(name).KEYS)
    beside: dict[str, Any] = {key: getattr(sink, key) for key in BESIDE if getattr(sink, key)}
    if sink.HasField(LIMIT):
        beside[LIMIT] = shown_limit(sink.limit)
    if sink.HasField(OUTAGE):
        beside[OUTAGE] = _shown_outage(sink.on_outage)
    if sink.HasField(REFUSED):
        beside[REFUSED] = sink.max_refused
    return {name: said, **beside} if said or beside or name not in bare() else name


def limit(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.RateLimit:
    """How much may be written."""
    made = spec_pb2.RateLimit()
    for key, number in reader.mapping(node, path, LIMITS).items():
        read = reader.number if key in PER_SECOND else partial(reader.integer, least=1)
        setattr(made, key, read(number, f"{path}.{key}"))
    return made


def shown_limit(value: spec_pb2.RateLimit) -> dict[str, float]:
    """How much may be written, under its keys."""
    said = {key: getattr(value, key) for key in LIMITS if getattr(value, key)}
    return {key: int(most) if most == int(most) else most for key, most in said.items()}


def _outage(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.OnOutage:
    """A word; or, for one that is about a time, {skip: 5m}, which may have `auto_replay` beside it."""
    if isinstance(node, yaml.ScalarNode):
        return spec_pb2.OnOutage(then=_THEN[reader.choice(node, path, tuple(_THEN))])
    values = reader.mapping(node, path, ("skip", "fail", REPLAY))
    replays = values.pop(REPLAY, None)
    if len(values) != 1:
        what = f"{path} must be {' or '.join(_THEN)}, or one of {{skip: TIME}}, {{fail: TIME}}"
        reader.fail(node, path, "WRONG_TYPE", what)
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


def _said(message: Message, keys: Sequence[Key]) -> dict[str, Any]:
    return {key.name: value for key in keys if (value := _value(message, key))}


def file_key(path: str) -> str:
    """The key of a dagger file behind the path of a field, for example sinks[0].influx.url."""
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
    """The kinds that may be written as a word: nothing of them has to be said."""
    return [name for name, kind in sinks.kinds().items() if not any(key.required for key in kind.KEYS)]


def secret(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.SecretRef:
    """A secret: the name of a registered one, or where it is."""
    if not isinstance(node, yaml.ScalarNode):
        return place(reader, node, path)
    if any(fields.name(path, node.value)):
        _inline(reader, node, path, f"the name of a registered secret, {_PLACE}")
        return spec_pb2.SecretRef()
    return spec_pb2.SecretRef(name=node.value)


def place(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.SecretRef:
    """Where a secret is: {env: NAME} or {file: PATH}."""
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
    """A secret: the name of a registered one, or {env: NAME} or {file: PATH}."""
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
    """Fill a sink's message by the values of a mapping, under these keys; where a registered one says where
    the sink is, that is not required.
    """
    required = [key.name for key in keys if key.required and not (key.address and registered)]
    values = reader.mapping(node, path, [key.name for key in keys], required)
    for key in keys:
        key_path = f"{path}.{key.name}"
        if key.name not in values:
            other, word = key.needed_with
            if other and other in values and getattr(values[other], "value", None) == word:
                what = f"{key.name} is missing: {other} {word} needs it"
                reader.fail(node, key_path, "MISSING_KEY", what)
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
    held = getattr(owner, field.name)
    if key.keys:
        held.SetInParent()
        fill(reader, value, path, held, key.keys, registered=registered)
    elif is_map(field):
        held.update(reader.texts(value, path))
    elif field.is_repeated:
        held.extend(reader.text(item, place) for place, item in reader.items(value, path, of="names"))
    elif field.message_type is not None and field.message_type.full_name == SECRET:
        held.CopyFrom(secret(reader, value, path))
    elif field.message_type is not None:
        held.FromTimedelta(reader.duration(value, path))
    else:
        setattr(owner, field.name, _scalar(reader, value, path, field, key))


def _scalar(reader: Reader, value: yaml.Node, path: str, field: FieldDescriptor, key: Key) -> Any:
    if field.enum_type is not None:
        known = words(field.enum_type)
        return known[reader.choice(value, path, tuple(known))]
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return reader.text(value, path)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return reader.boolean(value, path)
    return reader.integer(value, path, least=key.least, most=key.most)


def words(enum: EnumDescriptor) -> dict[str, int]:
    """The words of a dagger file for the values of an enumeration, but for what is unsaid."""
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {
        value.name.removeprefix(prefix).lower(): value.number for value in enum.values if value.number != 0
    }


def _value(message: Message, key: Key) -> Any:
    """What stands under a key; nothing where nothing is said."""
    owner, field = _field(message, key)
    value = getattr(owner, field.name)
    if key.keys:
        return _said(value, key.keys)
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
    """The field that a key fills, and the message it is in."""
    *parents, name = key.field.split(".")
    for parent in parents:
        message = getattr(message, parent)
    field = message.DESCRIPTOR.fields_by_name[name]
    return message, cast(FieldDescriptor, field)
