"""Kinds of sinks. This folder is the registry: `sinks/influx.py` is all that is known of the sink `influx`
beside how it is written to, which is `runtime/sinks/influx.py`. Nothing else lists kinds.

A kind is a module whose docstring says in its first line what it does, and that has what `Kind` of kind.py
says. Its message is the member of its name of the oneof `Sink.kind` in spec.proto.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any, cast

from daggers.v1 import spec_pb2
from google.protobuf.message import Message

from daggerspec import fields, late, outages, query, registered, template
from daggerspec.catalogue import Catalogue, UnresolvedName
from daggerspec.columns import TIMES, Column, Output, Role
from daggerspec.destination import Destination
from daggerspec.keys import Key, flat
from daggerspec.kind import Kind, Resolved, ValidationContext
from daggerspec.protobuf import is_map
from daggerspec.secrets import wrong_use
from daggerspec.state import once, updates
from daggerspec.violation import Violation


@cache  # a look at the folder takes longer than all other checks of a spec
def names() -> tuple[str, ...]:
    """List the kinds of sinks."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache  # each view of a dagger asks
def load(name: str) -> Kind:
    """Import an existing kind."""
    return cast(Kind, importlib.import_module(f"{__name__}.{name}"))


@cache  # each call that writes a specification asks
def value_keys(name: str) -> Sequence[Key]:
    """Return the keys of a kind that take values."""
    return tuple(flat(load(name).KEYS))


def kinds() -> dict[str, Kind]:
    """Import all kinds, by name."""
    return {name: load(name) for name in names()}


def about(kind: Kind) -> str:
    """Return the first sentence of a kind's docstring."""
    return (getattr(kind, "__doc__", "") or "").partition("\n")[0]


def more_about(kind: Kind) -> str:
    """Return the rest of a kind's docstring; empty if it is one sentence."""
    return (getattr(kind, "__doc__", "") or "").partition("\n")[2].strip()


def kind_of(sink: spec_pb2.Sink) -> str | None:
    """Return the kind of a sink; None if it names none, or an unknown one."""
    name = sink.WhichOneof("kind")
    return name if name in names() else None


def fill(sink: spec_pb2.Sink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say the defaults of a sink of a dagger; where it is, its registration says."""
    name = kind_of(sink)
    if name is None:
        return
    kind, own = load(name), getattr(sink, name)
    registered_says = [
        key for key in registered.addresses(kind.KEYS) if sink.registered and not key.said(own)
    ]
    kind.fill(own, dagger, late.spec_of(spec, sink))
    outages.fill(sink)
    for key in registered_says:
        key.clear(own)


def resolve(path: str, sink: spec_pb2.Sink, context: ValidationContext) -> Resolved:
    """Return a sink with the empty parts of its address taken from its registration and its cluster, and the
    violations of names that are not registered. Registered secrets stand by their names.
    """
    resolved = spec_pb2.ResolvedSink(sink=sink)
    name = kind_of(sink)
    if name is None:
        return resolved, [Violation(path, f"must be one of {', '.join(names())}", "REQUIRED")]
    kind, wrong, team = load(name), list[Violation](), context.spec.team
    if sink.registered:
        wrong += registered.take(path, resolved.sink, name, kind.KEYS, team, context.catalogue)
        if not _is_known(path, wrong):
            return resolved, wrong
    wrong += kind.resolve(f"{path}.{name}", resolved, context)
    resolution = context.catalogue.sink(sink.registered) if sink.registered else None
    if resolution is not None and resolution.exempt:
        resolved.ClearField("egress")
    own, whole = getattr(sink, name), getattr(resolved.sink, name)
    wrong += registered.secrets(f"{path}.{name}", own, whole, value_keys(name), team, context.catalogue)
    return resolved, wrong


def all_resolved(path: str, context: ValidationContext) -> Sequence[Resolved]:
    """Resolve all sinks of a dagger; `path` is that of the specification."""
    return [
        resolve(f"{path}.sinks[{number}]", sink, context) for number, sink in enumerate(context.spec.sinks)
    ]


def _is_known(path: str, wrong: Sequence[Violation]) -> bool:
    """Return whether a sink's registration was found: without it its address cannot be checked."""
    return not any(violation.field == f"{path}.registered" for violation in wrong)


def own_secrets(
    sink: spec_pb2.Sink, context: ValidationContext
) -> Iterator[tuple[str, spec_pb2.SecretRef, str]]:
    """Yield the secrets that a sink refers to itself: the field below it, the reference, the address."""
    name = kind_of(sink)
    if name is None:
        return
    own, keys = getattr(sink, name), value_keys(name)
    if not any(key.sent_to and key.said(own) for key in keys):
        return
    whole = getattr(resolve("", sink, context)[0].sink, name)
    for key, reference, to in registered.own_secrets(own, whole, keys):
        yield f"{name}.{key.field}", reference, to


def fill_registration_defaults(value: spec_pb2.RegisteredSink) -> spec_pb2.RegisteredSink:
    """Return a sink that is to be registered, with the defaults of its address filled in."""
    filled_value = spec_pb2.RegisteredSink()
    filled_value.CopyFrom(value)
    if name := kind_of(filled_value.sink):
        kind, own, full = load(name), getattr(filled_value.sink, name), getattr(value.sink, name)
        full = type(full).FromString(full.SerializeToString())
        kind.fill(full, "", spec_pb2.DaggerSpec())
        for key in registered.addresses(kind.KEYS):
            if key.said(full) and not key.said(own):
                key.take(own, full)
    return filled_value


def registration(path: str, value: spec_pb2.RegisteredSink, catalogue: Catalogue) -> Iterator[Violation]:
    """Yield the violations of a sink that is to be registered."""
    yield from registered.plain(path, value)
    above, path, name = path, f"{path}.sink", kind_of(value.sink)
    if name is None:
        yield Violation(path, f"must be one of {', '.join(names())}", "REQUIRED")
        return
    kind, own = load(name), getattr(value.sink, name)
    yield from registered.limits(f"{above}.limit", name, value.limit, kind.CAPABILITIES.limits)
    wrong = list(registered.address(f"{path}.{name}", name, own, kind.KEYS))
    yield from wrong
    reported = {violation.field for violation in wrong}
    address_violations = _address_wrong(f"{path}.{name}", own, value.sink, value, catalogue)
    yield from (violation for violation in address_violations if violation.field not in reported)
    misplaced = list(registered.by_team(f"{above}.by_team", value, kind.KEYS))
    yield from misplaced
    if wrong or misplaced:
        return
    server = _server(value.sink, catalogue)
    for number, parts in enumerate(value.by_team):
        where = f"{above}.by_team[{number}].sink.{name}"
        whole = of_team(value, parts.team)
        yield from _address_wrong(where, getattr(parts.sink, name), whole, value, catalogue)
        if (other := _server(whole, catalogue)) != server:
            text = f"is on another server, {other}: register it as a sink of its own"
            yield Violation(where, text, "OTHER_SERVER")


def of_team(value: spec_pb2.RegisteredSink, team: str) -> spec_pb2.Sink:
    """Return where the daggers of a team write by a registered sink: its address, with the team's parts."""
    name = kind_of(value.sink)
    return registered.of_team(value, team, load(name).KEYS) if name else value.sink


def team_containers(
    value: spec_pb2.RegisteredSink, catalogue: Catalogue
) -> Iterator[tuple[str, Destination]]:
    """Yield each team that has a container of its own by a registered sink, with all that is in it."""
    shared = _place(value.sink, catalogue)
    for parts in value.by_team:
        place = _place(of_team(value, parts.team), catalogue)
        if shared is not None and place is not None and place.container != shared.container:
            yield parts.team, place.whole()


def _place(sink: spec_pb2.Sink, catalogue: Catalogue) -> Destination | None:
    """Return the destination of a registered sink, in which the names that daggers choose are empty."""
    resolved = spec_pb2.ResolvedSink(sink=sink)
    name = kind_of(sink)
    if name is None:
        return None
    list(load(name).resolve("", resolved, ValidationContext("", spec_pb2.DaggerSpec(), catalogue)))
    return destination(resolved)


def _server(sink: spec_pb2.Sink, catalogue: Catalogue) -> str:
    """Return the server of a registered sink; empty if its kind has none."""
    place = _place(sink, catalogue)
    return place.server if place else ""


def _address_wrong(
    path: str, own: Any, sink: spec_pb2.Sink, value: spec_pb2.RegisteredSink, catalogue: Catalogue
) -> Iterator[Violation]:
    """Yield the violations of the parts `own` of the address of `sink`, which is to be registered."""
    name = kind_of(sink) or ""
    kind, whole = load(name), getattr(sink, name)
    # What a kind says of a sink of no dagger: of that, what is about these parts.
    context = ValidationContext("", spec_pb2.DaggerSpec(), catalogue)
    address_violations = [*kind.resolve(path, spec_pb2.ResolvedSink(sink=sink), context)]
    address_violations += _kinds_own(path, kind, whole, context)
    about = tuple(f"{path}.{key.field}" for key in registered.addresses(kind.KEYS) if key.said(own))
    yield from (violation for violation in address_violations if violation.field.startswith(about))
    for key, reference, to in registered.own_secrets(own, whole, value_keys(name)):
        where = f"{path}.{key.field}"
        yield from wrong_use(where, reference, to, catalogue.secret)
        secret = catalogue.secret(reference.name) if reference.name else None
        if secret is not None and not value.exempt and secret.team not in value.teams:
            yield registered.forbidden(where, secret, "a sink of other teams")


def check_names(path: str, sinks: Sequence[spec_pb2.Sink]) -> Iterator[Violation]:
    """Yield the violations of the names that the sinks of a dagger have; `path` is that of the list."""
    names = [sink.name for sink in sinks]
    for number, name in enumerate(names):
        if name:
            yield from fields.short_name(f"{path}[{number}].name", name)
            if names.count(name) > 1:
                text = f"{name} is the name of two sinks"
                yield Violation(f"{path}[{number}].name", text, "SINK_NAME_TWICE")


def display_names(sinks: Sequence[spec_pb2.Sink]) -> list[str]:
    """Name each sink of a dagger: by its own name, else by its kind.

    Several of one kind without names are numbered by their content, not by their position: a list in another
    order changes no name.
    """
    names = [sink.name for sink in sinks]
    used = set(names)
    unnamed = [number for number, name in enumerate(names) if not name]
    for number in sorted(unnamed, key=lambda position: sinks[position].SerializeToString(deterministic=True)):
        kind = str(sinks[number].WhichOneof("kind"))
        numbered = (kind if times == 1 else f"{kind}-{times}" for times in count(1))
        names[number] = next(name for name in numbered if name not in used)
        used.add(names[number])
    return names


def conditions(spec: spec_pb2.DaggerSpec) -> tuple[str, ...]:
    """List the conditions under which sinks take rows, each once; sinks that take all have none."""
    return tuple(dict.fromkeys(sink.when for sink in spec.sinks if sink.when))


def unresolved_names(path: str, sink: spec_pb2.Sink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of a sink's names that are not registered."""
    yield from resolve(path, sink, context)[1]
    yield from _unknown_messages(path, sink, context)


def violations(
    path: str, sink: spec_pb2.Sink, context: ValidationContext, resolution: Resolved
) -> Iterator[Violation]:
    """Yield every violation of a sink; `resolution` is the sink, resolved."""
    yield from outages.violations(path, sink)
    resolved, wrong = resolution
    yield from wrong
    if not _is_known(path, wrong):
        return
    yield from _unknown_messages(path, sink, context)
    name = kind_of(sink)
    if name is None:
        return
    kind = load(name)
    yield from registered.limits(f"{path}.limit", name, sink.limit, kind.CAPABILITIES.limits)
    if late.takes_late(context.spec, sink):
        yield from _violations_of_late(path, sink)
        if not kind.CAPABILITIES.late:
            able = ", ".join(other for other, kind in kinds().items() if kind.CAPABILITIES.late)
            text = f"a {name} sink takes no late records: late.keep names one that does ({able})"
            yield Violation(path, text, "NOT_LATE")
            return
        context = replace(context, spec=late.spec_of(context.spec, sink), output=None)
    yield from _kinds_own(f"{path}.{name}", kind, getattr(resolved.sink, name), context)
    if sink.on_outage.auto_replay and (rows := context.output) is not None:  # noqa: SIM102
        if may_be_older(resolved.sink, rows, updates=updates(context.spec)):
            problem = "cannot be: an old row would replace a newer one, which takes a person (replay --force)"
            yield Violation(f"{path}.on_outage.auto_replay", problem, "NEWER_MAY_EXIST")
    if updates(context.spec) and not kind.CAPABILITIES.upserts:
        upserting = " or ".join(other for other, kind in kinds().items() if kind.CAPABILITIES.upserts)
        problem = (
            f"a {name} sink cannot take updates: {once(context.spec)}, or use a sink that can ({upserting})"
        )
        yield Violation(path, problem, "NOT_UPSERT")
    if query.has_records(context.spec) and not kind.CAPABILITIES.records:
        taking = ", ".join(other for other, kind in kinds().items() if kind.CAPABILITIES.records)
        problem = (
            f"a {name} sink takes no records as they are (payload: record): use one that does ({taking})"
        )
        yield Violation(path, problem, "NOT_RECORDS")


def _violations_of_late(path: str, sink: spec_pb2.Sink) -> Iterator[Violation]:
    """Yield the violations of what goes with rows, of a sink that takes late records, which readers write."""
    if sink.when:
        yield Violation(f"{path}.when", "is about rows: late records have no columns", "UNEXPECTED")
    if sink.HasField("max_refused"):
        text = "is about rows: late records that it refuses are quarantined"
        yield Violation(f"{path}.max_refused", text, "UNEXPECTED")
    if sink.on_outage.then not in (spec_pb2.OnOutage.THEN_UNSPECIFIED, spec_pb2.OnOutage.THEN_WAIT) or (
        outages.spools(sink.on_outage)
    ):
        text = "must be wait, without a time: readers wait for the sink of late records"
        yield Violation(f"{path}.on_outage", text, "UNEXPECTED")


def _kinds_own(path: str, kind: Kind, own: Any, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of a kind's message: by the kind's own rules, then of its numbers, by its keys."""
    wrong = list(kind.violations(path, own, context))
    yield from wrong
    reported = {violation.field for violation in wrong}
    for key in flat(kind.KEYS):
        yield from (violation for violation in key.violations(path, own) if violation.field not in reported)


def _unknown_messages(path: str, sink: spec_pb2.Sink, context: ValidationContext) -> Iterator[Violation]:
    for field, message in messages(sink).items():
        try:
            context.catalogue.message(message)
        except UnresolvedName as error:
            yield Violation(f"{path}.{kind_of(sink)}.{field}", error.detail, error.reason)


def destination(resolved: spec_pb2.ResolvedSink) -> Destination | None:
    """Return the destination of a resolved sink; None if its rows stay with their dagger, or it has no kind.

    A kind says it by a function of this name.
    """
    name = kind_of(resolved.sink)
    asks = getattr(load(name), "destination", None) if name else None
    place: Destination | None = asks(resolved) if asks else None
    return place


def shared_container(kind: str, cluster: spec_pb2.Cluster) -> Destination | None:
    """Return all of the container that a cluster names for sinks of a kind; None if it names none.

    A kind of which a cluster has an address has a function of this name.
    """
    asks = getattr(load(kind), "shared_container", None)
    place: Destination | None = asks(cluster) if asks else None
    return place


def messages(sink: spec_pb2.Sink) -> Mapping[str, str]:
    """Full names of the Protobuf messages that a sink writes, by the fields that name them."""
    name = kind_of(sink)
    return load(name).messages(getattr(sink, name)) if name else {}


def has_own_key(sink: spec_pb2.Sink, rows: Output) -> bool:
    """Return whether another row may take a row's place in a sink: the sink's key is not the rows' own.

    A kind of which that can be so has a function of this name.
    """
    name = kind_of(sink)
    asks = getattr(load(name), "has_own_key", None) if name else None
    return asks is not None and bool(asks(getattr(sink, name or ""), rows))


def compares_versions(sink: spec_pb2.Sink) -> bool:
    """Return whether the sink itself keeps a row that is newer than the written one."""
    name = kind_of(sink)
    return name is not None and load(name).CAPABILITIES.compares_versions


def may_be_older(sink: spec_pb2.Sink, rows: Output, *, updates: bool) -> bool:
    """Return whether a row that was quarantined may be written over a newer one. `updates`: rows are
    written more than once.
    """
    return (updates and not compares_versions(sink)) or has_own_key(sink, rows)


def overwrites(sink: spec_pb2.Sink) -> bool:
    """Return whether a recomputed row takes the place of the one before, in a sink with its defaults.

    A kind that goes by more than `upserts` of its capabilities has a function of this name.
    """
    name = kind_of(sink)
    if name is None:
        return False
    asks = getattr(load(name), "overwrites", None)
    return bool(asks(getattr(sink, name))) if asks else load(name).CAPABILITIES.upserts


def ddl(sink: spec_pb2.Sink, rows: Output) -> Sequence[str]:
    """Return the statements that create what a sink of these rows writes to; none for kinds without them.

    A kind that does has a function of this name.
    """
    name = kind_of(sink)
    says = getattr(load(name), "ddl", None) if name else None
    return tuple(says(getattr(sink, name or ""), rows)) if says else ()


def trigger(spec: spec_pb2.DaggerSpec) -> timedelta | None:
    """Return the shortest interval of batches that a sink prefers; None if one has no preference."""
    names = [kind_of(sink) for sink in spec.sinks if not late.takes_late(spec, sink)]
    context = [load(name).CAPABILITIES.trigger if name else None for name in names]
    wanted = [name for name in context if name is not None]
    return min(wanted) if wanted and len(wanted) == len(context) else None


def telling(sink: spec_pb2.Sink, columns: Sequence[Column]) -> tuple[str, ...]:
    """Names of the columns that decide which rows of a sink are one, in what order they are read back, or
    where they lie: its tags, the time of a row, and what the sink names. More than do, never less.
    """
    name = kind_of(sink)
    if name is None:
        return ()
    texts = set(_texts(getattr(sink, name)))
    named = texts | {reference.column for text in texts for reference in template.references(text)}
    if not load(name).CAPABILITIES.keeps_order:
        named |= {column.name for column in columns if column.role is Role.TAG or column.name in TIMES}
    return tuple(column.name for column in columns if column.name in named)


def _texts(message: Message) -> Iterator[str]:
    """Yield all texts of a message, keys of maps among them."""
    for descriptor, value in message.ListFields():
        if is_map(descriptor):
            yield from (text for entry in value.items() for text in entry if isinstance(text, str))
            continue
        for part in value if descriptor.is_repeated else (value,):
            if isinstance(part, str):
                yield part
            elif isinstance(part, Message):
                yield from _texts(part)


def is_time_series(spec: spec_pb2.DaggerSpec) -> bool:
    """Return whether rows of a dagger become points of a time-series store."""
    return any(name and load(name).TIME_SERIES for name in map(kind_of, spec.sinks))


def new_column(sink: spec_pb2.Sink, column: str) -> str:
    """Describe what a new column changes where the rows go; empty if nothing else does.

    A kind that has something to say has a function of this name.
    """
    name = kind_of(sink)
    says = getattr(load(name), "new_column", None) if name else None
    return str(says(getattr(sink, name or ""), column)) if says else ""
