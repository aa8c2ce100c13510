"""Queries are checked in processes of their own, each caller's one at a time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextvars import copy_context
from typing import Any

import psutil
import pytest

from access import Principal
from api_gateway.auth import authentication
from api_gateway.validate.query_check_pool import (
    AT_ONCE,
    MOST_WAITING,
    PROCESSES,
    CheckProcesses,
    check_processes,
    in_thread,
)
from api_gateway.validate.query_check_process import Question
from chassis.errors import ApiError
from daggersql import CheckResult

_PATIENCE_S = 60.0


def asked(sql: str) -> Question:
    return Question(sql, (), (), early=False, points=False, accepted=False)


EASY = asked("SELECT 1 AS n FROM no_such_table")
_CASE = "CASE " + " ".join(f"WHEN x = {number} THEN {number}" for number in range(50)) + " END"
# 80 KiB that take a few tenths of a CPU-second to read, in none of which anything is wrong.
COSTLY = asked(f"SELECT {', '.join(f'{_CASE} AS c{number}' for number in range(60))} FROM no_such_table")


def by(name: str, checks: CheckProcesses, question: Question) -> asyncio.Task[CheckResult]:
    """A check that somebody asks for."""
    context = copy_context()
    context.run(authentication._principal.set, Principal(name))
    return asyncio.create_task(checks(question), context=context)


@pytest.fixture
async def checks() -> AsyncIterator[CheckProcesses]:
    async with check_processes() as made:
        yield made


def checkers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if "api_gateway.validate.query_check_process" in _command(child)
    ]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


async def until(true: Any) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not true():  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.01)


async def answered(checks: CheckProcesses, question: Question) -> CheckResult | str:
    """What is found, or why nothing is."""
    try:
        return await checks(question)
    except ApiError as error:
        return error.reason


async def test_a_process_finds_what_a_thread_finds(checks: CheckProcesses) -> None:
    assert await checks(EASY) == await in_thread(EASY)


async def test_a_process_that_was_killed_is_replaced(checks: CheckProcesses) -> None:
    await until(lambda: len(checkers()) == PROCESSES)
    await checks(EASY)
    for checker in checkers():
        os.kill(checker.pid, signal.SIGKILL)
        checker.wait(_PATIENCE_S)
    expected = await in_thread(EASY)
    found = [await answered(checks, EASY) for _ in range(PROCESSES + 1)]

    assert expected in found
    assert all(each in (expected, "CHECK_PROCESS_DIED") for each in found)


async def test_a_check_that_takes_too_much_is_ended_and_nothing_is_left_behind() -> None:
    async with check_processes(cpu_s=0.05) as checks:
        too_costly = await checks(COSTLY)
        easy = await checks(EASY)

    assert too_costly.plan is None
    assert [finding.code for finding in too_costly.findings] == ["CHECK_TOO_COSTLY"]
    assert easy == await in_thread(EASY)
    assert checkers() == []


async def test_processes_start_once_the_gateway_serves_and_a_check_before_starts_its_own() -> None:
    served = asyncio.Event()
    async with check_processes(after=served) as checks:
        before = checkers()
        checked = await checks(EASY)
        own = checkers()
        served.set()
        await until(lambda: len(checkers()) == PROCESSES)

    assert (before, len(own), checkers()) == ([], 1, [])
    assert checked == await in_thread(EASY)


async def test_one_caller_takes_no_process_from_another(checks: CheckProcesses) -> None:
    hostile = [by("hostile", checks, asked(f"{COSTLY.sql} -- {number}")) for number in range(4)]
    await by("other", checks, EASY)
    answered = sum(each.done() for each in hostile)
    await asyncio.gather(*hostile)

    assert answered < len(hostile)


async def test_who_asks_for_too_many_checks_at_once_is_refused(checks: CheckProcesses) -> None:
    most = AT_ONCE + MOST_WAITING
    questions = [asked(f"{EASY.sql} -- {number}") for number in range(most + 1)]
    found = await asyncio.gather(
        *(by("hostile", checks, question) for question in questions), return_exceptions=True
    )
    refused = [each.reason for each in found if isinstance(each, ApiError)]

    assert refused == ["TOO_MANY_CHECKS"]
    assert (await checks(EASY)).findings


async def test_what_one_caller_asks_many_times_at_once_is_checked_once(checks: CheckProcesses) -> None:
    first, *others = [by("busy", checks, EASY) for _ in range(2 * MOST_WAITING)]
    found = await first

    assert found.findings
    assert all([await each is found for each in others])
    assert await by("another", checks, EASY) is not found


async def test_who_goes_away_takes_no_process_with_them(checks: CheckProcesses) -> None:
    await checks(EASY)
    await until(lambda: len(checkers()) == PROCESSES)
    before = {checker.pid for checker in checkers()}
    for _ in range(3):
        going = by("hasty", checks, COSTLY)
        await asyncio.sleep(0)
        going.cancel()
    await by("hasty", checks, EASY)

    assert {checker.pid for checker in checkers()} == before
