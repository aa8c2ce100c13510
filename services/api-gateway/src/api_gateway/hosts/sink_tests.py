"""TestSink: the gateway validates a sink, a host of drivers connects to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Final

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from access import Action
from api_gateway.auth.authorization import Gate
from api_gateway.hosts.client import PLAN_S, Hosts, in_time
from api_gateway.validate.dagger_requests import DaggerRequests, refuse
from chassis.interceptors import Context
from daggerspec import fields, sinks
from daggerspec.defaults import SINKS_TESTED, fill_defaults
from daggerspec.violation import Violation

_NOT_THEIRS: Final = "only who may change the dagger has them tried"


class SinkTests:
    """Runs tests of sinks for callers of this gateway."""

    def __init__(self, hosts: Hosts, requests: DaggerRequests, gate: Gate) -> None:
        self._hosts, self._requests, self._gate = hosts, requests, gate

    async def steps(
        self, request: gateway_pb2.TestSinkRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.TestSinkResponse, None]:
        """Yield the steps of a test with their outcomes. Raises: ApiError."""
        test_request = gateway_pb2.TestSinkRequest()
        test_request.CopyFrom(request)
        wrong = list(_wrong(request))
        if request.HasField("spec"):
            test_request.name = request.name or SINKS_TESTED
            test_request.spec.CopyFrom(fill_defaults(test_request.name, request.spec))
            validation = await self._requests.validate(test_request.name, test_request.spec, context)
            wrong += validation.violations
        refuse(wrong)
        async for step in self._steps(test_request, context):
            yield step

    async def add_refusals(
        self,
        answer: gateway_pb2.PlanDaggerResponse,
        name: str,
        spec: spec_pb2.DaggerSpec,
        context: Context,
    ) -> None:
        """Set in a plan which sinks would take no row. `spec` is valid and has its defaults."""
        if not self._gate.allows(Action.CHANGE, spec.team):
            answer.sinks_untried = _NOT_THEIRS
            return
        test_request = gateway_pb2.TestSinkRequest(name=name, spec=spec)
        responses, answer.sinks_untried = await in_time(self._steps(test_request, context), context, PLAN_S)
        steps = (response.step for response in responses)
        failed = {step.sink: step for step in steps if step.outcome == gateway_pb2.SinkStep.OUTCOME_FAILED}
        effects = {effect.field: effect for effect in answer.sinks}
        for number, (called, sink) in enumerate(
            zip(sinks.display_names(spec.sinks), spec.sinks, strict=True)
        ):
            if step := failed.get(called):
                field, kind = f"sinks[{number}]", sinks.kind_of(sink) or ""
                effect = effects.get(field) or answer.sinks.add(field=field, kind=kind)
                effect.reason, effect.detail = step.reason, step.detail

    def _steps(
        self, test_request: gateway_pb2.TestSinkRequest, context: Context
    ) -> AsyncGenerator[gateway_pb2.TestSinkResponse, None]:
        """Yield the steps of a test on a host. Raises: ApiError."""
        request = host_pb2.TestHostSinkRequest(request=test_request)
        registered = spec_pb2.DaggerSpec(sinks=[spec_pb2.Sink(registered=test_request.sink)])
        reads = test_request.spec if test_request.HasField("spec") else registered
        return self._hosts.ask_any(lambda host: host.TestHostSink, request, context, spec=reads)


def _wrong(request: gateway_pb2.TestSinkRequest) -> Iterator[Violation]:
    """Yield what is wrong with a request, except its specification."""
    if request.HasField("spec"):
        if request.sink:
            yield Violation("sink", "goes without a specification", "UNEXPECTED")
        if request.name:
            yield from fields.name("name", request.name)
        return
    if not request.sink:
        yield Violation("sink", "is required, or a specification", "REQUIRED")
    if request.send_one:
        text = "goes with a specification, which says what a row is: a registered sink says where it is"
        yield Violation("send_one", text, "UNEXPECTED")
