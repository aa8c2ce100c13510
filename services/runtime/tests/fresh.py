"""Functions in processes of their own, which may be killed at any step."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

PATIENCE_S = 240


def exit_code(work: Callable[..., Any], *arguments: Any) -> int | None:
    """The exit code of a fresh process that did this; None if it never came to an end.

    It is not forked: a child that is forked beside the threads of gRPC, librdkafka or OpenSSL may die in
    them. Workers of Spark are forked where none of them runs.
    """
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join(PATIENCE_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    return process.exitcode
