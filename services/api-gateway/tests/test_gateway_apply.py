"""ApplyDagger: whatever a dagger is, it comes to be what is asked, and asked again nothing is written."""

import asyncio
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2 as pb

from daggerspec.defaults import fill_defaults

CODE = grpc.StatusCode
CREATED, UPDATED = pb.ApplyDaggerResponse.ACTION_CREATED, pb.ApplyDaggerResponse.ACTION_UPDATED
STARTED, UNCHANGED = pb.ApplyDaggerResponse.ACTION_STARTED, pb.ApplyDaggerResponse.ACTION_UNCHANGED
NAME = "completed_bookings"


@pytest.fixture
def apply(ready: Any, samples: Any) -> Any:
    """Applies a spec, the usual one unless another is given."""

    async def ask(**fields: Any) -> pb.ApplyDaggerResponse:
        request = pb.ApplyDaggerRequest(**{"name": NAME, "spec": samples.spec(), **fields})
        answer: pb.ApplyDaggerResponse = await ready.daggers.ApplyDagger(request, timeout=10)
        return answer

    return ask


@pytest.fixture
def another(samples: Any) -> Any:
    """A spec that differs from the usual one."""
    spec = samples.spec()
    spec.team = "another"
    return spec


async def stop(ready: Any) -> None:
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name=NAME), timeout=10)


async def test_a_dagger_is_created_revised_started_or_left_alone(
    ready: Any, apply: Any, another: Any
) -> None:
    answers = [await apply(), await apply(), await apply(spec=another)]
    await stop(ready)
    answers += [await apply(spec=another), await apply(spec=another)]
    end = await ready.log.end()

    assert [answer.action for answer in answers] == [CREATED, UNCHANGED, UPDATED, STARTED, UNCHANGED]
    assert [answer.sequence for answer in answers][1::3] == [0, 0]
    assert answers[3].sequence == end
    assert [answer.dagger.version for answer in answers] == [1, 1, 2, 4, 4]


async def test_a_revision_that_stops_being_one_with_the_defaults_filled_in_does_nothing(
    ready: Any, apply: Any, samples: Any
) -> None:
    await apply()
    before = await ready.log.end()

    answer = await apply(spec=fill_defaults(NAME, samples.spec()))

    assert (answer.action, await ready.log.end()) == (UNCHANGED, before)


async def test_a_check_says_what_would_be_done_and_does_nothing(ready: Any, apply: Any, another: Any) -> None:
    created = await apply(validate_only=True)
    await apply()
    before = await ready.log.end()
    rest = [await apply(validate_only=True), await apply(spec=another, validate_only=True)]
    unwritten = await ready.log.end() == before
    await stop(ready)
    started = await apply(validate_only=True)

    assert [each.action for each in (created, *rest, started)] == [CREATED, UNCHANGED, UPDATED, STARTED]
    assert (created.sequence, rest[1].sequence, started.sequence, unwritten) == (0, 0, 0, True)
    assert (rest[1].dagger.spec.team, rest[1].dagger.version) == ("another", 2)


@pytest.mark.parametrize("action", [CREATED, UPDATED, STARTED])
async def test_a_repeat_under_its_id_gets_the_same_answer_and_writes_nothing(
    ready: Any, apply: Any, another: Any, action: int
) -> None:
    if action != CREATED:
        await apply()
    if action == STARTED:
        await stop(ready)
    spec = {"spec": another} if action == UPDATED else {}
    first = await apply(request_id="once", **spec)
    before = await ready.log.end()

    second = await apply(request_id="once", **spec)

    assert (first.action, second.action) == (action, action)
    assert (second.sequence, await ready.log.end()) == (first.sequence, before)


async def test_an_id_that_was_used_for_another_request_is_refused(
    apply: Any, another: Any, refusal: Any
) -> None:
    await apply(request_id="once")

    error = await refusal(apply(request_id="once", spec=another))

    assert (error.code, error.reason) == (CODE.INVALID_ARGUMENT, "REQUEST_ID_REUSED")


@pytest.mark.parametrize(("version", "code"), [(0, CODE.ALREADY_EXISTS), (2, CODE.ABORTED), (1, None)])
async def test_a_version_that_does_not_hold_is_refused_though_there_is_nothing_to_do(
    apply: Any, refusal: Any, version: int, code: grpc.StatusCode | None
) -> None:
    await apply(expected_version=0)

    if code is None:
        assert (await apply(expected_version=version)).action == UNCHANGED
    else:
        assert (await refusal(apply(expected_version=version))).code == code


async def test_many_at_once_are_one_dagger(ready: Any, apply: Any) -> None:
    answers = await asyncio.gather(*(apply() for _ in range(5)))
    got = await ready.daggers.GetDagger(pb.GetDaggerRequest(name=NAME), timeout=10)

    assert [answer.action for answer in answers].count(CREATED) == 1
    assert got.dagger.desired == pb.DESIRED_RUNNING


async def test_everything_that_is_wrong_is_told_at_once(
    ready: Any, apply: Any, samples: Any, refusal: Any
) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace("SELECT city", "SELECT nope")
    del spec.sinks[:]
    before = await ready.log.end()

    error = await refusal(apply(name="No", spec=spec))

    assert {violation.field for violation in error.violations} == {"name", "spec.sql", "spec.sinks"}
    assert await ready.log.end() == before
