"""Every way a job ends or waits, and how each survives the trip through the JVM.

    JobError            ends the job; who has to act, why, whether a relaunch can help
    ├── TemporaryError  does not end it: the same step is tried again, with back-off
    └── FencedError     a newer generation runs this dagger

A `JobError` raised in a Python worker reaches the driver as text inside Spark's own exception, so its text
carries a mark (`[daggers EXTERNAL TOPIC_MISSING retryable] sentence`) that `explain` reads back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggers.v1 import events_pb2
from google.protobuf import json_format
from py4j.protocol import Py4JNetworkError

from daggerspec import anew, exits
from daggerspec.limits import WORKER_MEMORY_MIB
from daggerspec.violation import Violation
from runtime.hiding import redact

USER = events_pb2.ERROR_DOMAIN_USER
EXTERNAL = events_pb2.ERROR_DOMAIN_EXTERNAL
INTERNAL = events_pb2.ERROR_DOMAIN_INTERNAL
UNEXPECTED = "UNEXPECTED"  # the reason of a failure that nothing is known about

_NAMES = {USER: "USER", EXTERNAL: "EXTERNAL", INTERNAL: "INTERNAL"}
_DOMAINS = {name: domain for domain, name in _NAMES.items()}
_MARK = re.compile(r"\[daggers (USER|EXTERNAL|INTERNAL) ([A-Z0-9_]+)( retryable)?\] ([^\n]+)")
_MAX_DETAIL = 1000


class JobError(Exception):
    """Ends the job. `detail` is one sentence for a person: no stack trace, and no secret that a server
    quotes.
    """

    def __init__(
        self, domain: events_pb2.ErrorDomain.ValueType, reason: str, detail: str, *, retryable: bool = False
    ) -> None:
        one_line = " ".join(redact(detail).split())[:_MAX_DETAIL]
        self.error = events_pb2.DaggerError(
            domain=domain, reason=reason, detail=one_line, retryable=retryable
        )
        mark = f"{_NAMES[domain]} {reason}{' retryable' if retryable else ''}"
        super().__init__(f"[daggers {mark}] {one_line}")


class TemporaryError(JobError):
    """Something outside does not work just now: the step is tried again until it does.

    `retry_after` is how many seconds to wait before; None where the server does not say.
    """

    def __init__(self, reason: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(EXTERNAL, reason, detail, retryable=True)
        self.retry_after = retry_after


class FencedError(JobError):
    """A newer generation holds the dagger's lease: this driver must not write any more."""

    def __init__(self, own: int, newer: int) -> None:
        super().__init__(
            INTERNAL, "FENCED", f"Generation {newer} runs this dagger now; generation {own} has ended."
        )


def user(reason: str, detail: str) -> JobError:
    """Make an error that only a new revision of the dagger can mend."""
    return JobError(USER, reason, detail)


def violation_error(violations: Sequence[Violation]) -> JobError:
    """Make the error of violations of the rule book; the first gives the reason."""
    sentences = (
        (violation.field, violation.description.partition("\n")[0].rstrip(".")) for violation in violations
    )
    detail = " ".join(f"{field} {sentence}." for field, sentence in sentences)
    return user(violations[0].reason, detail)


def external(reason: str, detail: str, *, retryable: bool = False) -> JobError:
    """Make an error of Kafka, Spark, a sink or the machine."""
    return JobError(EXTERNAL, reason, detail, retryable=retryable)


def internal(reason: str, detail: str, *, retryable: bool = False) -> JobError:
    """Make an error of ours."""
    return JobError(INTERNAL, reason, detail, retryable=retryable)


def jvm_gone() -> JobError:
    """Make the error of a driver whose JVM has died under its Python half."""
    return external("JVM_GONE", "The JVM of the driver has died; driver.log may say why.", retryable=True)


def worker_full() -> JobError:
    """Make the error of a Python worker that wants more than it may have."""
    return JobError(
        USER,
        exits.OUT_OF_MEMORY,
        f"What the query makes of its records takes a Python worker more than {WORKER_MEMORY_MIB:,} MiB: let"
        " its functions make smaller values, use smaller look-up tables, or group by less.",
        retryable=True,
    )


def spark_ended() -> JobError:
    """Make the error of an application that Spark has ended, while its JVM lives."""
    return external(
        exits.NO_EXECUTORS,
        "Spark has ended the application of this driver: its master has not answered for a minute, or has"
        " removed it; driver.log says which.",
        retryable=True,
    )


def explain(error: BaseException) -> events_pb2.DaggerError:
    """Explain an exception: by its own words if it has any, else by what is known about its kind.

    Looks through causes and through the text that the JVM makes of a Python exception.
    """
    if (own := raised_here(error)) is not None:
        return own
    text = str(error)
    if marks := _MARK.findall(text):
        domain, reason, retryable, detail = marks[-1]
        return events_pb2.DaggerError(
            domain=_DOMAINS[domain], reason=reason, detail=detail, retryable=bool(retryable)
        )
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, text, re.DOTALL):
            return meaning
    return events_pb2.DaggerError(
        domain=INTERNAL,
        reason=UNEXPECTED,
        detail=f"The runtime failed unexpectedly ({type(error).__name__}); driver.log has the details.",
        retryable=True,
    )


def raised_here(error: BaseException) -> events_pb2.DaggerError | None:
    """Return the error that `error` or its causes carry where they were raised in this process.

    Text that came through the JVM does not count.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, JobError):
            return cause.error
        if isinstance(cause, Py4JNetworkError):
            return jvm_gone().error
        cause = cause.__cause__ or cause.__context__
    return None


def as_json(error: events_pb2.DaggerError) -> str:
    """Write the text of exit.json."""
    return json_format.MessageToJson(error, indent=None)


# What an exception's text matches, and what that means; asked in this order, when no error of ours is in it.
_MEANINGS = (
    (r"OutOfMemoryError", exits.heap_full()),
    (r"\b(Arrow)?MemoryError\b", worker_full().error),
    (
        r"Python worker exited unexpectedly",
        external(
            "WORKER_DIED",
            "A Python worker process has died: it was killed, or memory is short.",
            retryable=True,
        ).error,
    ),
    (r"stopped SparkContext|SparkContext was shut ?down", spark_ended().error),
    (
        r"Multiple streaming queries are concurrently using",
        internal(
            "FENCED", "Another driver of this dagger uses the same checkpoint; this one has ended."
        ).error,
    ),
    # Whatever goes wrong while a file of a checkpoint is read has its own words inside those of Spark.
    (
        r"No space left on device",
        external(
            "DISK_FULL",
            "The disk that holds checkpoints or Spark's temporary files is full; free some space.",
            retryable=True,
        ).error,
    ),
    (
        r"Connection (refused|reset|timed out)|No route to host|UnknownHostException|SocketTimeoutException",
        external(
            "NO_CONNECTION",
            "Something that Spark reads from or writes to does not answer; driver.log says what.",
            retryable=True,
        ).error,
    ),
    (
        # Of what may go wrong with a store, only what speaks of its files.
        r"CANNOT_LOAD_STATE_STORE\.(CANNOT_READ_\w+|CANNOT_FIND_BASE_\w+|UNEXPECTED_FILE_SIZE|INVALID_\w+|"
        r"AUTO_SNAPSHOT_\w+)|CANNOT_READ_\w*(STATE|CHECKPOINT)|[Ee]rror reading (delta|snapshot) file|"
        r"[Bb]atch \d+ doesn't exist|Incomplete log file",
        external(
            anew.DAMAGED,
            "Spark cannot read the checkpoint of this dagger; driver.log says which file. Put it back and"
            " start it, or begin anew: `daggers restart NAME --from-start` says what is missed.",
            retryable=True,
        ).error,
    ),
)
