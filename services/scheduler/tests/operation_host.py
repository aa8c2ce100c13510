"""A host that answers host operations by a log of its own, for the tests of each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from daggers.v1 import host_pb2_grpc
from google.protobuf.message import Message

from chassis.endpoint import Endpoint
from eventlog import Draft
from eventlog.follower import Follower
from eventlog.memory import MemoryLog
from fleet import Fleet
from scheduler.host.operation_table import TABLE
from scheduler.host.operations import HostKnowledge, HostOperation, OperationRunner
from scheduler.host.row_reader import RowReader
from scheduler.host.service import HostService, serving


@asynccontextmanager
async def operating(
    folder: Path,
    events: Iterable[tuple[str, Message]],
    environment: Mapping[str, str],
    *,
    knowledge: Mapping[str, Any],
    most: int | None = None,
    **changed: Any,
) -> AsyncIterator[host_pb2_grpc.HostServiceStub]:
    """Serve the host `here` that knows these events, by subject; each operation is `changed`, or as it is.

    `knowledge`: fields of HostKnowledge beside the fleet; `most`: of the limit of each operation.
    """
    log, fleet = MemoryLog(), Fleet()
    for number, (subject, event) in enumerate(events):
        await log.append(Draft(f"e{number}", "/t", subject, datetime.now(UTC), event))
    follower = Follower(log, fleet)
    following = asyncio.create_task(follower.run())

    def as_changed(operation: HostOperation[Any]) -> HostOperation[Any]:
        limit = operation.limit if most is None else replace(operation.limit, most=most)
        return replace(operation, limit=limit, **changed)

    operations = OperationRunner(
        sys.executable,
        environment,
        folder,
        follower,
        HostKnowledge(fleet=fleet, **knowledge),
        [as_changed(operation) for operation in TABLE],
    )
    service = HostService(folder, "here", RowReader(sys.executable, {}), operations)
    async with (
        serving(service, Endpoint("127.0.0.1:0")) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield host_pb2_grpc.HostServiceStub(channel)
    following.cancel()
