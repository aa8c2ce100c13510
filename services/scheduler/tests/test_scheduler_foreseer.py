"""Forecasts of replays at a host: with which secrets they are made, and who is refused."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, host_pb2, host_pb2_grpc, spec_pb2
from services.scheduler.tests.operation_host import operating
from services.scheduler.tests.scheduler_readsplanner import CANARY, CLUSTER, CREATED, META, SCHEMA, SPEC

from chassis.errors import ApiError, from_rpc_error

DEADLINE_S = 60
PLATFORM = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1")
PLATFORM.secret_properties["sasl.password"].env = "UNSET"


def host(folder: Path) -> AbstractAsyncContextManager[host_pb2_grpc.HostServiceStub]:
    """A host that knows the dagger `counts`, created at sequence 3."""
    stream = spec_pb2.Stream(name="s", cluster="local", topics=["t"], message="m.M", time_field="at")
    events = (
        events_pb2.ClusterRegistered(meta=META, cluster=CLUSTER),
        events_pb2.SchemaRegistered(meta=META, schema=spec_pb2.Schema(files=SCHEMA, messages=["m.M"])),
        events_pb2.StreamRegistered(meta=META, stream=stream),
        events_pb2.DaggerRequested(meta=META, name="counts", spec=SPEC),
    )
    named = [("counts", event) for event in events]
    knowledge = {"checkpoints": str(folder / "checkpoints"), "platform": PLATFORM}
    return operating(folder, named, {"TOKEN": CANARY}, knowledge=knowledge)


async def refused(stub: host_pb2_grpc.HostServiceStub, name: str = "counts", **fields: Any) -> ApiError:
    asked = events_pb2.QuarantineReplayRequested(name=name, up_to={0: 1})
    told = {"asked": asked, "create_sequence": CREATED, "min_sequence": CREATED, **fields}
    with pytest.raises(grpc.RpcError) as caught:
        async for _ in stub.ForeseeHostReplay(host_pb2.ForeseeHostReplayRequest(**told), timeout=DEADLINE_S):
            pass
    return from_rpc_error(caught.value)


async def test_the_quarantine_is_read_with_the_platforms_secrets_and_none_is_told(
    tmp_path: Path,
) -> None:
    async with host(tmp_path) as stub:
        error = await refused(stub)

    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SECRET_MISSING"), error
    assert ("UNSET" in error.message, CANARY in f"{error!r}") == (True, False)


async def test_another_dagger_or_host_is_refused_and_so_is_what_is_no_name(tmp_path: Path) -> None:
    async with host(tmp_path) as stub:
        unknown, earlier = await refused(stub, "nobody"), await refused(stub, create_sequence=1)
        wrong, elsewhere = await refused(stub, "No"), await refused(stub, host="there")

    assert (unknown.reason, earlier.reason, elsewhere.reason) == ("NOT_FOUND", "NOT_FOUND", "WRONG_HOST")
    assert [violation.field for violation in wrong.violations] == ["asked.name"]
