"""Divide the state of a checkpoint anew, when its dagger moves to more or fewer cores.

Spark computes a stateful query in as many tasks as its first batch had, as long as its checkpoint lives. Its
`repartition` rewrites the state as of the last batch, as a batch of its own that reads nothing. It is only
for a checkpoint without an unfinished batch: to skip that one would give its records another batch, which
sinks cannot tell from new ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chassis.logging import logger
from daggerspec.state import STATE_UNDIVIDED
from runtime.errors import internal
from runtime.state import checkpoint
from runtime.state.store import Place

_PROVIDER, _ON_DISK = "spark.sql.streaming.stateStore.providerClass", "RocksDB"
_IN_MEMORY = (
    "Spark divides no state in memory. With `state: disk` its open windows are read again once, and its state"
    " is divided from then on."
)
_UNFINISHED = "its last batch was not finished when it moved. `daggers restart` divides it and loses nothing."


@dataclass(frozen=True, slots=True)
class Division:
    """Steps that divide the state of a checkpoint before its query starts."""

    numbers: tuple[int, ...]
    """Numbers of partitions to divide its state into, one after the other; none where all is well."""
    warning: str = ""
    """Reason for which it stays as it is, for a person; empty where it does not."""


AS_IT_IS = Division(())
"""Its state is not divided anew."""


def plan_division(path: Place, wanted: int) -> Division:
    """Decide how the state of a checkpoint gets `wanted` partitions. Raises: OSError.

    A division that a launch before this one began is finished first: Spark accepts no other one until then.
    State in memory stays as it is: Spark's `repartition` refuses it, after it has written that it begins.
    """
    begun, committed = checkpoint.last_batch(path / "offsets"), checkpoint.last_batch(path / "commits")
    if begun is None or committed is None or not (path / "state").is_dir():
        return AS_IT_IS
    settings = [checkpoint.settings(path, int(batch.name)) for batch in (begun, committed)]
    now, last = (int(setting.get(checkpoint.PARTITIONS, wanted)) for setting in settings)
    unfinished = () if now == last else (now,)
    if now == wanted:
        return Division(unfinished)
    if _ON_DISK not in settings[0].get(_PROVIDER, ""):
        # more tasks than cores cost milliseconds in a batch, and nobody has to hear of them
        return Division((), _warn(now, wanted, _IN_MEMORY) if now < wanted else "")
    if begun.name != committed.name and not unfinished:
        return Division((), _warn(now, wanted, _UNFINISHED))
    return Division((*unfinished, wanted))


def divide(session: SparkSession, path: Place, numbers: tuple[int, ...]) -> None:
    """Divide the state of a checkpoint into so many partitions, one number after the other.

    Raises: JobError (INTERNAL, retryable), and the next launch begins where this one ended.
    """
    is_exact = checkpoint.is_read_until_exact(path)
    for number in numbers:
        try:
            session._streamingCheckpointManager.repartition(str(path), number)  # noqa: SLF001 - not public in Spark 4.3
        except (PySparkException, Py4JError) as problem:
            raise internal(
                "STATE_NOT_DIVIDED",
                f"Spark could not divide its state into {number} partitions: {_first_line(problem)}",
                retryable=True,
            ) from problem
        logger().info("state.divided", partitions=number)
    committed = checkpoint.last_batch(path / "commits")
    if numbers and is_exact and committed is not None:
        checkpoint.keep_read_until(path, checkpoint.read_until(path), int(committed.name))


def count_wanted(session: SparkSession) -> int:
    """Return the number of partitions that a query of this session begins with."""
    return int(session.conf.get(checkpoint.PARTITIONS) or 1)


def _warn(now: int, wanted: int, why: str) -> str:
    return f"{STATE_UNDIVIDED}: it computes in {now} task{'s' if now > 1 else ''} and not in {wanted}: {why}"


def _first_line(problem: BaseException) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)
