"""Find and refuse the rows at which a sink's own code fails, and write the others.

Known unwritable values are refused by the sinks themselves. This is for the unknown ones: a text that is not
UTF-8, a number or a time that some library cannot represent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from runtime.clients.bisection import MANY
from runtime.encode.rows import Refusal
from runtime.errors import JobError
from runtime.sinks import Outcome, Writer

UNWRITABLE: Final = "UNWRITABLE"
_OF_VALUES: Final = (ValueError, ArithmeticError, pa.ArrowException)
"""Errors that libraries raise for a value; any other is a bug of the code."""


def write_rows(writer: Writer, batch: pa.RecordBatch, batch_id: int) -> Outcome:
    """Write a batch; refuse the rows at which the sink's code fails.

    Raises: JobError; and the code's error, where it fails at each of many rows.
    """
    try:
        return writer.write(batch, batch_id)
    except JobError:
        raise
    except Exception as problem:
        if not _is_of_values(problem):
            raise
        outcomes = _write_halves(writer, batch, batch_id, problem)
        refused = [refusal for outcome in outcomes for refusal in outcome.refused]
        failed = sum(refusal.reason == UNWRITABLE for refusal in refused)
        if failed == batch.num_rows >= MANY:
            raise
        return Outcome(refused=refused, printed=[line for outcome in outcomes for line in outcome.printed])


def _write_halves(
    writer: Writer, batch: pa.RecordBatch, batch_id: int, problem: Exception, start: int = 0
) -> Sequence[Outcome]:
    """Write the halves of a batch that failed, and return their outcomes; rows are counted from `start`."""
    if batch.num_rows == 1:
        detail = f"The row has a value that cannot be written ({_error_name(problem)})."
        return [Outcome(refused=[Refusal(start, UNWRITABLE, detail)])]
    half = batch.num_rows // 2
    outcomes: list[Outcome] = []
    for begin, part in ((start, batch.slice(0, half)), (start + half, batch.slice(half))):
        try:
            outcome = writer.write(part, batch_id)
        except JobError:
            raise
        except Exception as error:
            if not _is_of_values(error):
                raise
            outcomes += _write_halves(writer, part, batch_id, error, begin)
        else:
            refused = [replace(refusal, row=begin + refusal.row) for refusal in outcome.refused]
            outcomes.append(replace(outcome, refused=refused))
    return outcomes


def _is_of_values(problem: BaseException) -> bool:
    if isinstance(problem, BaseExceptionGroup):
        return all(map(_is_of_values, problem.exceptions))
    return isinstance(problem, _OF_VALUES)


def _error_name(problem: BaseException) -> str:
    """Return the class name of an error; its text may quote a value."""
    if isinstance(problem, BaseExceptionGroup):
        return _error_name(problem.exceptions[0])
    return type(problem).__name__
