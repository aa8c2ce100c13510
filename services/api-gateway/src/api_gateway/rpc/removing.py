"""How what is registered is removed: judged, refused while something uses it, written."""

from __future__ import annotations

from typing import TypeAlias

from daggers.v1 import gateway_pb2

from api_gateway.not_found import no_entry
from api_gateway.state.writer import Writer, refused
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from fleet import Fleet
from fleet.fold.answers import Code
from fleet.fold.catalogue import REMOVALS, Removal

Removing: TypeAlias = (
    gateway_pb2.DeleteClusterRequest
    | gateway_pb2.DeleteSchemaRequest
    | gateway_pb2.DeleteStreamRequest
    | gateway_pb2.DeleteReferenceRequest
    | gateway_pb2.DeleteTeamRequest
    | gateway_pb2.RevokeServiceAccountRequest
    | gateway_pb2.DeleteSecretRequest
    | gateway_pb2.DeleteSinkRequest
    | gateway_pb2.ReleaseDestinationRequest
)


async def remove(writer: Writer, fleet: Fleet, request: Removing, event: Removal) -> int:
    """Remove what an event names: its sequence; 0 of a request that was to be checked only.

    Raises: ApiError.
    """
    answer = writer.answered(request.request_id, (event,))
    if answer is None:
        refuse(
            [
                *request_fields.request_id("request_id", request.request_id),
                *request_fields.version("expected_version", request.expected_version),
            ]
        )
        refusal = fleet.removable(event)
        if refusal is not None and refusal.code == Code.NOT_FOUND:
            kind = REMOVALS[type(event)]
            raise no_entry(kind, event.name, fleet.catalogue.entries(kind))
        if refusal is not None:
            raise refused(refusal)
        if request.validate_only:
            return 0
        answer = await writer.write(event.name, event, request.request_id, path="name")
    return answer.sequence
