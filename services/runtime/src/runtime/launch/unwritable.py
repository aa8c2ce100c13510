"""Rows at which a sink's own code fails, found and refused: one of them is no reason to write none.

What is known to be unwritable the sinks refuse themselves. This is for what nobody knew: a text that is no
UTF-8, a number or a time that some library cannot hold.
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
"""What libraries raise of a value; of anything else the code is the reason."""


def written(writer: Writer, batch: pa.RecordBatch, batch_id: int) -> Outcome:
    """Write a batch; the rows at which its sink's code fails are refused, and the others are written.

    Raises: JobError; and what was raised, where it fails at each of many rows.
    """
    try:
        return writer.write(batch, batch_id)
    except JobError:
        raise
    except Exception as problem:
        if not _is_of_values(problem):
            raise
        outcomes = _divided(writer, batch, batch_id, problem)
        refused = [refusal for outcome in outcomes for refusal in outcome.refused]
        failed = sum(refusal.reason == UNWRITABLE for refusal in refused)
        if failed == batch.num_rows >= MANY:
            raise
        return Outcome(refused=refused, printed=[line for outcome in outcomes for line in outcome.printed])


def _divided(
    writer: Writer, batch: pa.RecordBatch, batch_id: int, problem: Exception, start: int = 0
) -> Sequence[Outcome]:
    """What becomes of the halves of a batch at which it failed; rows counted from `start`."""
    if batch.num_rows == 1:
        detail = f"The row has a value that cannot be written ({_name(problem)})."
        return [Outcome(refused=[Refusal(start, UNWRITABLE, detail)])]
    half = batch.num_rows // 2
    outcomes: list[Outcome] = []
    for begin, part in ((start, batch.slice(0, half)), (start + half, batch.slice(half))):
        try:
            outcome = writer.write(part, batch_id)
        except JobError:
            raise
        except Exception as again:
            if not _is_of_values(again):
                raise
            outcomes += _divided(writer, part, batch_id, again, begin)
        else:
            refused = [replace(refusal, row=begin + refusal.row) for refusal in outcome.refused]
            outcomes.append(replace(outcome, refused=refused))
    return outcomes


def _is_of_values(problem: BaseException) -> bool:
    if isinstance(problem, BaseExceptionGroup):
        return all(map(_is_of_values, problem.exceptions))
    return isinstance(problem, _OF_VALUES)


def _name(problem: BaseException) -> str:
    """The kind of an error; its words may quote a value."""
    if isinstance(problem, BaseExceptionGroup):
        return _name(problem.exceptions[0])
    return type(problem).__name__
