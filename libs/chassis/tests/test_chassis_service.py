"""The shape of a service: every way in which one ends has its exit code and one last line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from chassis import service
from chassis.settings import ServiceSettings

Body = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


class Oven(ServiceSettings):
    """An oven."""

    degrees: int = 180
    """How hot."""
    recipe: Path | None = None
    """What is baked."""


class Away(Exception):  # noqa: N818 - reads as what is wrong
    """The kitchen is away."""


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)
    structlog.reset_defaults()


def ended(capsys: pytest.CaptureFixture[str], serve: Body) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a service with this body, and the lines of its log."""

    async def body(degrees: int, asked: asyncio.Event) -> None:
        assert degrees == 180
        await serve(asked)

    code = service.run("an-oven", Oven, [], read=lambda oven: oven.degrees, serve=body, away=(Away,))
    return code, [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_signal_drains_it_and_it_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    drained = []

    async def serve(asked: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asked.wait()
        drained.append(True)

    code, lines = ended(capsys, serve)

    assert (code, drained) == (0, [True])
    assert [(line["event"], line["service"], line["exit_code"]) for line in lines] == [
        ("service.stopped", "an-oven", 0)
    ]


def test_what_it_writes_is_its_users_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def serve(asked: asyncio.Event) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "spec.pb").touch()

    ended(capsys, serve)

    modes = [stat.filemode(path.stat().st_mode) for path in sorted(tmp_path.rglob("*"))]
    assert modes == ["drwx------", "-rw-------"]


def test_what_is_away_is_said_in_one_line_with_69(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve(_: asyncio.Event) -> None:
        raise ExceptionGroup("both", [Away("no gas"), ExceptionGroup("one", [Away("no gas")])])

    code, lines = ended(capsys, serve)

    assert code == 69
    assert [(line["event"], line["detail"], line["exit_code"]) for line in lines] == [
        ("service.stopped", "no gas", 69)
    ]


def test_a_part_that_says_itself_that_something_is_away_is_believed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(_: asyncio.Event) -> None:
        raise service.Unavailable("no dough")

    code, lines = ended(capsys, serve)

    assert (code, [line["detail"] for line in lines]) == (69, ["no dough"])


@pytest.mark.parametrize(
    "error", [KeyError("crumbs"), ExceptionGroup("both", [Away("no gas"), KeyError("crumbs")])]
)
def test_a_crash_is_one_line_with_its_trace_and_70(
    capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    async def serve(_: asyncio.Event) -> None:
        raise error

    code, lines = ended(capsys, serve)

    assert (code, [(line["event"], line["exit_code"]) for line in lines]) == (70, [("service.stopped", 70)])
    assert "crumbs" in json.dumps(lines[0])


def test_a_file_that_cannot_be_read_is_told_with_the_variable_that_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read(oven: Oven) -> None:
        assert oven.recipe is not None
        oven.recipe.read_text(encoding="utf-8")

    async def serve(_: None, __: asyncio.Event) -> None:
        raise AssertionError("it must not serve")

    monkeypatch.setenv("RECIPE", str(tmp_path))
    code = service.run("an-oven", Oven, [], read=read, serve=serve)

    assert (code, capsys.readouterr().err.splitlines()[1]) == (2, f"  RECIPE: {tmp_path}: Is a directory")


@pytest.mark.parametrize("error", [OSError("no such file"), ValueError("no such file")])
def test_a_file_that_a_setting_names_in_vain_is_a_bad_setting(
    capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def read(_: Oven) -> None:
        raise error

    async def serve(_: None, __: asyncio.Event) -> None:
        raise AssertionError("it must not serve")

    code = service.run("an-oven", Oven, [], read=read, serve=serve)

    assert (code, capsys.readouterr().err.splitlines()) == (
        2,
        [
            "python -m an_oven: bad settings:",
            "  no such file",
            "`python -m an_oven --help` explains each setting.",
        ],
    )
