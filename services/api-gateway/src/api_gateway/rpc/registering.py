"""How something is registered under a name, or replaced: judged, checked against its version, written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from api_gateway.state.writer import Writer, refused
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from daggerspec.violation import Violation
from fleet.fold.answers import version_mismatch
from fleet.fold.catalogue import Entry

Versioned: TypeAlias = (
    gateway_pb2.RegisterClusterRequest
    | gateway_pb2.RegisterStreamRequest
    | gateway_pb2.RegisterReferenceRequest
    | gateway_pb2.RegisterSecretRequest
    | gateway_pb2.RegisterSinkRequest
)
Registration: TypeAlias = (
    events_pb2.ClusterRegistered
    | events_pb2.StreamRegistered
    | events_pb2.ReferenceRegistered
    | events_pb2.SecretRegistered
    | events_pb2.SinkRegistered
)


async def put(
    writer: Writer,
    request: Versioned,
    event: Registration,
    kind: str,
    name: str,
    entries: Mapping[str, Entry[Any]],
    wrong: Callable[[], Iterable[Violation]],
) -> tuple[int, int]:
    """Register or replace what the request's field `kind` holds: its version and sequence, or zeros for a
    request that was to be checked only.

    `wrong` is asked of a new request alone: what was accepted is not judged again. Raises: ApiError.
    """
    answer = writer.answered(request.request_id, (event,))
    if answer is None:
        refuse([*wrong(), *_envelope(request), *request_fields.event_size(kind, event.ByteSize())])
        _check_version(request, kind, name, entries[name].version if name in entries else 0)
        if request.validate_only:
            return 0, 0
        answer = await writer.write(name, event, request.request_id, path=kind)
    return answer.version, answer.sequence


def _envelope(request: Versioned) -> Iterator[Violation]:
    yield from request_fields.request_id("request_id", request.request_id)
    yield from request_fields.version("expected_version", request.expected_version)


def _check_version(request: Versioned, kind: str, name: str, version: int) -> None:
    if request.HasField("expected_version"):
        refusal = version_mismatch(kind, name, request.expected_version, version)
        if refusal is not None:
            raise refused(refusal)
