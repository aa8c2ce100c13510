"""Samples of streams at a host: what a caller names, what a reader is given, and who is refused."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, host_pb2_grpc, spec_pb2
from services.scheduler.tests.operation_host import operating

from chassis.endpoint import Endpoint
from chassis.errors import ApiError, from_rpc_error
from scheduler.host import reader_process
from scheduler.host.row_reader import RowReader
from scheduler.host.service import HostService, serving

DEADLINE_S = 60
CANARY = "canary-5b2e77d0"
META = events_pb2.RequestMeta(actor="test")
KAFKA = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1")
KAFKA.secret_properties["sasl.password"].env = "UNSET"
KAFKA.secret_properties["ssl.key.password"].env = "TOKEN"
STREAM = spec_pb2.Stream(name="s", cluster="local", topics=["t"], message="m.M", time_field="at")


def host(folder: Path, **changed: Any) -> AbstractAsyncContextManager[host_pb2_grpc.HostServiceStub]:
    """A host that knows the cluster `local`, at sequence 0."""
    cluster = events_pb2.ClusterRegistered(meta=META, cluster=spec_pb2.Cluster(name="local", kafka=KAFKA))
    return operating(folder, [("local", cluster)], {"TOKEN": CANARY}, knowledge={}, **changed)


async def refused(stub: host_pb2_grpc.HostServiceStub, **fields: Any) -> ApiError:
    request = host_pb2.SampleHostStreamRequest(**{"stream": STREAM, **fields})
    with pytest.raises(grpc.RpcError) as caught:
        async for _ in stub.SampleHostStream(request, timeout=DEADLINE_S):
            pass
    return from_rpc_error(caught.value)


async def test_a_reader_has_the_secrets_of_the_cluster_and_tells_none(tmp_path: Path) -> None:
    async with host(tmp_path) as stub:
        error = await refused(stub)

    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SECRET_MISSING")
    assert ("UNSET" in error.message, CANARY in f"{error!r}") == (True, False)


async def test_a_cluster_or_a_message_that_is_not_registered_is_said(tmp_path: Path) -> None:
    elsewhere = spec_pb2.Stream(name="s", cluster="prod", topics=["t"])
    async with host(tmp_path) as stub:
        cluster, message = await refused(stub, stream=elsewhere), await refused(stub, last_records=1)

    assert (cluster.reason, cluster.metadata) == ("NOT_FOUND", {"kind": "cluster", "name": "prod"})
    assert (message.reason, message.metadata["message"]) == ("UNKNOWN_MESSAGE", "m.M")


async def test_what_cannot_be_asked_is_refused_and_so_is_another_host(tmp_path: Path) -> None:
    async with host(tmp_path) as stub:
        wrong = await refused(stub, last_records=1_001, stream=spec_pb2.Stream(cluster="local"))
        other = await refused(stub, host="there")

    assert [violation.field for violation in wrong.violations] == ["last_records", "stream.topics"]
    assert (other.reason, other.metadata) == ("WRONG_HOST", {"host": "here"})


async def test_a_host_that_is_behind_or_busy_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_process, "BEHIND_S", 0.1)
    async with host(tmp_path) as stub:
        behind = await refused(stub, min_sequence=99)
    async with host(tmp_path, most=0) as stub:
        busy = await refused(stub)

    assert (behind.reason, behind.metadata) == ("HOST_BEHIND", {"asked": "99", "reached": "0"})
    assert (busy.reason, busy.metadata["what"]) == ("HOST_BUSY", "samples of streams")


async def test_topics_are_looked_into_with_the_secrets_of_the_cluster_and_by_the_same_rules(
    tmp_path: Path,
) -> None:
    async def asked(stub: host_pb2_grpc.HostServiceStub, host: str = "", **fields: Any) -> ApiError:
        discovery = gateway_pb2.DiscoverTopicsRequest(**{"cluster": "local", **fields})
        request = host_pb2.DiscoverHostTopicsRequest(request=discovery, host=host)
        with pytest.raises(grpc.RpcError) as caught:
            async for _ in stub.DiscoverHostTopics(request, timeout=DEADLINE_S):
                pass
        return from_rpc_error(caught.value)

    async with host(tmp_path) as stub:
        secret, elsewhere = await asked(stub), await asked(stub, host="there")
        message, many = await asked(stub, message="m.M"), await asked(stub, topics=["t"] * 101)
        file = {"name": "m.proto", "package": "m", "message_type": [{"name": "M"}]}
        brought = await asked(stub, message="m.M", schema={"files": {"file": [file]}})
        examples = await asked(stub, examples=11)

    assert (secret.reason, CANARY in f"{secret!r}") == ("SECRET_MISSING", False)
    assert brought.reason == "SECRET_MISSING"  # the message need not be registered
    assert [violation.field for violation in examples.violations] == ["request.examples"]
    assert (elsewhere.reason, message.reason) == ("WRONG_HOST", "UNKNOWN_MESSAGE")
    assert [violation.field for violation in many.violations] == ["request.topics"]


async def test_a_reader_that_dies_or_hangs_harms_nobody(tmp_path: Path) -> None:
    reasons = []
    for how in ({"module": "no_such_module"}, {"patience_s": 0.01}):
        async with host(tmp_path, **how) as stub:
            reasons.append((await refused(stub)).reason)

    assert reasons == ["RECORD_READER_DIED", "RECORDS_TIMED_OUT"]


async def test_a_host_without_the_fold_is_told_from_one_that_fails(tmp_path: Path) -> None:
    service = HostService(tmp_path, "here", RowReader(sys.executable, {}))
    async with (
        serving(service, Endpoint("127.0.0.1:0")) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        error = await refused(host_pb2_grpc.HostServiceStub(channel))

    assert error.code is grpc.StatusCode.UNIMPLEMENTED
