"""Plans at a host: which launch is looked at, with which secrets, and who is refused."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, host_pb2, host_pb2_grpc, spec_pb2
from services.scheduler.tests.operation_host import operating
from services.scheduler.tests.scheduler_readsplanner import (
    CANARY,
    CLUSTER,
    CREATED,
    META,
    SCHEMA,
    SPEC,
)

from chassis.errors import ApiError, from_rpc_error
from scheduler.host import reader_process

DEADLINE_S = 60


def host(folder: Path, **changed: Any) -> AbstractAsyncContextManager[host_pb2_grpc.HostServiceStub]:
    """A host that knows the dagger `counts`, created at sequence 3."""
    stream = spec_pb2.Stream(name="s", cluster="local", topics=["t"], message="m.M", time_field="at")
    events = (
        events_pb2.ClusterRegistered(meta=META, cluster=CLUSTER),
        events_pb2.SchemaRegistered(meta=META, schema=spec_pb2.Schema(files=SCHEMA, messages=["m.M"])),
        events_pb2.StreamRegistered(meta=META, stream=stream),
        events_pb2.DaggerRequested(meta=META, name="counts", spec=SPEC),
    )
    named = [("counts", event) for event in events]
    knowledge = {"checkpoints": str(folder / "checkpoints")}
    return operating(folder, named, {"TOKEN": CANARY}, knowledge=knowledge, **changed)


async def refused(stub: host_pb2_grpc.HostServiceStub, **fields: Any) -> ApiError:
    asked = {"name": "counts", "spec": SPEC, "create_sequence": CREATED, "min_sequence": CREATED, **fields}
    with pytest.raises(grpc.RpcError) as caught:
        async for _ in stub.PlanHostReads(host_pb2.PlanHostReadsRequest(**asked), timeout=DEADLINE_S):
            pass
    return from_rpc_error(caught.value)


async def test_it_has_the_secrets_of_the_cluster_and_tells_none(tmp_path: Path) -> None:
    async with host(tmp_path) as stub:
        error = await refused(stub)

    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SECRET_MISSING"), error
    assert ("UNSET" in error.message, CANARY in f"{error!r}") == (True, False)


async def test_another_dagger_or_host_is_said_and_so_is_what_cannot_be_asked(tmp_path: Path) -> None:
    async with host(tmp_path) as stub:
        unknown, earlier = await refused(stub, name="nobody"), await refused(stub, create_sequence=1)
        wrong, elsewhere = await refused(stub, name="No"), await refused(stub, host="there")
        other = spec_pb2.DaggerSpec.FromString(SPEC.SerializeToString())
        other.streams[0].stream = "gone"
        unresolved = await refused(stub, spec=other)

    assert (unknown.reason, earlier.reason, elsewhere.reason) == ("NOT_FOUND", "NOT_FOUND", "WRONG_HOST")
    assert [violation.field for violation in wrong.violations] == ["name"]
    assert (unresolved.code, unresolved.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "UNKNOWN_STREAM")


async def test_a_host_that_is_behind_busy_or_whose_process_dies_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_process, "BEHIND_S", 0.1)
    async with host(tmp_path) as stub:
        behind = await refused(stub, min_sequence=99)
    async with host(tmp_path, most=0) as stub:
        busy = await refused(stub)
    async with host(tmp_path, module="no_such_module") as stub:
        dead = await refused(stub)

    assert (behind.reason, busy.reason, busy.metadata["what"]) == ("HOST_BEHIND", "HOST_BUSY", "plans")
    assert dead.reason == "OFFSET_READER_DIED"
