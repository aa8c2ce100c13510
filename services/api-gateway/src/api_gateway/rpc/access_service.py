"""AccessService: teams, roles, service accounts, grants of streams, owners of destinations."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import grpc
from daggers.v1 import access_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc
from google.protobuf.duration_pb2 import Duration

from access import decision, principal, tokens
from api_gateway.auth.authentication import principal as caller
from api_gateway.auth.masking import Masking
from api_gateway.hosts.preview_usage import QUOTA, PreviewSeconds
from api_gateway.not_found import no_entry
from api_gateway.rpc import lists, removing
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.reader import StateReader
from api_gateway.state.writer import RequestWriter, refusal_error
from api_gateway.validate import request_fields
from api_gateway.validate.dagger_requests import DaggerRequests, meta_of, refuse
from api_gateway.validate.reachability import Reach
from chassis.errors import ApiError
from chassis.interceptors import Context, actor
from daggerspec import conditionlimits, destination, fields, isolation, receivers, sinks
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet import Answer, Fleet, Refusal
from fleet.fold import quotas, tenancy
from fleet.fold.answers import Code

_TEXT: Final = 200
_MEMBERS: Final = 1_000
_DESTINATION: Final = 4_000
_ID_BYTES: Final = 4

T = TypeVar("T", access_pb2.Team, access_pb2.ServiceAccount, access_pb2.StreamGrant)
pb = gateway_pb2


class AccessService(gateway_pb2_grpc.AccessServiceServicer):
    """Serves permissions and their subjects."""

    def __init__(
        self,
        fleet: Fleet,
        writer: RequestWriter,
        reader: StateReader,
        heartbeats: HeartbeatCache,
        seconds: PreviewSeconds,
        reach: Reach,
        requests: DaggerRequests,
        masking: Masking,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Remember the parts.

        seconds: use of previews by teams on this gateway. reach: finds who writes to which destination.
        requests: validates living daggers. masking: knows what the caller sees. clock: now, UTC.
        """
        self._fleet, self._writer, self._reader, self._clock = fleet, writer, reader, clock
        self._heartbeats, self._seconds, self._reach = heartbeats, seconds, reach
        self._requests, self._masking = requests, masking

    # ---- Teams and roles -----------------------------------------------------------------------------------

    async def RegisterTeam(  # noqa: N802 - gRPC's name
        self, request: pb.RegisterTeamRequest, context: Context
    ) -> pb.RegisterTeamResponse:
        """Register a team, or replace one."""
        event = events_pb2.TeamRegistered(meta=meta_of(request), team=request.team)
        answer = await self._append(request, event, field="team", wrong=lambda: _team(request.team))
        if answer is None:
            return pb.RegisterTeamResponse(team=request.team)
        team, version = self._find_entry("team", request.team.name)
        return pb.RegisterTeamResponse(team=team, version=version, sequence=answer.sequence)

    async def GetTeam(  # noqa: N802 - gRPC's name
        self, request: pb.GetTeamRequest, context: Context
    ) -> pb.GetTeamResponse:
        """Return one team and its version."""
        refuse(list(request_fields.sequence("min_sequence", request.min_sequence)))
        fleet = await self._reader.state(context, request.min_sequence)
        entry = fleet.catalogue.teams.get(request.name)
        if entry is None and request.name != tenancy.PLATFORM:
            raise no_entry("team", request.name, fleet.catalogue.teams)
        team, version = (access_pb2.Team(), 0) if entry is None else (entry.value, entry.version)
        return pb.GetTeamResponse(team=team, version=version, sequence=fleet.sequence)

    async def ListTeams(  # noqa: N802 - gRPC's name
        self, request: pb.ListTeamsRequest, context: Context
    ) -> pb.ListTeamsResponse:
        """List all teams by name."""
        listed, more, sequence = await lists.page(self._reader, request, context, "team")
        return pb.ListTeamsResponse(teams=listed, next_page_token=more, sequence=sequence)

    async def GetTeamUsage(  # noqa: N802 - gRPC's name
        self, request: pb.GetTeamUsageRequest, context: Context
    ) -> pb.GetTeamUsageResponse:
        """Return a team's use of its quotas, and the costs of its daggers."""
        team = request.team
        refuse([*fields.team("team", team), *request_fields.sequence("min_sequence", request.min_sequence)])
        fleet = await self._reader.state(context, request.min_sequence)
        lists.entry(fleet, "team", team)
        uses = {**self._heartbeats.uses(team), QUOTA: self._seconds.seconds_used(team, time.monotonic())}
        return pb.GetTeamUsageResponse(
            uses=[
                pb.QuotaUse(name=name, used=amount, quota=quotas.of(fleet.catalogue, team, name))
                for name, amount in uses.items()
            ],
            daggers=self._heartbeats.costs(team),
            sequence=fleet.sequence,
        )

    async def DeleteTeam(  # noqa: N802 - gRPC's name
        self, request: pb.DeleteTeamRequest, context: Context
    ) -> pb.DeleteTeamResponse:
        """Remove a team that owns nothing."""
        event = events_pb2.TeamRemoved(meta=meta_of(request), name=request.name)
        sequence = await removing.remove(self._writer, self._fleet, request, event)
        return pb.DeleteTeamResponse(sequence=sequence)

    async def GrantRole(  # noqa: N802 - gRPC's name
        self, request: pb.GrantRoleRequest, context: Context
    ) -> pb.GrantRoleResponse:
        """Grant a role to a principal."""
        event = events_pb2.RoleGranted(
            meta=meta_of(request), team=request.team, principal=request.principal, role=request.role
        )
        wrong = lambda: principal.violations("principal", request.principal)  # noqa: E731 - asked of a new one
        answer = await self._append(request, event, field="principal", wrong=wrong)
        team, version = self._find_entry("team", request.team)
        return pb.GrantRoleResponse(team=team, version=version, sequence=_sequence(answer))

    async def RevokeRole(  # noqa: N802 - gRPC's name
        self, request: pb.RevokeRoleRequest, context: Context
    ) -> pb.RevokeRoleResponse:
        """Revoke a principal's role."""
        event = events_pb2.RoleRevoked(meta=meta_of(request), team=request.team, principal=request.principal)
        answer = await self._append(request, event, field="principal")
        team, version = self._find_entry("team", request.team)
        return pb.RevokeRoleResponse(team=team, version=version, sequence=_sequence(answer))

    # ---- Service accounts ----------------------------------------------------------------------------------

    async def CreateServiceAccount(  # noqa: N802 - gRPC's name
        self, request: pb.CreateServiceAccountRequest, context: Context
    ) -> pb.CreateServiceAccountResponse:
        """Create a service account, and return its token."""
        self._check_token_unseen(request.request_id)
        refuse(
            [
                *fields.name("name", request.name),
                *fields.text("description", request.description, limit=_TEXT),
                *_span("lifetime", request.lifetime, given=request.HasField("lifetime")),
            ]
        )
        token, stored_token = self._token(request.name, request)
        account = access_pb2.ServiceAccount(
            name=request.name, team=request.team, description=request.description, tokens=[stored_token]
        )
        event = events_pb2.ServiceAccountCreated(
            meta=events_pb2.RequestMeta(actor=actor()), account=account, role=request.role
        )
        answer = await self._append(request, event, field="name")
        return pb.CreateServiceAccountResponse(
            account=_public(account), token=token, sequence=_sequence(answer)
        )

    async def RotateServiceAccount(  # noqa: N802 - gRPC's name
        self, request: pb.RotateServiceAccountRequest, context: Context
    ) -> pb.RotateServiceAccountResponse:
        """Create a new token for an account, and return it."""
        self._check_token_unseen(request.request_id)
        refuse(
            [
                *fields.duration("overlap", request.overlap),
                *_span("lifetime", request.lifetime, given=request.HasField("lifetime")),
            ]
        )
        token, stored_token = self._token(request.name, request)
        event = events_pb2.ServiceAccountRotated(meta=meta_of(request), name=request.name, token=stored_token)
        event.overlap_until.FromDatetime(self._clock() + request.overlap.ToTimedelta())
        answer = await self._append(request, event, field="name")
        account, _ = self._find_entry("account", request.name)
        return pb.RotateServiceAccountResponse(
            account=_public(account), token=token, sequence=_sequence(answer)
        )

    async def RevokeServiceAccount(  # noqa: N802 - gRPC's name
        self, request: pb.RevokeServiceAccountRequest, context: Context
    ) -> pb.RevokeServiceAccountResponse:
        """Revoke an account."""
        event = events_pb2.ServiceAccountRevoked(meta=meta_of(request), name=request.name)
        sequence = await removing.remove(self._writer, self._fleet, request, event)
        return pb.RevokeServiceAccountResponse(sequence=sequence)

    async def ListServiceAccounts(  # noqa: N802 - gRPC's name
        self, request: pb.ListServiceAccountsRequest, context: Context
    ) -> pb.ListServiceAccountsResponse:
        """List accounts by name."""
        listed, more, sequence = await lists.page(
            self._reader, request, context, "account", of=request.team,
            wanted=lambda account: request.team in ("", account.team),
        )  # fmt: skip
        accounts = [_public(account) for account in listed]
        return pb.ListServiceAccountsResponse(accounts=accounts, next_page_token=more, sequence=sequence)

    # ---- Grants of streams ---------------------------------------------------------------------------------

    async def SetStreamGrant(  # noqa: N802 - gRPC's name
        self, request: pb.SetStreamGrantRequest, context: Context
    ) -> pb.SetStreamGrantResponse:
        """Set which teams may read a stream."""
        event = events_pb2.GrantChanged(meta=meta_of(request), grant=request.grant)
        answer = await self._append(request, event, field="grant", wrong=lambda: _grant(request.grant))
        grant, version = self._find_entry("grant", request.grant.stream)
        return pb.SetStreamGrantResponse(grant=grant, version=version, sequence=_sequence(answer))

    async def ListStreamGrants(  # noqa: N802 - gRPC's name
        self, request: pb.ListStreamGrantsRequest, context: Context
    ) -> pb.ListStreamGrantsResponse:
        """List grants by stream."""
        listed, more, sequence = await lists.page(
            self._reader, request, context, "grant", key=lambda grant: grant.stream
        )
        return pb.ListStreamGrantsResponse(grants=listed, next_page_token=more, sequence=sequence)

    # ---- What teams own ------------------------------------------------------------------------------------

    async def ListDestinations(  # noqa: N802 - gRPC's name
        self, request: pb.ListDestinationsRequest, context: Context
    ) -> pb.ListDestinationsResponse:
        """List owned destinations by name."""
        listed, more, sequence = await lists.page(
            self._reader, request, context, "destination", of=request.team,
            wanted=lambda owned: request.team in ("", owned.team),
        )  # fmt: skip
        return pb.ListDestinationsResponse(destinations=listed, next_page_token=more, sequence=sequence)

    async def GiveDestination(  # noqa: N802 - gRPC's name
        self, request: pb.GiveDestinationRequest, context: Context
    ) -> pb.GiveDestinationResponse:
        """Give a destination to a team."""
        event = events_pb2.DestinationGiven(meta=meta_of(request), destination=request.destination)
        wrong = lambda: _destination(request.destination)  # noqa: E731 - asked of a new one
        answer = await self._append(request, event, field="destination", wrong=wrong)
        owned, version = self._find_entry("destination", request.destination.name)
        return pb.GiveDestinationResponse(destination=owned, version=version, sequence=_sequence(answer))

    async def ReleaseDestination(  # noqa: N802 - gRPC's name
        self, request: pb.ReleaseDestinationRequest, context: Context
    ) -> pb.ReleaseDestinationResponse:
        """Release a destination that no dagger writes to."""
        event = events_pb2.DestinationReleased(meta=meta_of(request), name=request.name)
        await self._masking.check_release(request.name)
        sequence = await removing.remove(self._writer, self._fleet, request, event)
        return pb.ReleaseDestinationResponse(sequence=sequence)

    async def ListDestinationConflicts(  # noqa: N802 - gRPC's name
        self, request: pb.ListDestinationConflictsRequest, context: Context
    ) -> pb.ListDestinationConflictsResponse:
        """List daggers that write to another team's destination, or read fields that their editors may not
        see.
        """
        refuse(list(request_fields.sequence("min_sequence", request.min_sequence)))
        fleet = await self._reader.state(context, request.min_sequence)
        answer = pb.ListDestinationConflictsResponse(sequence=fleet.sequence)
        async for dagger, why in self._reach.conflicts():
            if request.team in ("", dagger.spec.team, why.metadata["team"]):
                owned = access_pb2.Destination(name=why.metadata["owned"], team=why.metadata["team"])
                answer.conflicts.add(
                    dagger=dagger.name,
                    team=dagger.spec.team,
                    destination=why.metadata["destination"],
                    owned=owned,
                )
        for dagger, violation in await self._requests.unseen_by_updaters(request.team):
            answer.sensitive.add(
                dagger=dagger.name,
                team=dagger.spec.team,
                updater=dagger.updater,
                stream=violation.metadata["stream"],
                path=violation.metadata["path"],
                field=violation.field,
                line=violation.line or 0,
                column=violation.column or 0,
            )
        return answer

    # ---- The caller ----------------------------------------------------------------------------------------

    async def WhoAmI(  # noqa: N802 - gRPC's name
        self, request: pb.WhoAmIRequest, context: Context
    ) -> pb.WhoAmIResponse:
        """Return the caller's principal, groups and roles."""
        refuse(list(request_fields.sequence("min_sequence", request.min_sequence)))
        fleet = await self._reader.state(context, request.min_sequence)
        who = caller()
        roles = ((team, decision.role(who, team, fleet)) for team in sorted(fleet.catalogue.teams))
        answer = pb.WhoAmIResponse(
            principal=who.name,
            groups=sorted(who.groups),
            administrator=decision.is_administrator(who, fleet),
            roles=[pb.TeamRole(team=team, role=role) for team, role in roles if team and role],
            sequence=fleet.sequence,
        )
        if who.ends is not None:
            answer.expire_time.FromDatetime(who.ends)
        return answer

    # ---- What they have in common --------------------------------------------------------------------------

    async def _append(
        self,
        request: Any,
        event: tenancy.Change,
        *,
        field: str,
        wrong: Callable[[], Iterable[Violation]] = tuple,
    ) -> Answer | None:
        """Validate a request and append it; return None for one that is only to be checked. Raises: ApiError.

        `wrong` yields violations; it is called for new requests only.
        """
        answer = self._writer.find_answer(request.request_id, (event,))
        if answer is None:
            refuse(
                [
                    *wrong(),
                    *request_fields.request_id("request_id", request.request_id),
                    *request_fields.version("expected_version", event.meta.expected_version),
                    *request_fields.event_size(field, event.ByteSize()),
                ]
            )
            refusal = tenancy.decide(self._fleet.catalogue, event, self._clock())
            if isinstance(refusal, Refusal):
                raise self._build_refusal(refusal)
            if getattr(request, "validate_only", False):
                return None
            subject = tenancy.subject(event) or "platform"
            answer = await self._writer.write(subject, event, request.request_id, path=field)
        return answer

    def _build_refusal(self, refusal: Refusal) -> ApiError:
        """Build the error for a refusal; for an unknown name with a suggestion of a similar one."""
        kind, name = refusal.metadata.get("kind", ""), refusal.metadata.get("name", "")
        if refusal.code != Code.NOT_FOUND or refusal.reason != "NOT_FOUND":
            return refusal_error(refusal)
        return no_entry(kind, name, self._fleet.catalogue.entries(kind))

    def _check_token_unseen(self, request_id: str) -> None:
        """Check that a request was not answered before: a token is returned once. Raises: ApiError."""
        answer = self._fleet.answers.get(request_id) if request_id else None
        if answer is None:
            return
        if answer.refusal is not None:
            raise refusal_error(answer.refusal)
        raise ApiError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "TOKEN_SHOWN",
            "this request was applied, and its token was shown once: rotate the account for another",
            {"request_id": request_id, "sequence": str(answer.sequence)},
        )

    def _token(
        self, name: str, request: pb.CreateServiceAccountRequest | pb.RotateServiceAccountRequest
    ) -> tuple[str, access_pb2.AccountToken]:
        end = self._clock() + request.lifetime.ToTimedelta() if request.HasField("lifetime") else None
        return tokens.create_token(
            name,
            secrets.token_hex(_ID_BYTES),
            secrets.token_bytes(tokens.SECRET_BYTES),
            secrets.token_bytes(tokens.SALT_BYTES),
            end,
        )

    def _find_entry(self, kind: str, name: str) -> tuple[Any, int]:
        """Return a registered resource and its version; (None, 0) where it was removed meanwhile."""
        entry = self._fleet.catalogue.entries(kind).get(name)
        return (entry.value, entry.version) if entry else (None, 0)


def _public(account: access_pb2.ServiceAccount | None) -> access_pb2.ServiceAccount:
    """Copy an account without the hashes of its tokens."""
    public = access_pb2.ServiceAccount()
    if account is not None:
        public.CopyFrom(account)
    for token in public.tokens:
        token.ClearField("salt")
        token.ClearField("hash")
    return public


def _team(team: access_pb2.Team) -> Iterator[Violation]:
    yield from fields.team("team.name", team.name)
    yield from fields.text("team.contact", team.contact, limit=_TEXT)
    if len(team.members) > _MEMBERS:
        yield Violation("team.members", f"are more than {_MEMBERS}: use groups", "TOO_MANY")
    for number, member in enumerate(team.members):
        yield from principal.violations(f"team.members[{number}].principal", member.principal)
    yield from receivers.violations("team.receivers", team.receivers)
    yield from isolation.value_violations("team.isolation", team.isolation)
    yield from conditionlimits.violations("team.conditions", team.conditions)
    for name, quota in ((field.name, value) for field, value in team.quotas.ListFields()):
        if name in quotas.WARNED_ONLY and quota.HasField("hard"):
            text = "has no hard bound: nothing stops records that flow; say soft"
            yield Violation(f"team.quotas.{name}.hard", text, "WARNED_ONLY")
        elif quota.HasField("soft") and quota.HasField("hard") and quota.soft > quota.hard:
            yield Violation(f"team.quotas.{name}.soft", "is more than hard", "OUT_OF_RANGE")


def _grant(grant: access_pb2.StreamGrant) -> Iterator[Violation]:
    if len(grant.read_sensitive) > _MEMBERS:
        yield Violation("grant.read_sensitive", f"are more than {_MEMBERS}: use groups", "TOO_MANY")
    for number, path in enumerate(grant.read_sensitive):
        yield from principal.violations(f"grant.read_sensitive[{number}]", path)


def _destination(owned: access_pb2.Destination) -> Iterator[Violation]:
    """Yield violations for a destination's text: another spelling of a destination would own nothing."""
    field, text = "destination.name", owned.name
    if len(text) > _DESTINATION:
        size = {"size": str(len(text)), "limit": str(_DESTINATION)}
        yield Violation(field, f"has more than {_DESTINATION} characters", "TOO_LARGE", metadata=size)
        return
    try:
        place = destination.parse(text)
    except ValueError as error:
        yield Violation(field, str(error), "INVALID_DESTINATION")
        return
    if place.kind not in sinks.names():
        near = nearest(place.kind, sinks.names())
        suggestion = str(replace(place, kind=near)) if near else None
        text = f"{place.kind} is no kind of sink{hint(near)}"
        yield Violation(field, text, "INVALID_DESTINATION", suggestion=suggestion)
    elif str(place) != text:
        yield Violation(field, f"is written {place}", "INVALID_DESTINATION", suggestion=str(place))


def _span(path: str, span: Duration, *, given: bool) -> Iterator[Violation]:
    """Yield a violation for a token's lifetime that is zero, negative or beyond the limit."""
    if not given:
        return
    if span.seconds <= 0 or not 0 <= span.nanos <= 999_999_999:
        yield Violation(path, "must be longer than 0 s", "OUT_OF_RANGE")
    elif span.seconds > _LONGEST.total_seconds():
        yield Violation(path, f"must not be longer than {_LONGEST.days} days", "OUT_OF_RANGE")


_LONGEST: Final = timedelta(days=3_660)


def _sequence(answer: Answer | None) -> int:
    return answer.sequence if answer else 0
