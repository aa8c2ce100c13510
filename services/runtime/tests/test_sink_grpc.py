"""The sink `grpc` against a real server: calls, statuses, secrets, addresses, outages, crashes."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode
from services.runtime.tests import fresh, grpcserver
from services.runtime.tests.grpcserver import Received, Reply, Server
from services.runtime.tests.sink_cases.grpc import counted, sink
from services.runtime.tests.sink_contract import batch, many, target

from runtime import sinks
from runtime.clients import calls, sending
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Outcome, Target
from runtime.sinks import grpc as grpc_sink

NOON = "2026-01-01T12:01:00Z"


@pytest.fixture
def server() -> Iterator[Server]:
    with grpcserver.serving() as made:
        yield made


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes nothing is given up at once."""
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No channel to a server that is gone is kept."""
    yield
    grpcserver.forget()


def aimed(resolved: spec_pb2.ResolvedSink) -> Target:
    return target("d", resolved, grpcserver.DESCRIPTORS)


def write(resolved: spec_pb2.ResolvedSink, rows: pa.RecordBatch) -> Outcome:
    return sinks.open_writer(aimed(resolved)).write(rows, 0)


def refused(ask: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value


# Calls


def test_a_row_is_a_call_with_its_columns_and_a_key_that_repeats(server: Server) -> None:
    for _ in range(2):
        write(sink(server.target), batch(many(3)))

    assert Counter(counted(request) for request in server.received) == dict.fromkeys(
        ((NOON, f"city {number}", number) for number in range(3)), 2
    )
    ids = Counter(str(request.metadata["idempotency-key"]) for request in server.received)
    assert [*ids.values()] == [2, 2, 2]
    assert {len(id_) for id_ in ids} == {32}
    assert all(
        request.metadata["ce-id"] == request.metadata["idempotency-key"] for request in server.received
    )


def test_metadata_may_have_values_of_the_row_and_a_row_without_them_is_refused(server: Server) -> None:
    said = sink(server.target, metadata={"x-city": "c=${tag_city}", "x-plain": "$ {"})
    rows = {(NOON, city): 5 for city in ("a", "☃", None, "b")}
    outcome = write(said, batch(rows))  # type: ignore[arg-type] # a city is not known

    assert {(request.metadata["x-city"], request.metadata["x-plain"]) for request in server.received} == {
        ("c=a", "$ {"), ("c=b", "$ {"),
    }  # fmt: skip
    assert sorted((refusal.row, refusal.reason) for refusal in outcome.refused) == [
        (1, "SINK_REFUSED"), (2, "TEMPLATE_NULL"),
    ]  # fmt: skip


def test_a_message_without_fields_for_the_columns_is_told_before_anything_is_read(server: Server) -> None:
    error = refused(
        lambda: sinks.check(aimed(sink(server.target, message="google.protobuf.Timestamp")))
    ).error

    assert error.reason == "SINK_MESSAGE_MISMATCH"
    assert "tag_city" in error.detail
    assert server.received == []


# Statuses


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (StatusCode.UNAVAILABLE, "SINK_UNAVAILABLE"),
        (StatusCode.ABORTED, "SINK_UNAVAILABLE"),
        (StatusCode.CANCELLED, "SINK_UNAVAILABLE"),
        (StatusCode.DEADLINE_EXCEEDED, "SINK_UNAVAILABLE"),
        (StatusCode.INTERNAL, "SINK_UNAVAILABLE"),
        (StatusCode.UNKNOWN, "SINK_UNAVAILABLE"),
        (StatusCode.RESOURCE_EXHAUSTED, "SINK_THROTTLES"),
        (StatusCode.UNAUTHENTICATED, "SINK_DENIED"),
        (StatusCode.PERMISSION_DENIED, "SINK_DENIED"),
        (StatusCode.UNIMPLEMENTED, "SINK_MISSING"),
    ],
)
def test_a_status_that_is_about_the_sink_waits_and_refuses_no_row(
    server: Server, soon: None, status: StatusCode, reason: str
) -> None:
    server.answer = lambda _: Reply(status, "canary")

    error = refused(lambda: write(sink(server.target), batch(many(2)))).error
    assert (error.reason, error.retryable) == (reason, True)
    assert "canary" not in error.detail


def test_a_method_that_is_not_there_is_told(server: Server) -> None:
    error = refused(lambda: write(sink(server.target, method="shop.Orders/Putt"), batch(many(1)))).error

    assert (error.reason, error.retryable) == ("SINK_MISSING", True)
    assert "shop.Orders/Putt" in error.detail


@pytest.mark.parametrize(
    "status",
    [
        StatusCode.INVALID_ARGUMENT,
        StatusCode.OUT_OF_RANGE,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.NOT_FOUND,
        StatusCode.DATA_LOSS,
    ],
)
def test_a_status_that_is_about_a_row_sets_it_aside_without_its_values(
    server: Server, status: StatusCode
) -> None:
    server.answer = lambda got: Reply(status, f"canary {got.row.n}") if got.row.n == 1 else Reply()
    outcome = write(sink(server.target), batch(many(3)))

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(1, "SINK_REFUSED")]
    assert outcome.refused[0].detail == f"gRPC at {server.target} answers {status.name}."


TRIED = sending.FEW_TRIES + len(sending._COMPARED_S)


@pytest.mark.parametrize("status", [StatusCode.INTERNAL, StatusCode.UNKNOWN])
def test_what_may_be_the_rows_fault_is_tried_again_and_set_aside_where_others_are_taken(
    server: Server, status: StatusCode
) -> None:
    server.answer = lambda got: Reply(status if got.row.n == 1 else StatusCode.OK)
    outcome = write(sink(server.target), batch(many(3)))

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(1, "SINK_REFUSED")]
    tried = Counter(request.row.n for request in server.received)
    assert (tried.pop(1), tried.total()) == (TRIED, 3), "one of the others once more, to compare"


@pytest.mark.parametrize("no", [grpcserver.Row(n=7).SerializeToString(), b"", b"\xff"])
def test_an_answer_that_says_no_is_asked_for_again_and_its_row_set_aside(server: Server, no: bytes) -> None:
    yes = grpcserver.Row(n=1).SerializeToString()
    server.answer = lambda got: Reply(message=no if got.row.n == 1 else yes)
    said = sink(server.target, success_if="response.n == 1", response=grpcserver.MESSAGE)
    outcome = write(said, batch(many(3)))

    [refusal] = outcome.refused
    assert (refusal.row, refusal.reason) == (1, "SINK_REFUSED")
    assert refusal.detail == f"gRPC at {server.target} answers OK, and not what success_if says."
    tried = Counter(request.row.n for request in server.received)
    assert (tried.pop(1), tried.total()) == (TRIED, 3), "one of the others once more, to compare"


def test_a_server_that_says_no_to_all_is_waited_for(server: Server, soon: None) -> None:
    said = sink(server.target, success_if="response.n == 1", response=grpcserver.MESSAGE)
    error = refused(lambda: write(said, batch(many(2)))).error

    assert (error.reason, error.retryable) == ("SINK_UNAVAILABLE", True)
    assert "success_if" in error.detail


@pytest.mark.parametrize("is_kept", [True, False], ids=["one channel", "another channel"])
def test_a_server_that_fails_for_all_from_some_row_on_refuses_none_of_them(
    server: Server, soon: None, is_kept: bool
) -> None:
    writer, rows = sinks.open_writer(aimed(sink(server.target, ordered=True))), batch(many(5))
    fails = False

    def answer(got: Received) -> Reply:
        nonlocal fails
        fails = fails or got.row.n == 2
        return Reply(StatusCode.INTERNAL if fails else StatusCode.OK)

    server.answer = answer
    for _ in range(2):
        with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
            writer.write(rows, 0)
        if not is_kept:
            grpcserver.forget()
    server.answer = lambda _: Reply()

    assert writer.write(rows, 0).refused == []
    assert {request.row.n for request in server.received} == {*range(5)}


@pytest.mark.parametrize("status", [StatusCode.INTERNAL, StatusCode.RESOURCE_EXHAUSTED])
def test_a_server_that_fails_for_some_seconds_in_a_batch_refuses_none_of_its_rows(
    server: Server, status: StatusCode
) -> None:
    taken = Counter[int]()
    fails_until = float("inf")

    def answer(got: Received) -> Reply:
        nonlocal fails_until
        if sum(taken.values()) == 5 and fails_until == float("inf"):
            fails_until = time.monotonic() + 3.5
        if sum(taken.values()) >= 5 and time.monotonic() < fails_until:
            return Reply(status, "message size")
        taken[got.row.n] += 1
        return Reply()

    server.answer = answer
    writer, rows = sinks.open_writer(aimed(sink(server.target))), batch(many(40))
    refused_rows = None
    while refused_rows is None:
        with suppress(TemporaryError):
            refused_rows = writer.write(rows, 0).refused
    assert (refused_rows, {*taken}) == ([], {*range(40)})


def test_a_row_that_is_there_already_was_taken(server: Server) -> None:
    server.answer = lambda _: Reply(StatusCode.ALREADY_EXISTS)

    assert write(sink(server.target), batch(many(3))).refused == []
    assert len(server.received) == 3


def test_a_row_that_is_too_large_is_set_aside_and_the_others_are_written(server: Server) -> None:
    outcome = write(sink(server.target), batch({(NOON, "a"): 1, (NOON, "x" * 2_000_000): 2, (NOON, "b"): 3}))

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(1, "TOO_LARGE")]
    assert {request.row.n for request in server.received} == {1, 3}
    assert len(server.received) == 3, "one of the others was sent once more, to compare"


@pytest.mark.parametrize(
    "words",
    [
        "message size 5000000 is larger than configured max 4194304",
        "grpc: received message larger than max (5000000 vs. 4194304)",
        "gRPC message exceeds maximum size 4194304: 5000000",
        "Error, message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
        "Die Nachricht ist zu lang",
        "",
    ],
)
def test_too_large_is_told_from_too_many_in_whatever_words(server: Server, words: str) -> None:
    def answer(got: Received) -> Reply:
        return Reply(StatusCode.RESOURCE_EXHAUSTED, words) if got.row.n in (3, 7) else Reply()

    server.answer = answer
    rows = {(NOON, "x" * (100 if n in (3, 7) else 1) + f"{n:02}"): n for n in range(12)}
    outcome = write(sink(server.target), batch(rows))

    assert [(each.row, each.reason) for each in outcome.refused] == [(3, "TOO_LARGE"), (7, "TOO_LARGE")]
    assert {request.row.n for request in server.received} == {*range(12)}


@pytest.mark.parametrize("words", ["message size 5000000 is larger than configured max", "payload too large"])
def test_a_server_that_speaks_of_a_size_may_measure_what_others_do_not(server: Server, words: str) -> None:
    server.answer = lambda got: Reply(StatusCode.RESOURCE_EXHAUSTED, words) if got.row.n == 2 else Reply()
    outcome = write(sink(server.target), batch(many(4)))

    assert [(each.row, each.reason) for each in outcome.refused] == [(2, "TOO_LARGE")]


def test_a_row_by_itself_is_compared_with_one_of_a_batch_before(server: Server) -> None:
    write(sink(server.target), batch(many(1)))
    server.answer = lambda got: Reply(StatusCode.RESOURCE_EXHAUSTED) if got.row.n == 5 else Reply()

    rows = batch({(NOON, "x" * 100): 5})
    assert [each.reason for each in write(sink(server.target), rows).refused] == ["TOO_LARGE"]


def test_a_row_waits_that_is_no_larger_than_one_that_was_taken(server: Server, soon: None) -> None:
    """A server with quotas takes the rows of one customer, and none of another's."""
    customer = ""

    def answer(got: Received) -> Reply:
        is_over = got.row.tag_city.startswith(customer)
        return Reply(StatusCode.RESOURCE_EXHAUSTED) if is_over else Reply()

    server.answer = answer
    rows = {(NOON, f"{who}{n:02}"): n + 1 for n in range(8) for who in "ab"}
    for customer in ("b", "a"):
        writer, made = sinks.open_writer(aimed(sink(server.target))), batch(rows)
        for _ in range(3):
            with pytest.raises(TemporaryError, match="SINK_THROTTLES"):
                writer.write(made, 0)
        customer = "nobody"
        assert writer.write(made, 0).refused == []


def test_a_row_that_is_too_large_makes_none_too_large_of_which_larger_ones_were_taken(
    server: Server, soon: None
) -> None:
    write(sink(server.target), batch({(NOON, "x" * 10): 1}))
    server.answer = lambda got: Reply(StatusCode.RESOURCE_EXHAUSTED) if got.row.n == 5 else Reply()
    assert len(write(sink(server.target), batch({(NOON, "x" * 20): 5})).refused) == 1
    write(sink(server.target), batch({(NOON, "x" * 30): 1}))
    with pytest.raises(TemporaryError, match="SINK_THROTTLES"):
        write(sink(server.target), batch({(NOON, "x" * 25): 5}))


def test_rows_that_a_server_has_no_room_for_wait_all_of_them(server: Server, soon: None) -> None:
    write(sink(server.target), batch(many(1)))
    server.answer = lambda _: Reply(StatusCode.RESOURCE_EXHAUSTED)
    with pytest.raises(TemporaryError, match="SINK_THROTTLES"):
        write(sink(server.target), batch(many(5)))


def test_an_answer_that_is_too_long_says_that_there_is_one(server: Server) -> None:
    server.answer = lambda _: Reply(message=b"x" * 5_000_000)

    assert write(sink(server.target), batch(many(2))).refused == []
    assert len(server.received) == 2


def _details(seconds: float) -> bytes:
    """A status whose details ask for patience."""
    delay = Duration()
    delay.FromTimedelta(timedelta(seconds=seconds))
    told = status_pb2.Status(code=8, message="later")
    told.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return bytes(told.SerializeToString())


@pytest.mark.parametrize(
    ("trailing", "asked"),
    [
        ((("grpc-retry-pushback-ms", "7000"),), 7.0),
        ((("grpc-retry-pushback-ms", "-1"),), None),
        ((("grpc-retry-pushback-ms", "soon"),), None),
        ((("grpc-status-details-bin", _details(2.5)),), 2.5),
        ((("grpc-status-details-bin", _details(-1)),), 0.0),
        ((("grpc-status-details-bin", _details(31_536_000)),), 31_536_000.0),
        ((("grpc-status-details-bin", b"\xff\xff"),), None),
        ((), None),
    ],
)
def test_a_server_that_says_for_how_long_is_left_alone(
    server: Server, soon: None, trailing: tuple[tuple[str, str | bytes], ...], asked: float | None
) -> None:
    server.answer = lambda _: Reply(StatusCode.RESOURCE_EXHAUSTED, trailing=trailing)
    with pytest.raises(TemporaryError) as waits:
        write(sink(server.target), batch(many(1)))

    assert waits.value.retry_after == asked
    if asked and asked > 1:
        assert len(server.received) == 1


def test_a_limit_that_is_found_lets_a_throttling_server_take_every_row_once(server: Server) -> None:
    """It takes 8 calls at once, and answers each after 10 ms."""
    taken = Counter[int]()

    def answer(got: Received) -> Reply:
        if server.now > 8:
            return Reply(StatusCode.RESOURCE_EXHAUSTED)
        taken[got.row.n] += 1
        return Reply(after_s=0.01)

    server.answer = answer
    outcome = write(sink(server.target), batch(many(500)))

    assert (outcome.refused, taken) == ([], dict.fromkeys(range(500), 1))
    assert server.most_at_once >= 8
    assert len(server.received) < 750, "more than a third of all calls were refused"


def test_what_was_taken_is_not_sent_again_by_who_comes_back(server: Server, soon: None) -> None:
    taken = Counter[int]()

    def answer(got: Received) -> Reply:
        if taken.total() >= 40:
            return Reply(StatusCode.UNAVAILABLE)
        taken[got.row.n] += 1
        return Reply()

    server.answer = answer
    writer, rows = sinks.open_writer(aimed(sink(server.target))), batch(many(100))
    with pytest.raises(TemporaryError):
        writer.write(rows, 0)
    before = len(server.received)
    server.answer = lambda _: Reply()

    assert writer.write(rows, 0).refused == []
    taken.update(request.row.n for request in server.received[before:])
    assert taken == dict.fromkeys(range(100), 1)


def test_a_server_that_takes_its_time_is_given_up_after_the_deadline(server: Server, soon: None) -> None:
    said = sink(server.target)
    said.sink.grpc.deadline.FromTimedelta(timedelta(seconds=0.2))
    server.answer = lambda _: Reply(after_s=2)

    error = refused(lambda: write(said, batch(many(1)))).error
    assert (error.reason, error.detail) == (
        "SINK_UNAVAILABLE", f"gRPC at {server.target} takes no rows now (status DEADLINE_EXCEEDED).",
    )  # fmt: skip


# Secrets and addresses


def secret(tmp_path: Path, text: str = "canary") -> spec_pb2.SecretRef:
    (tmp_path / "secret").write_text(f"{text}\n")
    return spec_pb2.SecretRef(file=str(tmp_path / "secret"))


def test_a_server_is_shown_who_calls(server: Server, tmp_path: Path) -> None:
    reference = secret(tmp_path)
    for auth in (
        spec_pb2.HttpAuth(bearer=reference),
        spec_pb2.HttpAuth(header=spec_pb2.HttpAuth.Header(name="X-Api-Key", value=reference)),
        None,
    ):
        write(sink(server.target, auth=auth), batch(many(1)))

    shown = [
        (request.metadata.get("authorization"), request.metadata.get("x-api-key"))
        for request in server.received
    ]
    assert shown == [("Bearer canary", None), (None, "canary"), (None, None)]


def test_a_secret_that_was_rotated_is_read_again_and_a_wrong_one_is_told(
    server: Server, tmp_path: Path
) -> None:
    said = sink(server.target, auth=spec_pb2.HttpAuth(bearer=secret(tmp_path, "first")))
    good = "first"

    def answer(got: Received) -> Reply:
        is_good = got.metadata["authorization"] == f"Bearer {good}"
        return Reply() if is_good else Reply(StatusCode.UNAUTHENTICATED)

    server.answer = answer
    write(said, batch(many(3)))
    good = "second"
    error = refused(lambda: write(said, batch(many(3)))).error
    secret(tmp_path, "second")

    assert (error.reason, error.retryable) == ("SINK_DENIED", True)
    assert "first" not in error.detail
    assert write(said, batch(many(3))).refused == []


@pytest.mark.parametrize(("text", "reason"), [("", "SECRET_MISSING"), ("a\nb", "SECRET_UNUSABLE")])
def test_a_secret_that_cannot_be_shown_is_told_before_anything_is_read(
    server: Server, tmp_path: Path, text: str, reason: str
) -> None:
    said = sink(server.target, auth=spec_pb2.HttpAuth(bearer=secret(tmp_path, text)))

    assert refused(lambda: sinks.check(aimed(said))).error.reason == reason


def test_a_secret_goes_to_no_other_server_than_its_own(server: Server, tmp_path: Path) -> None:
    reference = secret(tmp_path)
    reference.addresses.append("crm.example:443")

    said = sink(server.target, auth=spec_pb2.HttpAuth(bearer=reference))
    assert refused(lambda: write(said, batch(many(1)))).error.reason == "SECRET_ADDRESS"
    assert server.received == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "169.254.169.254"],
)
def test_an_address_of_a_tenant_that_leads_inward_gets_no_row_and_no_token(
    server: Server, tmp_path: Path, host: str
) -> None:
    said = sink(f"{host}:{server.target.rpartition(':')[2]}", auth=spec_pb2.HttpAuth(bearer=secret(tmp_path)))
    said.egress.enforce = True

    for ask in (lambda: write(said, batch(many(1))), lambda: sinks.check(aimed(said))):
        error = refused(ask).error
        assert (error.reason, error.retryable) == ("SINK_ADDRESS_REFUSED", True)
    assert server.received == []


@pytest.mark.parametrize(
    "egress",
    [None, spec_pb2.Egress(enforce=True, networks="127.0.0.0/8, ::1/128"), spec_pb2.Egress()],
    ids=["registered by an administrator", "in a network that is allowed", "observed"],
)
def test_what_may_be_reached_gets_its_rows(server: Server, egress: Any) -> None:
    said = sink(server.target)
    if egress is not None:
        said.egress.CopyFrom(egress)
    write(said, batch(many(1)))

    assert len(server.received) == 1


def test_a_name_is_not_asked_for_again_after_it_was_judged(
    server: Server, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a name answers with an address that is allowed first, and with loopback from then on."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host == "crm.tenant.example":
            asked.append(host)
            host = "127.0.0.2" if len(asked) == 1 else "127.0.0.1"
        return real(host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    said = sink(server.target.replace("127.0.0.1", "crm.tenant.example"))
    said.egress.CopyFrom(spec_pb2.Egress(enforce=True, networks="127.0.0.2/32"))
    reasons = [refused(lambda: write(said, batch(many(1)))).error.reason for _ in range(2)]

    assert reasons == ["SINK_UNAVAILABLE", "SINK_ADDRESS_REFUSED"]
    assert (asked, server.received) == (["crm.tenant.example"] * 2, [])


def test_a_server_without_tls_is_not_talked_to_where_tls_is_asked_for() -> None:
    with grpcserver.serving() as plain:
        asked = sink(plain.target, plaintext=False)
        why = [refused(lambda: write(asked, batch(many(1)))), refused(lambda: sinks.check(aimed(asked)))]

    assert ([each.error.reason for each in why], plain.received) == (["SINK_TLS"] * 2, [])


# Outages and crashes


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(message=calls.NOT_SERVING), "SINK_UNAVAILABLE"),
        (Reply(StatusCode.UNAVAILABLE), "SINK_UNAVAILABLE"),
        (Reply(StatusCode.RESOURCE_EXHAUSTED), "SINK_THROTTLES"),
        (Reply(message=b"\x08\x01"), None),
        (Reply(StatusCode.NOT_FOUND), None),
        (None, None),
    ],
)
def test_a_server_that_does_not_serve_is_asked_again_before_rows_are_sent(
    server: Server, reply: Reply | None, reason: str | None
) -> None:
    server.health = None if reply is None else lambda: reply
    if reason is None:
        sinks.probe(aimed(sink(server.target)))
    else:
        assert refused(lambda: sinks.probe(aimed(sink(server.target)))).error.reason == reason
    assert server.received == []


def test_rows_wait_for_a_server_that_restarts() -> None:
    with grpcserver.serving() as before:
        said, port = sink(before.target), int(before.target.rpartition(":")[2])
        write(said, batch(many(3)))
    with grpcserver.serving(port) as after:
        outcome = write(said, batch(many(3)))  # the channel that is kept leads nowhere

    assert (outcome.refused, len(before.received), len(after.received)) == ([], 3, 3)


def test_a_server_that_comes_back_is_found_soon(soon: None) -> None:
    with grpcserver.serving() as before:
        said, port = sink(before.target), int(before.target.rpartition(":")[2])
    writer, rows = sinks.open_writer(aimed(said)), batch(many(3))
    for _ in range(8):  # as long as its back-off would grow
        with pytest.raises(TemporaryError):
            writer.write(rows, 0)
    with grpcserver.serving(port) as after:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                assert writer.write(rows, 0).refused == []
                break
            except TemporaryError:
                continue

    assert len(after.received) == 3


def _write_and_be_killed(resolved: bytes, after: int) -> None:
    """In a process of its own: sends rows until so many were answered, and dies."""
    said = spec_pb2.ResolvedSink.FromString(resolved)
    answered, judge = count(1), grpc_sink.CalledRows.judge

    def counting(self: Any, rows: Sequence[int], answer: Any) -> Any:
        if next(answered) > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(self, rows, answer)

    grpc_sink.CalledRows.judge = counting  # type: ignore[method-assign]
    write(said, batch(many(100)))


@pytest.mark.parametrize("after", [0, 5, 10**6])
def test_no_row_is_lost_and_repeats_have_their_key_wherever_a_worker_is_killed(
    server: Server, after: int
) -> None:
    said = sink(server.target)
    code = fresh.exit_code(_write_and_be_killed, said.SerializeToString(), after)
    write(said, batch(many(100)))

    assert code == (0 if after == 10**6 else -signal.SIGKILL)
    messages: dict[str, set[bytes]] = {}
    for request in server.received:
        messages.setdefault(str(request.metadata["idempotency-key"]), set()).add(request.message)
    assert {len(message) for message in messages.values()} == {1}
    assert sorted(grpcserver.Row.FromString(one).n for [one] in messages.values()) == [*range(100)]
    assert len(server.received) > 100
