"""What the sink `redis` promises beyond what every sink does, against real servers."""

from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_cases.redis import sink, strings
from services.runtime.tests.sink_contract import COUNTS, batch, target
from tests import redis as server

from runtime import sinks
from runtime.errors import JobError, TemporaryError

pytestmark = pytest.mark.integration
Server = tuple[str, str]


def put(own: spec_pb2.ResolvedSink, rows: Any = COUNTS) -> list[str]:
    """Write rows; why some were refused."""
    writer = sinks.open_writer(target("d", own))
    return [refusal.reason for refusal in writer.write(batch(rows), 0).refused]


def test_a_string_is_the_row_as_json(redis: Server, tmp_path: Path) -> None:
    own = sink(*redis, tmp_path)

    assert put(own) == []
    assert strings(*redis, own) == {
        f"{end}/{city}": {"tag_city": city, "n": n, "window_timestamp": end}
        for (end, city), n in COUNTS.items()
    }


def test_a_row_that_is_written_again_lives_on_and_one_without_ttl_for_good(
    redis: Server, tmp_path: Path
) -> None:
    with server.client(*redis) as looking:
        for kind in ("TYPE_STRING", "TYPE_HASH"):
            own = sink(*redis, tmp_path, key=f"{tmp_path}{kind}${{tag_city}}", type=kind)
            own.sink.redis.ttl.FromSeconds(1000)
            put(own, {("2026-01-01T12:01:00Z", "1"): 5})
            looking.pexpire(f"{tmp_path}{kind}1", 500_000)
            put(own, {("2026-01-01T12:01:00Z", "1"): 5})
            lives_ms = int(str(looking.pttl(f"{tmp_path}{kind}1")))
            own.sink.redis.ClearField("ttl")
            put(own, {("2026-01-01T12:01:00Z", "2"): 5})

            assert 500_000 < lives_ms <= 1_000_000
            assert looking.pttl(f"{tmp_path}{kind}2") == -1


def test_a_column_that_is_null_has_no_field_and_fields_of_others_stay(redis: Server, tmp_path: Path) -> None:
    own = sink(*redis, tmp_path, key=f"{tmp_path}${{tag_city}}", type="TYPE_HASH")
    with server.client(*redis) as looking:
        looking.hset(f"{tmp_path}1", mapping={"theirs": "x"})
        put(own, {("2026-01-01T12:01:00Z", "1"): 5})
        put(own, {("2026-01-01T12:02:00Z", "1"): None})

        assert looking.hgetall(f"{tmp_path}1") == {
            "theirs": "x", "tag_city": "1", "window_timestamp": "2026-01-01T12:02:00Z"
        }  # fmt: skip


def test_of_one_key_in_a_batch_the_last_row_counts(redis: Server, tmp_path: Path) -> None:
    own = sink(*redis, tmp_path, key=f"{tmp_path}:${{tag_city}}")
    put(own)

    assert {key: row["n"] for key, row in strings(*redis, own).items()} == {"1": 9, "2": 7}


def test_a_row_without_a_key_is_refused_and_so_is_one_with_a_key_too_long(
    redis: Server, tmp_path: Path
) -> None:
    own = sink(*redis, tmp_path, key="${tag_city}")
    rows: Any = {("2026-01-01T12:01:00Z", city): 1 for city in (None, "", "x" * 1025)}

    assert put(own, rows) == ["TEMPLATE_NULL", "TOO_LARGE", "TOO_LARGE"]


def test_a_password_that_was_rotated_is_read_again(tmp_path: Path) -> None:
    with server.serving() as (address, password), server.client(address, password) as looking:
        own = sink(address, password, tmp_path)
        put(own)
        looking.config_set("requirepass", "another-word")
        looking.client_kill_filter(_type="normal", skipme=True)
        with pytest.raises(TemporaryError):  # its connection was closed
            put(own)
        with pytest.raises(JobError) as denied:
            put(own)
        Path(own.sink.redis.password.file).write_text("another-word\n")

        assert (denied.value.error.reason, denied.value.error.retryable) == ("SINK_DENIED", True)
        assert "another-word" not in denied.value.error.detail
        assert put(own) == []


def test_a_server_that_takes_no_writes_now_makes_the_batch_wait(tmp_path: Path) -> None:
    with server.serving() as (address, password), server.client(address, password) as looking:
        own = sink(address, password, tmp_path)
        looking.config_set("maxmemory", "1")
        with pytest.raises(TemporaryError) as full:
            put(own)
        looking.config_set("maxmemory", "0")
        looking.replicaof("127.0.0.1", "1")
        with pytest.raises(TemporaryError) as replica:
            put(own)
        looking.replicaof("NO", "ONE")

        assert full.value.error.reason == "SINK_UNAVAILABLE"
        assert replica.value.error.reason == "SINK_READ_ONLY"
        assert put(own) == []


def test_an_address_that_is_not_allowed_is_refused(redis: Server, tmp_path: Path) -> None:
    own = sink(*redis, tmp_path)
    own.egress.enforce = True
    with pytest.raises(JobError) as refused:
        sinks.check(target("d", own))

    assert refused.value.error.reason == "SINK_ADDRESS_REFUSED"
