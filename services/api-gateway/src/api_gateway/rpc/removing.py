"""Remove a registered resource: validated, refused while it is used, appended."""

from __future__ import annotations

from typing import TypeAlias

from daggers.v1 import gateway_pb2

from api_gateway.not_found import no_entry
from api_gateway.state.writer import RequestWriter, refusal_error
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import refuse
from fleet import Fleet
from fleet.fold.answers import Code
from fleet.fold.catalogue import REMOVALS, Removal

RemovalRequest: TypeAlias = (
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


async def remove(writer: RequestWriter, fleet: Fleet, request: RemovalRequest, event: Removal) -> int:
    """Remove the resource that an event names; return the sequence, 0 for a request that is only to be
    checked.

    Raises: ApiError.
    """
    answer = writer.find_answer(request.request_id, (event,))
    if answer is None:
        refuse(
            [
                *request_fields.request_id("request_id", request.request_id),
                *request_fields.version("expected_version", request.expected_version),
            ]
        )
        refusal = fleet.refuse_removal(event)
        if refusal is not None and refusal.code == Code.NOT_FOUND:
            kind = REMOVALS[type(event)]
            raise no_entry(kind, event.name, fleet.catalogue.entries(kind))
        if refusal is not None:
            raise refusal_error(refusal)
        if request.validate_only:
            return 0
        answer = await writer.write(event.name, event, request.request_id, path="name")
    return answer.sequence
