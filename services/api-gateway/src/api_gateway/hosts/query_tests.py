"""TestDagger: run the tests of a query. The gateway encodes records and compares rows, a host computes them.

All tests of a call together are one preview of the caller, and of the team.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from daggers.v1 import gateway_pb2, host_pb2, spec_pb2

from access.sensitive import RowOrigins
from api_gateway.auth.masking import Masking
from api_gateway.hosts import row_comparison
from api_gateway.hosts.client import Hosts
from api_gateway.hosts.previews import Previews, Usage
from api_gateway.hosts.row_comparison import SHOWN
from api_gateway.validate import given_records
from api_gateway.validate.dagger_requests import DaggerRequests, refuse
from chassis.errors import ApiError
from chassis.interceptors import Context
from daggerspec import fields
from daggerspec.columns import Column
from daggerspec.defaults import PREVIEWED, fill_defaults
from daggerspec.exactjson import dumps
from daggerspec.limits import PREVIEW_S, TEST_ROWS
from daggerspec.nearest import hint, nearest
from daggerspec.preview import without_sinks
from daggerspec.querytests import read_object, without_tests
from daggerspec.violation import Violation
from fleet import Fleet

Step = gateway_pb2.TestDaggerResponse
Result = gateway_pb2.TestResult


@dataclass(frozen=True, slots=True)
class _Engine:
    """Parts that all tests of a call have in common."""

    name: str
    spec: spec_pb2.DaggerSpec
    """Without its tests."""
    columns: Sequence[Column]
    masked: Sequence[str]
    """Output columns that the caller may not see."""
    usage: Usage
    context: Context


class QueryTests:
    """Runs tests of queries for callers of this gateway."""

    def __init__(
        self, hosts: Hosts, fleet: Fleet, requests: DaggerRequests, masking: Masking, previews: Previews
    ) -> None:
        """Remember the parts. `previews` says how many may run."""
        self._hosts, self._fleet, self._requests = hosts, fleet, requests
        self._masking, self._previews = masking, previews

    async def steps(
        self, request: gateway_pb2.TestDaggerRequest, context: Context
    ) -> AsyncGenerator[Step, None]:
        """Yield the progress and the result of each test, and how many passed. Raises: ApiError."""
        began = time.monotonic()
        name = request.name or PREVIEWED
        spec = fill_defaults(name, without_sinks(request.spec))
        validation = await self._requests.validate(name, spec, context, written=False)
        chosen = [test for test in spec.tests if not request.tests or test.name in request.tests]
        wrong = [
            *(fields.name("name", request.name) if request.name else ()),
            *validation.violations,
            *_wrong(request),
        ]
        plan = validation.query.plan
        mask = None
        if plan is not None:
            mask = self._masking.mask_preview(spec, RowOrigins(plan.columns, plan.origins, plan.places))
        masked = [column.name for column in mask.hidden] if mask else []
        refuse([*wrong, *_check_masked(spec, masked)])
        assert plan is not None  # a query without a plan has violations
        list(self._previews.check_quota(spec.team))
        passed = 0
        with self._previews.admit(spec.team) as usage:
            engine = _Engine(name, without_tests(spec), plan.columns, masked, usage, context)
            for number, test in enumerate(chosen):
                given, _ = given_records.encode("spec", spec, test, self._fleet)
                progress = gateway_pb2.TestProgress(test=test.name, finished=number, total=len(chosen))
                yield Step(progress=progress)
                async with aclosing(self._run(engine, test, given, progress)) as steps:
                    async for step in steps:
                        passed += step.result.passed
                        yield step
        took_ms = round((time.monotonic() - began) * 1000)
        failed = len(chosen) - passed
        yield Step(done=gateway_pb2.TestsDone(passed=passed, failed=failed, took_ms=took_ms))

    async def _run(
        self,
        engine: _Engine,
        test: spec_pb2.QueryTest,
        given: Mapping[str, Sequence[bytes]],
        progress: gateway_pb2.TestProgress,
    ) -> AsyncGenerator[Step, None]:
        """Yield what is new of one test, and its result. Raises: ApiError where it could not begin."""
        began = time.monotonic()
        rows: list[gateway_pb2.Row] = []
        done: gateway_pb2.PreviewDone | None = None
        reading = False
        try:
            async with aclosing(self._host_steps(engine, test, given)) as steps:
                async for step in steps:
                    engine.usage.note(step)
                    if step.HasField("rows"):
                        rows.extend(step.rows.rows)
                    elif step.HasField("done"):
                        done = step.done
                    elif step.HasField("progress"):
                        reading |= step.progress.phase == gateway_pb2.PreviewProgress.PHASE_READING
                        progress.engine.CopyFrom(step.progress)
                        yield Step(progress=progress)
            result = await asyncio.to_thread(_judge, test, rows, done, engine.columns)
        except ApiError as error:
            if not reading:
                raise
            result = Result(error=error.message)
        result.test = test.name
        result.took_ms = round((time.monotonic() - began) * 1000)
        yield Step(result=result)

    def _host_steps(
        self, engine: _Engine, test: spec_pb2.QueryTest, given: Mapping[str, Sequence[bytes]]
    ) -> AsyncGenerator[gateway_pb2.PreviewDaggerResponse, None]:
        """Yield the steps of a preview of given records on a host. Raises: ApiError."""
        preview_request = gateway_pb2.PreviewDaggerRequest(
            name=engine.name, spec=engine.spec, max_rows=TEST_ROWS
        )
        tables = [host_pb2.GivenInput.Table(table=table, records=records) for table, records in given.items()]
        host_request = host_pb2.PreviewHostDaggerRequest(
            request=preview_request,
            masked_columns=engine.masked,
            given=host_pb2.GivenInput(now=test.now if test.HasField("now") else None, tables=tables),
        )
        return self._hosts.ask_any(
            lambda host: host.PreviewHostDagger,
            host_request,
            engine.context,
            spec=engine.spec,
            avoid_cordoned=True,
        )


def _judge(
    test: spec_pb2.QueryTest,
    rows: Sequence[gateway_pb2.Row],
    done: gateway_pb2.PreviewDone | None,
    columns: Sequence[Column],
) -> Result:
    """Compare what became of the records with what was expected."""
    if done is None or done.reason == gateway_pb2.PreviewDone.REASON_TIME_LIMIT:
        return Result(error=f"it took longer than {PREVIEW_S:.0f} s", rows=len(rows))
    if done.rows_left_out:
        text = f"it gave {done.rows:,} rows, more than the {TEST_ROWS:,} that a test may give"
        return Result(error=text, rows=done.rows)
    expected = [read_object(text) or {} for text in test.expect.rows]
    cells = [row_comparison.cells_of(row, columns) for row in rows]
    differences = [
        *row_comparison.compare_rows(expected, cells, columns),
        *row_comparison.compare_counts(test.expect.quarantined, test.expect.late, done),
    ]
    return Result(
        passed=not differences,
        differences=differences[:SHOWN],
        differences_total=len(differences),
        rows=len(rows),
        actual=map(dumps, cells),
    )


def _wrong(request: gateway_pb2.TestDaggerRequest) -> Iterator[Violation]:
    """Yield what is wrong with the names of the wanted tests."""
    names = [test.name for test in request.spec.tests]
    if not names:
        yield Violation(
            "spec.tests", "must have a test: given records, and rows that are expected", "REQUIRED"
        )
        return
    for number, name in enumerate(request.tests):
        if name not in names:
            near = nearest(name, names)
            problem = f"there is no test {name[:200]}" + hint(near, f": there are {', '.join(names)}")
            yield Violation(f"tests[{number}]", problem, "UNKNOWN_TEST", suggestion=near)


def _check_masked(spec: spec_pb2.DaggerSpec, masked: Sequence[str]) -> Iterator[Violation]:
    """Yield the expected columns that the caller may not see."""
    for number, test in enumerate(spec.tests):
        for index, text in enumerate(test.expect.rows):
            for name in (read_object(text) or {}).keys() & set(masked):
                problem = (
                    f"of test {test.name}, expected row {index + 1}: column {name} is made of sensitive"
                    " fields that you may not read: leave it out"
                )
                yield Violation(
                    f"spec.tests[{number}].expect.rows[{index}]", problem, given_records.SENSITIVE
                )
