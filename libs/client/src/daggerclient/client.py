"""The gateway as the command sees it: every call with a deadline and a request id, every error a CliError."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, spec_pb2
from google.protobuf.message import Message

from chassis.errors import ApiError, from_rpc_error
from cli.errors import CliError, MisusedError, RefusedError, UnreachableError
from cli.naming import flag, headline
from daggerspec.violation import Violation

DEADLINE_S = 30.0
DEGRADED = "x-daggers-degraded"
UNREACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
PATIENCE_S = 60.0
PAUSE_S = 1.0

Answer = TypeVar("Answer", bound=Message)


class Gateway:
    """A connection to api-gateway, open inside a `with` block.

    address:    host:port, or https://host:port for TLS.
    ca_file:    PEM file of the authority to trust, for TLS.
    token_file: file that holds the bearer token, if the gateway asks for one.
    flags:      the flag that fills each field of a request: refusals name it in the place of the field.
    warn:       called with each new sentence that says why answers may be behind the truth, or are late.
    patience_s: how long a request whose outcome is unknown is asked again.
    """

    def __init__(
        self,
        address: str,
        *,
        ca_file: Path | None = None,
        token_file: Path | None = None,
        flags: Mapping[str, str] = MappingProxyType({}),
        warn: Callable[[str], None] = lambda _: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.address = address
        self._patience_s = patience_s
        self._warn = warn
        self._warned: set[str] = set()
        self._flags = flags
        self._metadata: tuple[tuple[str, str | bytes], ...] = (
            (("authorization", f"Bearer {_token(token_file)}"),) if token_file else ()
        )
        self._channel = _channel(address, ca_file)
        self.daggers = gateway_pb2_grpc.DaggerServiceStub(self._channel)
        self.catalog = gateway_pb2_grpc.CatalogServiceStub(self._channel)
        self.quarantine = gateway_pb2_grpc.QuarantineServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def call(self, method: Callable[..., Answer], request: Message) -> Answer:
        """One unary call; a request that can carry an id gets a fresh one.

        A request that may have been taken, though nobody said so, is asked again under its id, which counts
        once. Raises UnreachableError, OUTCOME_UNKNOWN, when that stays so.
        """
        named = "request_id" in request.DESCRIPTOR.fields_by_name
        if named and not getattr(request, "request_id"):  # noqa: B009 - not every request has it
            request.request_id = uuid.uuid4().hex  # type: ignore[attr-defined] # looked up in the line above
        changes = named and not getattr(request, "validate_only", False)
        doubt, end = "", time.monotonic() + self._patience_s
        while True:
            try:
                answer, done = method.with_call(request, timeout=DEADLINE_S, metadata=self._metadata)  # type: ignore[attr-defined] # a stub's method
            except grpc.RpcError as error:
                problem = from_rpc_error(error)
                doubt = doubt or (_doubt(problem) if changes else "")
                if not doubt or problem.code not in UNREACHED:
                    raise refusal(problem, self.address, self._flags) from error
                if time.monotonic() > end:
                    raise _unknown(request, doubt, self.address) from error
                self._warn_once(f"{doubt}: it may have been taken all the same, asking again under its id")
                time.sleep(PAUSE_S)
            else:
                break
        if why := dict(done.trailing_metadata() or ()).get(DEGRADED):
            self._warn_once(f"the gateway is degraded: {why}")
        return cast("Answer", answer)

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)

    def watch(
        self, request: gateway_pb2.WatchEventsRequest, *, deadline_s: float | None = DEADLINE_S
    ) -> Iterator[gateway_pb2.WatchEventsResponse]:
        """The steps of WatchEvents, as they come."""
        stream = self.daggers.WatchEvents(request, timeout=deadline_s, metadata=self._metadata)
        try:
            yield from stream
        except grpc.RpcError as error:
            raise refusal(from_rpc_error(error), self.address, self._flags) from error
        finally:
            stream.cancel()

    def get(self, name: str, *, min_sequence: int = 0) -> gateway_pb2.Dagger:
        """One dagger."""
        request = gateway_pb2.GetDaggerRequest(name=name, min_sequence=min_sequence)
        return self.call(self.daggers.GetDagger, request).dagger

    def clusters(self) -> Sequence[spec_pb2.Cluster]:
        """Every registered cluster."""
        return self.call(self.catalog.ListClusters, gateway_pb2.ListClustersRequest()).clusters

    def register_cluster(
        self, cluster: spec_pb2.Cluster, *, validate_only: bool = False
    ) -> gateway_pb2.RegisterClusterResponse:
        """Register a cluster, or replace one; or only check it."""
        request = gateway_pb2.RegisterClusterRequest(cluster=cluster, validate_only=validate_only)
        return self.call(self.catalog.RegisterCluster, request)

    def streams(self, message: str = "") -> Sequence[spec_pb2.Stream]:
        """Every registered stream; those of one message if asked."""
        return self.call(self.catalog.ListStreams, gateway_pb2.ListStreamsRequest(message=message)).streams

    def schema(self, message: str) -> spec_pb2.Schema:
        """The files of a registered message."""
        return self.call(self.catalog.GetSchema, gateway_pb2.GetSchemaRequest(message=message)).schema


def refusal(error: ApiError, address: str, flags: Mapping[str, str] = MappingProxyType({})) -> CliError:
    """What a failed call ends the command with; fields are named by their flags."""
    if error.code in UNREACHED and error.reason != error.code.name:
        # the gateway answers, and says itself what it cannot reach
        return UnreachableError(error.message, reason=error.reason, detail={"address": address})
    if error.code in UNREACHED:
        return UnreachableError(
            f"the gateway at {address} {_silence(error)}",
            reason=error.code.name,
            detail={"address": address, "cause": error.message},
        )
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        return RefusedError(
            f"the gateway at {address} does not know this user: DAGGERS_TOKEN_FILE must name a file with a"
            " token of its own",
            reason=error.reason,
            detail={"code": error.code.name, "request_id": error.request_id},
        )
    findings = [finding(violation, flags) for violation in error.violations]
    return RefusedError(
        headline(findings) if findings else error.message,
        reason=error.reason,
        findings=findings,
        detail={"code": error.code.name, "request_id": error.request_id},
    )


def _doubt(error: ApiError) -> str:
    """Why a request that failed so may have been taken all the same; empty when it was not."""
    if error.reason == "LOG_UNAVAILABLE":
        return "Kafka did not acknowledge the request"
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "the gateway did not answer in time"
    transport = error.code in UNREACHED and error.reason == error.code.name
    reached = not error.message.startswith(("failed to connect", "errors resolving"))
    return "the connection to the gateway broke" if transport and reached else ""


def _unknown(request: Message, doubt: str, address: str) -> UnreachableError:
    """The command ends, and nobody knows what came of its request."""
    name = getattr(request, "name", "")
    look = f"`daggers get {name}` shows whether it did" if name else "look before you ask again"
    return UnreachableError(
        f"the outcome is unknown: {doubt}, and it may still take effect; {look}",
        reason="OUTCOME_UNKNOWN",
        detail={"address": address, "request_id": getattr(request, "request_id", "")},
    )


def _silence(error: ApiError) -> str:
    """Why no answer came, as far as the transport tells, and what to do."""
    cause = error.message.lower()
    if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "did not answer in time: try again"
    if "wrong_version_number" in cause:
        return "does not speak TLS: name it without https://"
    if "handshake" in cause:
        return (
            "has a certificate that is not trusted here: DAGGERS_CA_FILE names the authority that signed it"
        )
    if "socket closed" in cause:
        return "closed the connection: if it speaks TLS, name it https://HOST:PORT"
    start = "start the stack by `daggers local up`"
    return f"does not answer: {start}, or name another gateway by --gateway HOST:PORT"


def finding(violation: Violation, flags: Mapping[str, str]) -> dict[str, Any]:
    """One violation as the JSON document shows it; line and column are null outside of SQL."""
    line, column = violation.position or (None, None)
    return {
        "code": violation.reason,
        "field": flag(violation.field, flags),
        "message": violation.message,
        "line": line,
        "column": column,
        "suggestion": violation.suggestion,
    }


def _channel(address: str, ca_file: Path | None) -> grpc.Channel:
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        well_formed = bool(parts.hostname and parts.port) and parts.scheme in ("http", "https")
    except ValueError:
        well_formed = False
    if not well_formed:
        raise MisusedError(f"--gateway {address}: it must be HOST:PORT, or https://HOST:PORT for TLS")
    if parts.scheme == "http":
        return grpc.insecure_channel(parts.netloc)
    authority = _read(ca_file).encode() if ca_file else None
    if authority is not None and b"-----BEGIN CERTIFICATE-----" not in authority:
        raise MisusedError(f"DAGGERS_CA_FILE: {ca_file} holds no certificate in PEM")
    return grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(authority))


def _token(file: Path) -> str:
    token = _read(file).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise MisusedError(f"DAGGERS_TOKEN_FILE: {file} must hold one token, and nothing else")
    return token


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MisusedError(f"{file} cannot be read") from error
