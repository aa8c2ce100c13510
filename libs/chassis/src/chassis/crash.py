"""Crashes of helper processes, without what they hold: the type of the exception, and where it was raised.

What a helper prints to stderr may quote a secret, so it is dropped. `python -m chassis.crash MODULE …` runs a
module as `python -m MODULE …` does; where that ends with an exception, stderr gets one line, and never the
exception's message or a value. Who started it reads that line by `last_report`, and nothing else of stderr.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import PurePath
from traceback import walk_tb
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # a helper, which may need none, would load it at its start
    import asyncio

_FRAMES: Final = 3
_MARK: Final = "daggers crash: "
_FRAME: Final = r"[\w.-]+(?:/[\w.-]+)?:\d{1,7} in [\w<>]{1,100}"
# What another program writes behind the mark is taken only if it can be a type and places of code.
_REPORT: Final = re.compile(
    rf"{_MARK}([A-Za-z_][\w.]{{0,200}} at {_FRAME}(?: < {_FRAME}){{0,{_FRAMES - 1}}})\n"
)
_KEPT: Final = 64 * 1024
"""Bytes of stderr that are looked through: its end."""


def describe(error: BaseException) -> str:
    """Return the type of an exception and its last frames, innermost first, without its message.

    For example: `ValueError at runtime/readrows.py:42 in read < runtime/readrows.py:17 in main`.
    """
    frames = [
        f"{'/'.join(PurePath(frame.f_code.co_filename).parts[-2:])}:{line} in {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<")  # `<frozen runpy>` and the like
    ]
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return " ".join([name, *(["at", " < ".join(frames[: -_FRAMES - 1 : -1])] if frames else [])])


async def last_report(stderr: asyncio.StreamReader) -> str:
    """Read a helper's stderr to its end; return what `describe` wrote there, or nothing."""
    end = b""
    while chunk := await stderr.read(_KEPT):
        end = (end + chunk)[-_KEPT:]
    reports = _REPORT.findall(end.decode("utf-8", errors="replace"))
    return reports[-1] if reports else ""


def _report(_: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    text = f"\n{_MARK}{describe(error.with_traceback(trace))}\n"
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode(errors="replace"))


def main() -> None:
    """Run the module that the first argument names, with all others."""
    sys.excepthook = _report
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
