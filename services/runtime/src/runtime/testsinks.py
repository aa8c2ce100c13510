"""Test step by step whether sinks can be written to: `python -m runtime.testsinks [--send-one]`.

Its standard input is a JobSpec, of which the sinks are tried, each until a step fails. Frames on
standard output:

    S  TestSinkResponse   a step and its outcome
    E  DaggerError        why nothing can be tried

    secrets   each that the sink names is there, and may be sent to where it goes
    address   names have addresses, and these may be reached
    connect   a server listens at one of them
    tls       where it is HTTPS: it is whom its certificates speak of
    token     where the sink wants one (OAuth2): the server gives it
    ask       the sink's answer to a caller with these secrets
    rows      of a specification: it takes the rows of the query, as far as can be tried and taken back
    row       with --send-one: a row that is made up was taken
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import pyarrow as pa
from daggers.v1 import gateway_pb2, spec_pb2

from chassis.egress.addresses import AddressRefused
from daggerspec import address, destinations, secrets
from daggerspec.address import Address
from runtime import framed, sinks
from runtime.clients import egress, eventloop, handshake
from runtime.clients.credentials import address_refused
from runtime.clients.http.oauth2 import Token, Tokens
from runtime.clients.secrets import resolve
from runtime.encode.rows import Layout
from runtime.encode.samplerow import sample
from runtime.errors import JobError, TemporaryError, explain, external
from runtime.launch import planned
from runtime.sinks import BatchRef, Part, Target
from runtime.source.reader.late_records import late_target

CONNECT_S: Final = 5.0
OWNER: Final = "{}~test"
"""Owner of a row that is made up: what a dagger knows of its own rows must not count it."""
SinkStep = gateway_pb2.SinkStep


def main() -> int:
    """Try sinks and write frames; return 0."""
    parser = argparse.ArgumentParser(prog="python -m runtime.testsinks")
    parser.add_argument("--send-one", action="store_true")
    return framed.answer_job(
        "sinks", spec_pb2.JobSpec, partial(_responses, send_one=parser.parse_args().send_one)
    )


def _responses(job: spec_pb2.JobSpec, send_one: bool) -> Iterator[gateway_pb2.TestSinkResponse]:
    for step in try_sinks(job, send_one=send_one, now=datetime.now(UTC)):
        yield gateway_pb2.TestSinkResponse(step=step)


def try_sinks(job: spec_pb2.JobSpec, *, send_one: bool, now: datetime) -> Iterator[SinkStep]:
    """Yield every step with its outcome. Raises: JobError for an invalid specification."""
    has_query = job.spec.sql != "" or job.spec.HasField("forward")
    layout = planned.layout(job, planned.check_spec(job)) if has_query else Layout((), ())
    row = _made_up(layout, now, is_wanted=send_one)
    files = planned.messages(job)
    for name, whole in planned.named_sinks(job).items():
        owner = OWNER.format(job.dagger)
        if name == job.spec.late.keep:
            trial = _Trial(late_target(owner, whole))
            yield from _try_sink(name, trial, None, has_query=False, send_one=False)
            continue
        schema = pa.schema([]) if row is None else row.schema
        target = Target(owner, whole, layout, schema, files, updates=False)
        yield from _try_sink(name, _Trial(target), row, has_query=has_query, send_one=send_one)


def _made_up(layout: Layout, now: datetime, *, is_wanted: bool) -> pa.RecordBatch | None:
    """Make a row up; None where that cannot be, and is not wanted. Raises: JobError."""
    try:
        return sample(layout, now)
    except JobError:
        if is_wanted:
            raise
        return None


def _try_sink(
    name: str, trial: _Trial, row: pa.RecordBatch | None, *, has_query: bool, send_one: bool
) -> Iterator[SinkStep]:
    steps: list[tuple[str, Callable[[], str]]] = [
        ("secrets", trial.secrets),
        ("address", trial.addresses),
        ("connect", trial.connection),
        ("tls", trial.certificates),
        ("token", trial.token),
        ("ask", lambda: sinks.ask(trial.target)),
    ]
    if has_query:
        steps.append(("rows", lambda: sinks.rehearse(trial.target, row)))
    if row is not None and send_one:
        steps.append(("row", lambda: trial.send(row)))
    for step, attempt in steps:
        try:
            detail = attempt()
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what was found
            why, failed = explain(error), SinkStep.OUTCOME_FAILED
            yield SinkStep(sink=name, what=step, outcome=failed, reason=why.reason, detail=why.detail)
            return
        if detail:
            yield SinkStep(sink=name, what=step, outcome=SinkStep.OUTCOME_OK, detail=detail)


@dataclass
class _Trial:
    """Trial of one sink. A step returns a sentence, "" where there is nothing to try, or raises."""

    target: Target

    def __post_init__(self) -> None:
        self._sink = self.target.resolved
        _, self._to = destinations.reached_at(self._sink.sink)
        self._to = self._sink.kafka.bootstrap_servers or self._to
        self._reached: list[tuple[Address, list[str]]] = []

    def secrets(self) -> str:
        """Read each secret."""
        named = [reference for reference in secrets.references(self._sink) if secrets.is_place(reference)]
        sent = [(reference, to) for _, reference, to in destinations.secrets_sent(self._sink.sink)]
        for name in named:
            for to in [to for reference, to in sent if reference == name] or [self._to]:
                resolve(name, to)
        return f"{len(named)} of {len(named)} are there." if named else ""

    def addresses(self) -> str:
        """Resolve the addresses of each server, and check that they may be reached."""
        policy = self._sink.egress if self._sink.HasField("egress") else None
        for text in filter(None, self._to.split(",")):
            server = address.parse(text.strip())
            if server is None:
                continue
            try:
                scheme = server.scheme or "https"
                hosts = egress.resolve_addresses(policy, text, server.host.strip("[]"), server.port, scheme)
            except AddressRefused as why:
                raise address_refused(text, str(why)) from None
            except OSError:
                raise TemporaryError("SINK_UNAVAILABLE", f"{server.host} has no address.") from None
            self._reached.append((server, hosts))
        return " ".join(
            f"{server.host} may be reached." if list(hosts) == [server.host]
            else f"{server.host} is {', '.join(hosts)}."
            for server, hosts in self._reached
        )  # fmt: skip

    def connection(self) -> str:
        """Connect to one server."""
        problems = []
        for server, hosts in self._reached:
            for host in hosts:
                began = time.monotonic()
                try:
                    socket.create_connection((host, server.port), CONNECT_S).close()
                except OSError as error:
                    problems.append(f"{host} port {server.port}: {error.strerror or type(error).__name__}")
                else:
                    took_ms = (time.monotonic() - began) * 1000
                    return f"A server listens at {host}, port {server.port} ({took_ms:.0f} ms)."
        if problems:
            raise TemporaryError("SINK_UNAVAILABLE", f"Nobody listens: {'; '.join(problems)}.")
        return ""

    def certificates(self) -> str:
        """Shake hands where a connection begins with it."""
        https = [(server, hosts) for server, hosts in self._reached if server.scheme == "https"]
        if not https:
            return ""
        server, hosts = https[0]
        own = getattr(self._sink.sink, self.target.kind)
        fields = own.DESCRIPTOR.fields_by_name
        trusted = own.tls.ca_file if "tls" in fields else ""
        client_tls = own.client_tls if "client_tls" in fields else spec_pb2.ClientTls()
        context = handshake.context(trusted, client_tls, self._to, server.host)
        try:
            plain = socket.create_connection((hosts[0], server.port), CONNECT_S)
            name = client_tls.server_name or server.host.strip("[]")
            with context.wrap_socket(plain, server_hostname=name) as wrapped:
                until = (wrapped.getpeercert() or {}).get("notAfter")
                return f"{wrapped.version()}, and its certificate is good until {until}."
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or "no handshake"
            raise external("SINK_TLS", f"{server.host}: {reason}; `ca_file` names who signs.") from None
        except OSError:
            raise TemporaryError("SINK_UNAVAILABLE", f"{server.host} hangs up.") from None

    def token(self) -> str:
        """Request a token where the sink needs one."""
        own = getattr(self._sink.sink, self.target.kind)
        auth = own.auth if "auth" in own.DESCRIPTOR.fields_by_name else spec_pb2.HttpAuth()
        if not auth.HasField("oauth2"):
            return ""
        policy = self._sink.egress.SerializeToString() if self._sink.HasField("egress") else None

        async def request_token() -> Token:
            tokens = Tokens(auth.oauth2, policy)
            try:
                return await tokens.request_token()
            finally:
                await tokens.close()

        token = eventloop.run(request_token())
        return f"{auth.oauth2.token_url} gives one, which is kept for {token.usable_s:.0f} s."

    def send(self, row: pa.RecordBatch) -> str:
        """Write a row, as a batch of its own."""
        batch = BatchRef("sink-test", time.time_ns() // 1_000_000, 1)
        sinks.check(self.target)
        writer = sinks.open_writer(replace(self.target, part=Part(batch, 0)))
        outcomes = [writer.write(row, batch.batch_id), writer.finish()]
        for refused in (refusal for outcome in outcomes for refusal in outcome.refused):
            raise external(refused.reason, refused.detail)
        sinks.commit(self.target, batch, [outcome.receipt for outcome in outcomes if outcome.receipt])
        return "It took a row that is made up."


if __name__ == "__main__":
    sys.exit(main())
