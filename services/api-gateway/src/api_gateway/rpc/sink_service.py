"""SinkService: registered sinks, and the secrets that they and specifications refer to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2

from access.decision import is_administrator
from api_gateway.auth.authentication import principal
from api_gateway.auth.masking import Masking
from api_gateway.hosts.sink_tests import SinkTests
from api_gateway.not_found import add_suggestion
from api_gateway.rpc import lists, removing
from api_gateway.rpc.registering import put
from api_gateway.state.reader import StateReader
from api_gateway.state.writer import RequestWriter
from api_gateway.validate.dagger_requests import meta_of
from api_gateway.validate.reachability import Reach
from chassis.interceptors import Context, actor
from chassis.logging import note
from daggerspec import places, secrets, sinks
from daggerspec.places import Place
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold import ownership
from fleet.fold.resolve import FleetCatalogue

pb = gateway_pb2


class SinkService(gateway_pb2_grpc.SinkServiceServicer):
    """Serves registered sinks and secrets."""

    def __init__(
        self,
        fleet: Fleet,
        writer: RequestWriter,
        reader: StateReader,
        reach: Reach,
        tests: SinkTests,
        masking: Masking,
        secret_places: Sequence[Place] = (),
    ) -> None:
        """Remember the parts.

        reach: judges addresses. tests: runs tests of sinks. masking: knows what callers see of written rows.
        secret_places: where owners may have secrets, for which team, and to which addresses these may be
        sent.
        """
        self._reach, self._tests, self._masking = reach, tests, masking
        self._fleet, self._writer, self._reader = fleet, writer, reader
        self._places = secret_places

    async def RegisterSecret(  # noqa: N802 - gRPC's name
        self, request: pb.RegisterSecretRequest, context: Context
    ) -> pb.RegisterSecretResponse:
        """Register a secret, or replace one."""
        secret = request.secret
        event = events_pb2.SecretRegistered(meta=meta_of(request), secret=secret)
        version, sequence = await put(
            self._writer, request, event, "secret", secret.name, self._fleet.catalogue.secrets,
            lambda: (*secrets.violations("secret", secret), *self._forbidden("secret", secret)),
        )  # fmt: skip
        return pb.RegisterSecretResponse(secret=secret, version=version, sequence=sequence)

    async def GetSecret(  # noqa: N802 - gRPC's name
        self, request: pb.GetSecretRequest, context: Context
    ) -> pb.GetSecretResponse:
        """Return one secret and its version."""
        entry, sequence = await lists.one(self._reader, request, context, "secret", request.name)
        return pb.GetSecretResponse(secret=entry.value, version=entry.version, sequence=sequence)

    async def ListSecrets(  # noqa: N802 - gRPC's name
        self, request: pb.ListSecretsRequest, context: Context
    ) -> pb.ListSecretsResponse:
        """List all secrets by name."""
        listed, more, sequence = await lists.page(self._reader, request, context, "secret", of="secret")
        return pb.ListSecretsResponse(secrets=listed, next_page_token=more, sequence=sequence)

    async def DeleteSecret(  # noqa: N802 - gRPC's name
        self, request: pb.DeleteSecretRequest, context: Context
    ) -> pb.DeleteSecretResponse:
        """Remove a secret that nothing uses."""
        event = events_pb2.SecretRemoved(meta=meta_of(request), name=request.name)
        sequence = await removing.remove(self._writer, self._fleet, request, event)
        return pb.DeleteSecretResponse(sequence=sequence)

    async def RegisterSink(  # noqa: N802 - gRPC's name
        self, request: pb.RegisterSinkRequest, context: Context
    ) -> pb.RegisterSinkResponse:
        """Register a sink, or replace one."""
        sink = sinks.fill_registration_defaults(request.sink)
        sink.exempt = is_administrator(principal(), self._fleet)
        event = events_pb2.SinkRegistered(meta=meta_of(request), sink=sink)
        reach = await self._reach.check_registered("sink.sink", sink)
        if reach.observed:
            note(observed=[violation.reason for violation in reach.observed])
        if self._writer.find_answer(request.request_id, (event,)) is None and self._is_readdressed(sink):
            await self._masking.check_readdressing(sink.name)
        version, sequence = await put(
            self._writer, request, event, "sink", sink.name, self._fleet.catalogue.sinks,
            lambda: (*self._wrong("sink", sink), *reach.wrong),
        )  # fmt: skip
        if not request.validate_only:
            await self._give_containers(sink)
        return pb.RegisterSinkResponse(sink=sink, version=version, sequence=sequence)

    async def GetSink(  # noqa: N802 - gRPC's name
        self, request: pb.GetSinkRequest, context: Context
    ) -> pb.GetSinkResponse:
        """Return one registered sink and its version."""
        entry, sequence = await lists.one(self._reader, request, context, "sink", request.name)
        return pb.GetSinkResponse(sink=entry.value, version=entry.version, sequence=sequence)

    async def ListSinks(  # noqa: N802 - gRPC's name
        self, request: pb.ListSinksRequest, context: Context
    ) -> pb.ListSinksResponse:
        """List all registered sinks by name."""
        listed, more, sequence = await lists.page(self._reader, request, context, "sink", of="sink")
        return pb.ListSinksResponse(sinks=listed, next_page_token=more, sequence=sequence)

    async def DeleteSink(  # noqa: N802 - gRPC's name
        self, request: pb.DeleteSinkRequest, context: Context
    ) -> pb.DeleteSinkResponse:
        """Remove a registered sink that nothing uses."""
        event = events_pb2.SinkRemoved(meta=meta_of(request), name=request.name)
        sequence = await removing.remove(self._writer, self._fleet, request, event)
        return pb.DeleteSinkResponse(sequence=sequence)

    async def TestSink(  # noqa: N802 - gRPC's name
        self, request: pb.TestSinkRequest, context: Context
    ) -> AsyncIterator[pb.TestSinkResponse]:
        """Test whether a registered sink, or those of a specification, can be written to."""
        if request.sink:
            lists.entry(self._fleet, "sink", request.sink)
        async with aclosing(self._tests.steps(request, context)) as steps:
            async for step in steps:
                yield step

    def _is_readdressed(self, sink: spec_pb2.RegisteredSink) -> bool:
        """Return whether daggers that use a registered sink would write over another
        connection than before.
        """
        entry = self._fleet.catalogue.sinks.get(sink.name)
        return entry is not None and (entry.value.sink, entry.value.by_team) != (sink.sink, sink.by_team)

    def _forbidden(self, path: str, secret: spec_pb2.Secret) -> Iterator[Violation]:
        """Yield violations where a secret's place, or an address it may be sent to, is not allowed to the
        caller.
        """
        if is_administrator(principal(), self._fleet):
            return
        allowed = places.describe_places(self._places, secret.team)
        if not any(place.has(secret.place) for place in self._places):
            text = f"is in no place that the administrator allows; allowed to team {secret.team}: {allowed}"
            yield Violation(f"{path}.place", text, "FORBIDDEN_PLACE")
            return
        for number, address in enumerate(secret.addresses):
            if not places.allowed(self._places, secret.place, secret.team, address):
                text = f"may not be sent there by team {secret.team}; allowed: {allowed}"
                yield Violation(f"{path}.addresses[{number}]", text, "FORBIDDEN_ADDRESS")

    async def _give_containers(self, sink: spec_pb2.RegisteredSink) -> None:
        """Give the containers that an administrator registers for teams to these teams, where they exist."""
        catalogue = self._fleet.catalogue
        for team, place in sinks.team_containers(sink, FleetCatalogue(self._fleet)) if sink.exempt else ():
            if team in catalogue.teams and str(place) not in catalogue.destinations:
                owned = access_pb2.Destination(name=str(place), team=team)
                meta = events_pb2.RequestMeta(actor=actor())
                event = events_pb2.DestinationGiven(meta=meta, destination=owned)
                await self._writer.write(owned.name, event, "", path="sink.by_team")

    def _wrong(self, path: str, sink: spec_pb2.RegisteredSink) -> Iterator[Violation]:
        for violation in sinks.registration(path, sink, FleetCatalogue(self._fleet)):
            yield add_suggestion(violation, self._fleet)
        for team, place in sinks.team_containers(sink, FleetCatalogue(self._fleet)):
            if (why := ownership.refuse_destination(self._fleet.catalogue, place, team)) is not None:
                yield Violation(f"{path}.by_team", why.detail, why.reason, metadata=why.metadata)
        before = self._fleet.catalogue.sinks.get(sink.name)
        was, kind = before and before.value.sink.WhichOneof("kind"), sink.sink.WhichOneof("kind")
        if was is not None and kind is not None and was != kind:
            text = f"must stay {was}, which those who name it are: register another name"
            yield Violation(f"{path}.sink", text, "WRONG_KIND")
