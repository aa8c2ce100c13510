"""The parts of a fleet's state as messages of state.proto, and back. Pure.

A message says everything of its part: what was read is equal to what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from daggers.v1 import state_pb2
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from daggerspec.protobuf import timestamp
from fleet.fold.answers import Answer, Code, Refusal
from fleet.fold.catalogue import Entry
from fleet.fold.dagger import Dagger, Revision
from fleet.fold.fleet import Fleet, Leader, UnreadableRecord
from fleet.fold.footprint import NOTHING, Footprint
from fleet.fold.hosts import Endpoint, Loss, Standing
from fleet.fold.replay import Outage, Replay
from fleet.fold.shadow import Shadow

Entries: TypeAlias = dict[str, bytes]
"""Encoded parts of a state by their keys."""


def texts(entries: list[tuple[int, str]]) -> state_pb2.Texts:
    """Build a block of texts, each with its sequence."""
    return state_pb2.Texts(
        sequences=[sequence for sequence, _ in entries], texts=[text for _, text in entries]
    )


def read_texts(data: bytes) -> list[tuple[int, str]]:
    """Return the texts of a block, each with its sequence. Raises: DecodeError, ValueError."""
    block = state_pb2.Texts.FromString(data)
    return list(zip(block.sequences, block.texts, strict=True))


def block_key(kind: str, start: int) -> str:
    """Return the key of the block that begins at this sequence; keys are in the order of the log."""
    return f"{kind}/{start:020d}"


def to_bytes(message: Message) -> bytes:
    """Encode a message, deterministically: equal messages give equal bytes."""
    return message.SerializeToString(deterministic=True)


def dagger_state(dagger: Dagger) -> state_pb2.DaggerState:
    """Return the state of a dagger, field by field."""
    values = {name: value for name in _FIELDS if (value := getattr(dagger, name)) is not None}
    values |= {name: timestamp(values[name]) for name in _TIMES & values.keys()}
    values["footprint"] = _encode_footprint(dagger.footprint)
    values["references"] = [
        state_pb2.ReferenceVersion(table=table, version=version) for table, version in dagger.references
    ]
    if dagger.replay is not None:
        values["replay"] = state_pb2.ReplayState(
            **{name: value for name in _REPLAY if (value := getattr(dagger.replay, name)) is not None}
        )
    if dagger.shadow is not None:
        values["shadow"] = state_pb2.ShadowState(
            **{name: value for name in _SHADOW if (value := getattr(dagger.shadow, name)) is not None},
            footprint=_encode_footprint(dagger.shadow.footprint),
        )
    values["outages"] = [
        state_pb2.OutageState(**{name: getattr(outage, name) for name in _OUTAGE})
        for outage in dagger.outages
    ]
    values["revisions"] = [state_pb2.RevisionState(**revision._asdict()) for revision in dagger.revisions]
    return state_pb2.DaggerState(**values)


def _read_dagger(fleet: Fleet, data: bytes) -> None:
    state = state_pb2.DaggerState.FromString(data)
    values = {field_.name: _decode(field_.name, value) for field_, value in state.ListFields()}
    fleet.put(_UNSET.but(**values))


def _decode(name: str, value: Any) -> Any:
    """Return what a dagger has for the value of a field of its message."""
    decode = _DECODERS.get(name)
    return value if decode is None else decode(value)


def _read_replay(state: state_pb2.ReplayState) -> Replay:
    optional = "process", "last_error", "waits", "finished"
    return Replay(
        sequence=state.sequence,
        request=state.request,
        time=state.time.ToDatetime(tzinfo=UTC),
        host=state.host,
        exits=state.exits,
        attempt=state.attempt,
        exit_time=state.exit_time.ToDatetime(tzinfo=UTC) if state.HasField("exit_time") else None,
        **{name: getattr(state, name) for name in optional if state.HasField(name)},  # type: ignore[arg-type] # its own
    )


def _read_shadow(state: state_pb2.ShadowState) -> Shadow:
    return Shadow(
        generation=state.generation,
        version=state.version,
        time=state.time.ToDatetime(tzinfo=UTC),
        epoch=state.epoch,
        driver=state.driver if state.HasField("driver") else None,
        boundary=state.boundary.ToDatetime(tzinfo=UTC) if state.HasField("boundary") else None,
        footprint=_read_footprint(state.footprint),
    )


def _encode_footprint(footprint: Footprint) -> state_pb2.FootprintState | None:
    if footprint == NOTHING:
        return None
    return state_pb2.FootprintState(**footprint._asdict())


def _read_footprint(state: state_pb2.FootprintState) -> Footprint:
    return Footprint(state.cluster, state.heap_mib, state.executors)


_FIELDS: Final = tuple(field_.name for field_ in fields(Dagger))
_TIMES: Final = frozenset(
    field_.name
    for field_ in state_pb2.DaggerState.DESCRIPTOR.fields
    if field_.message_type is Timestamp.DESCRIPTOR
)
_REPLAY: Final = tuple(field_.name for field_ in fields(Replay))
_OUTAGE: Final = tuple(field_.name for field_ in fields(Outage))
_SHADOW: Final = tuple(field_.name for field_ in fields(Shadow) if field_.name != "footprint")
_OPTIONAL: Final = frozenset(
    {
        *("driver", "last_error", "last_exit", "not_before", "starved", "refusals_until"),
        *("handed", "query", "observed_query", "suspected", "left_time", "replay", "shadow"),
    }
)
_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("warnings", "reasons", "destinations", "paused_sinks"), tuple),
    **dict.fromkeys(_TIMES, lambda value: value.ToDatetime(tzinfo=UTC)),
    "references": lambda value: tuple((one.table, one.version) for one in value),
    "outages": lambda value: tuple(Outage(**{name: getattr(one, name) for name in _OUTAGE}) for one in value),
    "revisions": lambda value: tuple(Revision(one.version, one.sequence) for one in value),
    "footprint": _read_footprint,
    "replay": _read_replay,
    "shadow": _read_shadow,
}
"""Decoders by field of a dagger's message; any other field is in a dagger as it is."""


def _find_unset(name: str) -> Any:
    """Return the value of a dagger's field that its message does not have."""
    return None if name in _OPTIONAL else _decode(name, getattr(state_pb2.DaggerState(), name))


_UNSET: Final = Dagger(**{name: _find_unset(name) for name in _FIELDS})
"""Has the values of fields that the message of a dagger does not have."""


def entry_state(
    value: str, entry: Entry[Any], joined: Mapping[str, datetime], writers: Sequence[int] = ()
) -> state_pb2.EntryState:
    """Return the state of a registered object, as `value` of the message. joined: of a stream, when each
    topic joined it. writers: of a destination, as in Catalogue.
    """
    state = state_pb2.EntryState(version=entry.version, sequence=entry.sequence, since=entry.since)
    getattr(state, value).CopyFrom(entry.value)
    getattr(state, value).SetInParent()
    for topic, time in joined.items():
        state.joined.add(topic=topic, time=timestamp(time))
    state.writers.extend(writers)
    return state


def _read_entry(fleet: Fleet, data: bytes) -> None:
    state = state_pb2.EntryState.FromString(data)
    kind = state.WhichOneof("value")
    if kind is None:
        raise ValueError("it holds nothing")
    value = getattr(state, kind)
    getattr(fleet.catalogue, f"{kind}s")[value.stream if kind == "grant" else value.name] = Entry(
        value, state.version, state.sequence, state.since
    )
    if state.writers:
        fleet.catalogue.writers[value.name] = tuple(state.writers)
    if kind == "stream":
        fleet.catalogue.joined[value.name] = {
            topic.topic: topic.time.ToDatetime(tzinfo=UTC) for topic in state.joined
        }


def schemas(fleet: Fleet) -> Entries:
    """Return an entry for each registration that some message is of."""
    blocks: dict[int, state_pb2.SchemaState] = {}
    for name, entry in sorted(fleet.messages.items()):
        sequence = entry.sequence
        if sequence not in blocks:
            blocks[sequence] = state_pb2.SchemaState(sequence=sequence, schema=entry.value)
        blocks[sequence].messages.add(name=name, version=entry.version)
    return {block_key("schemas", sequence): to_bytes(blocks[sequence]) for sequence in sorted(blocks)}


def _read_schema(fleet: Fleet, data: bytes) -> None:
    state = state_pb2.SchemaState.FromString(data)
    for message in state.messages:
        fleet.catalogue.messages[message.name] = Entry(state.schema, message.version, state.sequence)


def encode_removed(fleet: Fleet) -> Entries:
    """Return an entry for all names that are free again; none while there are none."""
    state = state_pb2.RemovedNames()
    for kind, names in sorted(fleet.catalogue.removed.items()):
        for name, version in sorted(names.items()):
            state.names.add(kind=kind, name=name, version=version)
    return {"removed/": to_bytes(state)} if state.names else {}


def _read_removed(fleet: Fleet, data: bytes) -> None:
    for name in state_pb2.RemovedNames.FromString(data).names:
        if name.kind not in fleet.catalogue.removed:
            raise ValueError("it is of no kind")
        fleet.catalogue.removed[name.kind][name.name] = name.version


def claims(fleet: Fleet) -> state_pb2.Claims:
    """Return the claims of the leader and of its predecessors that the fold remembers."""
    claims = state_pb2.Claims()
    for epoch, leader in sorted(fleet.claims.items()):
        claims.claims.add(epoch=epoch, scheduler_id=leader.scheduler_id, host=leader.host)
    return claims


def _read_claims(fleet: Fleet, data: bytes) -> None:
    for claim in state_pb2.Claims.FromString(data).claims:
        fleet.claims[claim.epoch] = Leader(claim.epoch, claim.scheduler_id, claim.host)


def hosts(fleet: Fleet) -> state_pb2.HostEndpoints:
    """Return endpoints and standing of each host."""
    state = state_pb2.HostEndpoints()
    for host in sorted({*fleet.hosts, *fleet.standings}):
        encoded = state.hosts.add(host=host)
        _add_standing(encoded, fleet.standing(host))
        for endpoint in fleet.hosts.get(host, ()):
            encoded.endpoints.add(
                scheduler_id=endpoint.scheduler_id,
                address=endpoint.address,
                tls=endpoint.tls,
                cutover=endpoint.cutover,
            )
    return state


def _add_standing(state: state_pb2.HostState, standing: Standing) -> None:
    state.epoch = standing.epoch
    if standing.registered is not None:
        state.registered.CopyFrom(standing.registered)
    if standing.register_time is not None:
        state.register_time.FromDatetime(standing.register_time)
    if standing.loss is not None:
        state.gone.CopyFrom(standing.loss.event)
        state.gone_sequence = standing.loss.sequence
        state.gone_time.FromDatetime(standing.loss.time)
    if standing.cordon is not None:
        state.cordon.CopyFrom(standing.cordon)


def _read_hosts(fleet: Fleet, data: bytes) -> None:
    for host in state_pb2.HostEndpoints.FromString(data).hosts:
        if host.endpoints:
            fleet.hosts[host.host] = tuple(
                Endpoint(one.address, one.tls, one.scheduler_id, one.cutover) for one in host.endpoints
            )
        if host.HasField("registered") or host.HasField("gone") or host.HasField("cordon"):
            fleet.standings[host.host] = Standing(
                epoch=host.epoch,
                registered=host.registered if host.HasField("registered") else None,
                register_time=host.register_time.ToDatetime(tzinfo=UTC)
                if host.HasField("registered")
                else None,
                loss=_loss(host) if host.HasField("gone") else None,
                cordon=host.cordon if host.HasField("cordon") else None,
            )


def _loss(host: state_pb2.HostState) -> Loss:
    return Loss(host.gone, host.gone_sequence, host.gone_time.ToDatetime(tzinfo=UTC))


def answer_state(id_: str, answer: Answer) -> state_pb2.AnswerState:
    """Return the state of the answer to a request."""
    state = state_pb2.AnswerState(
        id=id_, sequence=answer.sequence, digest=answer.digest, version=answer.version
    )
    if answer.refusal is not None:
        refusal = answer.refusal
        state.refusal.CopyFrom(
            state_pb2.RefusalState(
                code=refusal.code, reason=refusal.reason, detail=refusal.detail, metadata=refusal.metadata
            )
        )
    return state


def _read_answers(fleet: Fleet, data: bytes) -> None:
    for answer in state_pb2.Answers.FromString(data).answers:
        refusal = None
        if answer.HasField("refusal"):
            state = answer.refusal
            refusal = Refusal(Code(state.code), state.reason, state.detail, dict(state.metadata))
        fleet.answers[answer.id] = Answer(answer.sequence, answer.digest, answer.version, refusal)


def _read_facts(fleet: Fleet, data: bytes) -> None:
    fleet.facts.update((id_, sequence) for sequence, id_ in read_texts(data))


def unreadable_state(record: UnreadableRecord) -> state_pb2.UnreadableRecord:
    """Return the state of a record that could not be read."""
    return state_pb2.UnreadableRecord(
        sequence=record.sequence, subject=record.subject, type=record.type, digest=record.digest
    )


def _read_unreadable(fleet: Fleet, data: bytes) -> None:
    for record in state_pb2.UnreadableRecords.FromString(data).records:
        fleet.unreadable.append(UnreadableRecord(record.sequence, record.subject, record.type, record.digest))


READERS: Final[Mapping[str, Callable[[Fleet, bytes], None]]] = {
    "daggers": _read_dagger,
    "clusters": _read_entry,
    "streams": _read_entry,
    "references": _read_entry,
    "secrets": _read_entry,
    "sinks": _read_entry,
    "teams": _read_entry,
    "accounts": _read_entry,
    "grants": _read_entry,
    "destinations": _read_entry,
    "schemas": _read_schema,
    "removed": _read_removed,
    "claims": _read_claims,
    "hosts": _read_hosts,
    "answers": _read_answers,
    "facts": _read_facts,
    "unreadable": _read_unreadable,
}
