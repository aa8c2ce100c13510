"""What a server says of a row stands in no error: who may read errors, alerts and events need not see rows.

Servers quote what they refuse. What is set aside has their words, and is masked (`api_gateway.auth.masking`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from daggers.v1 import spec_pb2
from grpc import StatusCode
from services.runtime.tests import grpcserver, httpserver
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.sink_cases import clevertap, elasticsearch, grpc, http, mixpanel
from services.runtime.tests.sink_contract import batch, influx_sink, part, target

from runtime import sinks
from runtime.clients import bisection, sending
from runtime.clients.http import client
from runtime.errors import JobError

VALUE: Final = "timeout ann@example.org no write index is defined"
"""Of the only row, with words in it that sinks look for."""
STATUSES: Final = (200, 204, 400, 401, 403, 404, 405, 409, 413, 422, 429, 451, 500, 503, 504, 507, 511)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.05)
    monkeypatch.setattr(sending, "_FIRST_PAUSE_S", 0.001)
    bisection.history_of.cache_clear()
    yield
    client.pool.clear()


def error_of(resolved: spec_pb2.ResolvedSink) -> JobError | None:
    """Why the row waits, or the job ends; None where it does neither."""
    made = replace(target("d", resolved, grpcserver.DESCRIPTORS), part=part("c", 0))
    rows = batch({("2026-01-01T12:01:00Z", VALUE): 5})
    try:
        writer = sinks.open_writer(made)
        writer.write(rows, 0)
        writer.finish()
    except JobError as error:
        return error
    return None


def quoting(status: int, form: str, answered: int) -> Callable[[Received], Reply]:
    """Answers with what was sent wherever an answer of these servers has words: `answered`, as a whole, and
    of each document with `status`.
    """

    def answer(got: Received) -> Reply:
        sent = f"{form}{got.body.decode()} {VALUE}"
        of_document = {"index": {"status": status, "error": {"type": sent, "reason": sent}}}
        words = dict.fromkeys(("error", "message", "code", "status", "reason"), sent)
        lists = {
            "items": [of_document],
            "unprocessed": [{"status": "fail", "code": 509, "error": sent, "record": {"identity": VALUE}}],
            "failed_records": [{"index": 0, "field": sent, "message": sent}],
        }
        return Reply(
            answered, b"" if answered == 204 else json.dumps({**words, "errors": True, **lists}).encode()
        )

    return answer


@pytest.mark.parametrize("form", ["", "partial write: "])
@pytest.mark.parametrize("kind", ["http", "elasticsearch", "clevertap", "mixpanel", "influx"])
def test_no_error_has_what_a_server_says_of_a_row(kind: str, form: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    errors = 0
    with httpserver.serving() as server:
        influx = {"url": server.url, "org": "o", "bucket": "b", "token_file": str(tmp_path / "token")}
        made = {
            "http": lambda: http.sink(server.url),
            "elasticsearch": lambda: elasticsearch.sink(server.url),
            "clevertap": lambda: clevertap.sink(server.url, tmp_path),
            "mixpanel": lambda: mixpanel.sink(server.url, tmp_path),
            "influx": lambda: influx_sink(influx, "m"),
        }
        for status, of_all in product(STATUSES, (True, False)):
            server.answer = quoting(status, form, status if of_all else 200)
            if (error := error_of(made[kind]())) is not None:
                errors += 1
                assert "ann@" not in f"{error} {error.error}", status
    assert errors > len(STATUSES) // 2


def _quoted(status: StatusCode, _: grpcserver.Received) -> grpcserver.Reply:
    return grpcserver.Reply(status, VALUE)


def test_no_error_has_the_details_of_a_call() -> None:
    errors = 0
    for status in StatusCode:
        with grpcserver.serving() as calls:
            calls.answer = partial(_quoted, status)
            try:
                error = error_of(grpc.sink(calls.target))
            finally:
                grpcserver.forget()
        if error is not None:
            errors += 1
            assert "ann@" not in f"{error} {error.error}", status
    assert errors > len(StatusCode) // 2
