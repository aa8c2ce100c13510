"""Calls of the gateway, with deadlines and request ids; what may have been taken is asked again."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc
from daggers.v1 import access_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf.message import Message

from chassis.errors import ApiError, from_rpc_error
from chassis.rotation import ReloadedValue
from daggerclient.channel import channel
from daggerclient.channel import token as token_of
from daggerclient.errors import (
    UNREACHED,
    ClientError,
    NotCompletedError,
    OutcomeUnknownError,
    RefusedError,
    SettingError,
    failure,
)

DEADLINE_S = 30.0
DEGRADED = "x-daggers-degraded"
PATIENCE_S = 60.0
PAUSE_S = 1.0
# what the gateway needs of a call's deadline to say that a wait is over
_ANSWER_S = 2.0

Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True)
class AcceptedRequest:
    """A request that was accepted: the dagger after it, and its place in the control topic."""

    dagger: gateway_pb2.Dagger
    sequence: int


class Client:
    """A connection to api-gateway, open inside a `with` block.

    address:    host:port, or https://host:port for TLS.
    ca_file:    PEM file of the authority to trust, for TLS.
    token_file: file that holds the bearer token, if the gateway asks for one; read again when it changes.
    token:      asked for it at each call instead; what it raises goes to the caller.
    warn:       called with each new sentence that says why answers may be behind the truth, or are late.
    patience_s: how long a request whose outcome is unknown is asked again.
    proxy:      URL of an HTTP proxy that stands before the gateway; the environment's is never asked.

    Its methods raise RefusedError and UnreachableError, or what `explain_error` makes of them.
    """

    def __init__(
        self,
        address: str,
        *,
        ca_file: Path | None = None,
        token_file: Path | None = None,
        token: Callable[[], str] | None = None,
        warn: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
        proxy: str | None = None,
    ) -> None:
        self.address = address
        self._patience_s = patience_s
        self._warn = warn
        self._warned: set[str] = set()
        self._token = token
        if token_file:
            self._token = ReloadedValue(
                partial(token_of, token_file),
                token_file,
                unusable=(SettingError,),
                refused=self._warn_once,
            )
        self._channel = channel(address, ca_file, proxy)
        self.daggers = gateway_pb2_grpc.DaggerServiceStub(self._channel)
        self.catalog = gateway_pb2_grpc.CatalogServiceStub(self._channel)
        self.access = gateway_pb2_grpc.AccessServiceStub(self._channel)
        self.alerts = gateway_pb2_grpc.AlertServiceStub(self._channel)
        self.audit = gateway_pb2_grpc.AuditServiceStub(self._channel)
        self.fleet = gateway_pb2_grpc.FleetServiceStub(self._channel)
        self.sinks = gateway_pb2_grpc.SinkServiceStub(self._channel)
        self.quarantine = gateway_pb2_grpc.QuarantineServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def call(
        self, method: Callable[..., Answer], request: Message, *, deadline_s: float = DEADLINE_S
    ) -> Answer:
        """Make one unary call; a request that can carry an id gets a fresh one.

        A request that may have been taken, though nobody acknowledged it, is sent again under its id, which
        counts once. Raises OutcomeUnknownError when that stays so for `patience_s`.
        """
        try:
            return self.ask(method, request, deadline_s=deadline_s)
        except ClientError as error:
            raise self.explain_error(error) from error.__cause__

    def explain_error(self, error: ClientError) -> Exception:
        """Return what is raised for a failed call: override it to raise another error, or other words."""
        return error

    def ask(
        self, method: Callable[..., Answer], request: Message, *, deadline_s: float = DEADLINE_S
    ) -> Answer:
        """Make one unary call as `call` does, but raise the ClientError itself, past `explain_error`."""
        named = "request_id" in request.DESCRIPTOR.fields_by_name
        if named and not getattr(request, "request_id"):  # noqa: B009 - not every request has it
            request.request_id = uuid.uuid4().hex  # type: ignore[attr-defined] # looked up in the line above
        changes = named and not getattr(request, "validate_only", False)
        doubt, end = "", time.monotonic() + self._patience_s
        while True:
            try:
                answer, done = method.with_call(request, timeout=deadline_s, metadata=self._metadata())  # type: ignore[attr-defined] # a stub's method
            except grpc.RpcError as error:
                problem = from_rpc_error(error)
                if self._waited(problem, end):
                    continue
                doubt = doubt or (_doubt(problem) if changes else "")
                if not doubt or problem.code not in UNREACHED:
                    raise failure(problem, self.address) from error
                if time.monotonic() > end:
                    raise OutcomeUnknownError(
                        doubt,
                        address=self.address,
                        request_id=getattr(request, "request_id", ""),
                        name=getattr(request, "name", ""),
                    ) from error
                self._warn_once(f"{doubt}: it may have been taken all the same, asking again under its id")
                time.sleep(PAUSE_S)
            else:
                break
        if why := dict(done.trailing_metadata() or ()).get(DEGRADED):
            self._warn_once(f"the gateway is degraded: {why}")
        return cast("Answer", answer)

    def _waited(self, problem: ApiError, end: float) -> bool:
        """Wait as long as the gateway asks of a call that exceeds a limit; return whether to call again."""
        pause = problem.retry_after
        if problem.code is not grpc.StatusCode.RESOURCE_EXHAUSTED or pause is None:
            return False
        if time.monotonic() + pause.total_seconds() > end:
            return False
        limit = problem.metadata.get("limit", problem.reason)
        self._warn_once(f"the gateway takes no more of this caller just now ({limit}): asking again")
        time.sleep(pause.total_seconds())
        return True

    def _metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return (("authorization", f"Bearer {self._token()}"),) if self._token else ()

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)

    def watch(
        self, request: gateway_pb2.WatchEventsRequest, *, deadline_s: float | None = DEADLINE_S
    ) -> Iterator[gateway_pb2.WatchEventsResponse]:
        """Yield the steps of WatchEvents, as they come."""
        return self.stream(self.daggers.WatchEvents, request, deadline_s=deadline_s)

    def stream(
        self,
        method: Callable[..., Iterator[Answer]],
        request: Message,
        *,
        deadline_s: float | None = DEADLINE_S,
    ) -> Iterator[Answer]:
        """Yield the responses of a streaming call, as they come. Raises: ClientError."""
        end, begun = time.monotonic() + self._patience_s, False
        while True:
            steps: Any = method(request, timeout=deadline_s, metadata=self._metadata())
            try:
                for step in steps:
                    begun = True
                    yield step
            except grpc.RpcError as error:
                problem = from_rpc_error(error)
                if begun or not self._waited(problem, end):
                    raise self.explain_error(failure(problem, self.address)) from error
            else:
                return
            finally:
                steps.cancel()

    def pages(self, method: Callable[..., Answer], request: Message) -> Iterator[Answer]:
        """Yield every page of a list, from the one that the request is for. Raises: ClientError."""
        page_request: Any = type(request)()
        page_request.CopyFrom(request)
        while True:
            page: Any = self.call(method, page_request)
            yield page
            if not page.next_page_token:
                return
            page_request.page_token = page.next_page_token

    def get(self, name: str, *, min_sequence: int = 0) -> gateway_pb2.Dagger:
        """Get one dagger, as it is at `min_sequence` or later. Raises: ClientError."""
        request = gateway_pb2.GetDaggerRequest(name=name, min_sequence=min_sequence)
        return self.call(self.daggers.GetDagger, request).dagger

    def find(self, name: str, *, min_sequence: int = 0) -> gateway_pb2.Dagger | None:
        """Get one dagger, or None when there is none of that name. Raises: ClientError for all else."""
        request = gateway_pb2.GetDaggerRequest(name=name, min_sequence=min_sequence)
        try:
            return self.ask(self.daggers.GetDagger, request).dagger
        except ClientError as error:
            if isinstance(error, RefusedError) and error.code is grpc.StatusCode.NOT_FOUND:
                return None
            raise self.explain_error(error) from error.__cause__

    def apply(
        self,
        name: str,
        spec: spec_pb2.DaggerSpec,
        *,
        expected_version: int | None = None,
        validate_only: bool = False,
        message: str = "",
    ) -> gateway_pb2.ApplyDaggerResponse:
        """Bring a dagger to a specification; or only check it, and say what would be done.

        `message` says why, for who reads its history.
        """
        request = gateway_pb2.ApplyDaggerRequest(
            name=name,
            spec=spec,
            expected_version=expected_version,
            validate_only=validate_only,
            message=message,
        )
        return self.call(self.daggers.ApplyDagger, request)

    def plan(
        self, name: str, spec: spec_pb2.DaggerSpec, *, try_sinks: bool = False
    ) -> gateway_pb2.PlanDaggerResponse:
        """Plan an `apply`: what it would do, and what that does to windows and rows.

        try_sinks: a host tries the sinks, where they or their columns are others, which takes seconds.
        """
        request = gateway_pb2.PlanDaggerRequest(name=name, spec=spec, try_sinks=try_sinks)
        return self.call(self.daggers.PlanDagger, request)

    def wait_completed(
        self, stream: str, offsets: Mapping[str, int], *, dagger: str = "", timeout_s: float = PATIENCE_S
    ) -> gateway_pb2.WaitCompletedResponse:
        """Wait until all records of a stream up to these are in every sink, and return whose they are.

        offsets: of the last record that is meant, by "topic/partition". dagger: only this one, else all that
        read the stream. Raises: NotCompletedError after `timeout_s`; RefusedError at once where nobody will
        have them: no dagger reads the stream, or one that does is stopped.
        """
        request = gateway_pb2.WaitCompletedRequest(stream=stream, offsets=offsets, dagger=dagger)
        end = time.monotonic() + timeout_s
        while True:
            left = max(end - time.monotonic(), 0.0)
            deadline_s = min(left + _ANSWER_S, DEADLINE_S)
            answer = self.call(self.daggers.WaitCompleted, request, deadline_s=deadline_s)
            if answer.completed:
                return answer
            if time.monotonic() >= end:
                raise NotCompletedError(answer, timeout_s)

    def revisions(self, name: str) -> Iterator[gateway_pb2.Revision]:
        """Yield the revisions of a dagger, newest first; pages are read as they are consumed."""
        request = gateway_pb2.ListRevisionsRequest(name=name)
        for page in self.pages(self.daggers.ListRevisions, request):
            yield from page.revisions

    def clusters(self) -> Sequence[spec_pb2.Cluster]:
        """List every registered cluster."""
        pages = self.pages(self.catalog.ListClusters, gateway_pb2.ListClustersRequest())
        return [cluster for page in pages for cluster in page.clusters]

    def register_cluster(
        self, cluster: spec_pb2.Cluster, *, validate_only: bool = False
    ) -> gateway_pb2.RegisterClusterResponse:
        """Register a cluster, or replace one; or only check it."""
        request = gateway_pb2.RegisterClusterRequest(cluster=cluster, validate_only=validate_only)
        return self.call(self.catalog.RegisterCluster, request)

    def streams(self, message: str = "") -> Sequence[spec_pb2.Stream]:
        """List every registered stream; with `message`, those that carry it."""
        pages = self.pages(self.catalog.ListStreams, gateway_pb2.ListStreamsRequest(message=message))
        return [stream for page in pages for stream in page.streams]

    def references(self) -> Sequence[spec_pb2.ReferenceTable]:
        """List every registered reference table."""
        pages = self.pages(self.catalog.ListReferences, gateway_pb2.ListReferencesRequest())
        return [reference for page in pages for reference in page.references]

    def secrets(self) -> Sequence[spec_pb2.Secret]:
        """List every registered secret: where it is, never its value."""
        pages = self.pages(self.sinks.ListSecrets, gateway_pb2.ListSecretsRequest())
        return [secret for page in pages for secret in page.secrets]

    def registered_sinks(self) -> Sequence[spec_pb2.RegisteredSink]:
        """List every registered sink."""
        pages = self.pages(self.sinks.ListSinks, gateway_pb2.ListSinksRequest())
        return [sink for page in pages for sink in page.sinks]

    def teams(self) -> Sequence[access_pb2.Team]:
        """List every team."""
        pages = self.pages(self.access.ListTeams, gateway_pb2.ListTeamsRequest())
        return [team for page in pages for team in page.teams]

    def accounts(self, team: str = "") -> Sequence[access_pb2.ServiceAccount]:
        """List every service account that the caller may see; with `team`, those of it."""
        pages = self.pages(self.access.ListServiceAccounts, gateway_pb2.ListServiceAccountsRequest(team=team))
        return [account for page in pages for account in page.accounts]

    def grants(self) -> Sequence[access_pb2.StreamGrant]:
        """List the grants of streams: which teams may read each."""
        pages = self.pages(self.access.ListStreamGrants, gateway_pb2.ListStreamGrantsRequest())
        return [grant for page in pages for grant in page.grants]

    def destinations(self, team: str = "") -> Sequence[access_pb2.Destination]:
        """List the destinations that sinks write to, each with its team; with `team`, those of it."""
        pages = self.pages(self.access.ListDestinations, gateway_pb2.ListDestinationsRequest(team=team))
        return [destination for page in pages for destination in page.destinations]

    def messages(self) -> Sequence[str]:
        """List the names of every registered message."""
        pages = self.pages(self.catalog.ListSchemas, gateway_pb2.ListSchemasRequest())
        return [message for page in pages for message in page.messages]

    def schema(self, message: str) -> spec_pb2.Schema:
        """Get the files of a registered message."""
        return self.call(self.catalog.GetSchema, gateway_pb2.GetSchemaRequest(message=message)).schema


def _doubt(error: ApiError) -> str:
    """Say why a request that failed so may have been taken all the same; empty when it was not."""
    if error.reason == "LOG_UNAVAILABLE":
        return "Kafka did not acknowledge the request"
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "the gateway did not answer in time"
    transport = error.code in UNREACHED and error.reason == error.code.name
    reached = not error.message.startswith(("failed to connect", "errors resolving"))
    return "the connection to the gateway broke" if transport and reached else ""
