"""TestSink: the gateway judges, a host of drivers tries."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Final

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from access import Action
from api_gateway.auth.authorization import Gate
from api_gateway.hosts.client import PLAN_S, Hosts, in_time
from api_gateway.validate.dagger_requests import Requests, refuse
from chassis.interceptors import Context
from daggerspec import fields, sinks
from daggerspec.defaults import SINKS_TESTED, filled
from daggerspec.violation import Violation

_NOT_THEIRS: Final = "only who may change the dagger has them tried"


class SinkTests:
    """Tests of sinks, for callers of this gateway."""

    def __init__(self, hosts: Hosts, requests: Requests, gate: Gate) -> None:
        self._hosts, self._requests, self._gate = hosts, requests, gate

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
        async for step in self._steps(asked, context):
            yield step

    async def add_refusals(
        self,
        answer: gateway_pb2.PlanDaggerResponse,
        name: str,
        spec: spec_pb2.DaggerSpec,
        context: Context,
    ) -> None:
        """Say in a plan which sinks of a specification, judged and with its defaults, would take no row."""
        if not self._gate.allows(Action.CHANGE, spec.team):
            answer.sinks_untried = _NOT_THEIRS
            return
        asked = gateway_pb2.TestSinkRequest(name=name, spec=spec)
        responses, answer.sinks_untried = await in_time(self._steps(asked, context), context, PLAN_S)
        steps = (response.step for response in responses)
        failed = {step.sink: step for step in steps if step.outcome == gateway_pb2.SinkStep.OUTCOME_FAILED}
        effects = {effect.field: effect for effect in answer.sinks}
        for number, (called, sink) in enumerate(zip(sinks.called(spec.sinks), spec.sinks, strict=True)):
            if step := failed.get(called):
                field, kind = f"sinks[{number}]", sinks.kind_of(sink) or ""
                effect = effects.get(field) or answer.sinks.add(field=field, kind=kind)
                effect.reason, effect.detail = step.reason, step.detail

    def _steps(
        self, asked: gateway_pb2.TestSinkRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.TestSinkResponse, None]:
        """What a host finds. Raises: ApiError."""
        request = host_pb2.TestHostSinkRequest(request=asked)
        return self._hosts.ask_any(lambda host: host.TestHostSink, request, context)


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
