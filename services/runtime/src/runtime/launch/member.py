"""Run a launch as a member of its process: in a thread of its own, from its spec to its exit code.

What ends a member ends it alone. `exit.json` has its error in one sentence, `exit-code` its code; stack
traces stay in its driver.log. One that fails because the JVM is gone leaves no `exit-code`: it has died with
its process, as those have that saw nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from daggers.v1 import events_pb2
from pyspark.sql import SparkSession

from chassis import threads
from chassis.files import replace_text
from chassis.logging import logger
from daggerspec import exits, rundir
from runtime import errors, members
from runtime.launch import planned
from runtime.launch.driver import Driver
from runtime.launch.launch import Launch
from runtime.spark.jvm import JvmWatch


class Member:
    """The launch of one run directory."""

    def __init__(
        self, run_dir: Path, generation: int, open_session: Callable[[], SparkSession], jvm: JvmWatch
    ) -> None:
        """open_session: blocks until Spark is up, and returns a new session, or raises why it is not."""
        self.run_dir = run_dir
        self.code: int | None = None
        """Exit code; None while it runs."""
        self._generation, self._open_session, self._jvm = generation, open_session, jvm
        self._launch: Launch | None = None
        self._is_stop_requested = False

    def start(self, ended: Callable[[], object]) -> None:
        """Begin, in a thread of its own. ended: called there once it has its exit code."""

        def run() -> None:
            try:
                self.code = self._run()
            except BaseException:
                self.code = exits.INTERNAL
                raise
            finally:
                self._launch = None  # with its session: a process may have many members, one after another
                ended()

        threads.start(run, f"member-{self.run_dir.parent.name}")

    def stop(self) -> None:
        """Request a drain. Takes no lock, for signal handlers."""
        self._is_stop_requested = True
        if (launch := self._launch) is not None:
            launch.stop()

    def _run(self) -> int:
        """Run the launch, and return its exit code. Raises: OSError where that cannot be written."""
        with members.join(self.run_dir):
            code = 0
            try:
                self._drive()
            except BaseException as failure:  # noqa: BLE001 - nothing above this can report why it ends
                code = write_error(self.run_dir, self._jvm.explain(failure), failure)
            if code == 0 or not self._jvm.is_gone():
                replace_text(self.run_dir / rundir.EXIT_CODE, f"{code}\n", durable=True)
            return code

    def _drive(self) -> None:
        """Run the launch. Raises: what ends it."""
        spec = planned.read_spec(self.run_dir / rundir.SPEC, self._generation)
        self._launch = launch = Launch(spec, self._open_session)
        if self._is_stop_requested:
            launch.stop()
        driver = Driver(launch, self._jvm)
        driver.announce()
        driver.run()


def write_error(run_dir: Path, error: events_pb2.DaggerError, failure: BaseException | None = None) -> int:
    """Write exit.json and log the error; return the exit code. Raises: OSError."""
    replace_text(run_dir / rundir.EXIT, errors.as_json(error))
    with suppress(OSError):  # output goes through the JVM, which may be gone
        # the trace follows the line, as text without a time of its own
        logger().error("driver.ended", reason=error.reason, detail=error.detail, exc_info=failure)
    return exits.code(error)
