"""Register a resource under a name, or replace it: validated, its version checked, appended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from api_gateway.state.writer import RequestWriter, refusal_error
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
    writer: RequestWriter,
    request: Versioned,
    event: Registration,
    kind: str,
    name: str,
    entries: Mapping[str, Entry[Any]],
    wrong: Callable[[], Iterable[Violation]],
) -> tuple[int, int]:
    """Register or replace the resource in the request's field `kind`; return its version and sequence, or
    zeros for a request that is only to be checked.

    `wrong` yields violations; it is called for new requests only. Raises: ApiError.
    """
    answer = writer.find_answer(request.request_id, (event,))
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
            raise refusal_error(refusal)
