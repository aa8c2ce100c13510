"""TestSink: the gateway judges, a host of drivers tries."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

from daggers.v1 import gateway_pb2, host_pb2

from api_gateway.hosts import Hosts
from api_gateway.requests import Requests, refuse
from chassis.interceptors import Context
from daggerspec import fields
from daggerspec.defaults import SINKS_TESTED, filled
from daggerspec.violation import Violation
from fleet import Fleet

"""Of a dagger that has none yet."""


class SinkTests:
    """Tests of sinks, for callers of this gateway."""

    def __init__(self, hosts: Hosts, fleet: Fleet, requests: Requests) -> None:
        self._hosts, self._fleet, self._requests = hosts, fleet, requests

    async def steps(
        self, request: gateway_pb2.TestSinkRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.TestSinkResponse, None]:
        """What was tried, and what became of it. Raises: ApiError."""
        asked = gateway_pb2.TestSinkRequest()
        asked.CopyFrom(request)
        wrong = list(_wrong(request))
        if request.HasField("spec"):
            asked.name = request.name or SINKS_TESTED
            asked.spec.CopyFrom(filled(asked.name, request.spec))
            judged = await self._requests.judged(asked.name, asked.spec, context)
            wrong += judged.violations
        refuse(wrong)
        sequence = self._fleet.sequence

        def of(host: str) -> host_pb2.TestHostSinkRequest:
            return host_pb2.TestHostSinkRequest(request=asked, min_sequence=sequence, host=host)

        steps: AsyncGenerator[gateway_pb2.TestSinkResponse, None] = self._hosts.anywhere(
            lambda host: host.TestHostSink, of, context
        )
        async for step in steps:
            yield step


def _wrong(request: gateway_pb2.TestSinkRequest) -> Iterator[Violation]:
    """What is wrong with what is to be tried, beside a specification."""
    if request.HasField("spec"):
        if request.sink:
            yield Violation("sink", "goes without a specification", "UNEXPECTED")
        if request.name:
            yield from fields.name("name", request.name)
        return
    if not request.sink:
        yield Violation("sink", "is required, or a specification", "REQUIRED")
    if request.send_one:
        what = "goes with a specification, which says what a row is: a registered sink says where it is"
        yield Violation("send_one", what, "UNEXPECTED")
