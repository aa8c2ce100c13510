"""The life of one driver, from its spec to its last words.

In this order, each step only when the one before holds: the stop file, the lease, the SQL, Spark, the
streams, the sinks, the query. Then it watches: the query, the stop file and SIGTERM, the lease.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from daggers.v1 import spec_pb2
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import daggersql
from chassis import processes
from chassis.files import replace_text
from chassis.logging import logger
from daggerspec import rundir
from runtime.errors import internal, user
from runtime.launch import job, progress
from runtime.launch.batch import Batches
from runtime.launch.delivery import Delivery
from runtime.launch.heartbeat import Heart, Identity
from runtime.launch.listener import Listener
from runtime.references.loading import References
from runtime.spark import session as spark
from runtime.spark.jvm import Parent
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint, Place
from runtime.state.groups import Groups, changes
from runtime.state.lease import Keeper, Lease, LocalStore, open_root

_POLL_S = 1.0
_DRAIN_POLL_S = 0.05
_DRAIN_S = 120.0
# With what follows, less than the lease's patience: a driver that lost its lease is gone after twice that.
_STOP_S = 10.0


class Driver:
    """One launch. `stopping` asks it to drain; `wake` ends a wait early."""

    def __init__(self, spec: spec_pb2.JobSpec, jvm: Parent, started: Callable[[], SparkSession]) -> None:
        """`started` waits for Spark, which starts meanwhile; raises why it does not."""
        self.stopping = threading.Event()
        self._asked = False
        self._wake = threading.Event()
        self._spec = spec
        self._jvm = jvm
        self._started = started
        self._run_dir = Path(spec.run_dir)
        self._identity = Identity(spec.dagger, spec.generation, socket.gethostname(), os.getpid())

    def stop(self) -> None:
        """Ask for a drain. Takes no lock: it is a signal handler, and its thread may hold any."""
        self._asked = True

    def run(self) -> None:
        """Run until told to stop. Raises what the job died of; `Parent.explain` has the words for it."""
        if self._must_stop():
            return
        root, store = open_root(self._spec.checkpoint_root)
        lease = Lease(store, self._spec.generation, time.monotonic)
        lease.take()
        start = progress.launched(len(self._spec.sinks))
        with Heart(self._spec.platform, self._identity, start) as heart:
            try:
                self._compute(root, lease, heart)
            except BaseException as failure:
                heart.dying_of(self._jvm.explain(failure))
                raise

    def _compute(self, root: Place, lease: Lease, heart: Heart) -> None:
        """Everything that needs the plan and Spark."""
        plan = job.checked(self._spec)
        warnings = [f"{finding.code}: {finding.message}" for finding in plan.warnings]
        heart.note(partial(progress.warned, warnings=warnings))
        references = self._references(root, plan)
        identity = job.state_identity(self._spec, plan)
        chosen = checkpoint.choose(root, identity)
        with ExitStack() as stack:
            session = self._started()
            stack.callback(_stop, session)
            if isinstance(root, Path):
                spark.checkpoint_locally(session)
            if job.on_disk(self._spec, plan):
                spark.keep_state_on_disk(session)
            heart.ui_url = session.sparkContext.uiWebUrl or ""
            self.announce(heart.ui_url)
            with _plan_errors():
                assembled = job.assemble(session, self._spec, plan, chosen)
            warnings += assembled.lost
            job.check_sinks(assembled.targets)
            if self._must_stop():
                return
            store = LocalStore(root) if isinstance(root, Path) else None
            batches = self._batches(session, assembled, lease, store, heart, references)
            groups = Groups(plan.bounds, plan.horizon, changes=partial(changes, session, str(chosen.path)))
            session.streams.addListener(
                Listener(
                    heart=heart,
                    checkpoint=chosen,
                    source=assembled.source,
                    attempts=batches.attempts,
                    plan_warnings=warnings,
                    references=references,
                    groups=groups,
                    wake=self._wake,
                    patience=assembled.patience,
                )
            )
            keeper = Keeper(lease, self._wake)
            while assembled.closing:
                self._watch(self._start(assembled, batches, chosen), batches, keeper, heart, ends=True)
                if self._must_stop():
                    return
                with _plan_errors():
                    chosen = checkpoint.choose(root, identity)
                    assembled = job.assemble(session, self._spec, plan, chosen)
            query = self._start(assembled, batches, chosen)
            groups.follow(batches.last)
            self._watch(query, batches, keeper, heart)

    def _references(self, root: Place, plan: daggersql.Plan) -> References:
        """The reference tables of the plan, read once; good versions are kept beside the checkpoints."""
        references = References(
            plan.references,
            self._spec.references,
            store=root / "references" if isinstance(root, Path) else self._run_dir.parent / "references",
            folder=self._run_dir / "references",
            clock=time.monotonic,
        )
        references.start()
        references.keep_fresh()
        return references

    def _batches(
        self,
        session: SparkSession,
        assembled: job.Job,
        lease: Lease,
        store: LocalStore | None,
        heart: Heart,
        references: References,
    ) -> Batches:
        targets, source = assembled.targets, assembled.source
        platform = self._spec.platform.SerializeToString(deterministic=True)
        return Batches(
            session,
            delivery=Delivery(targets, self._spec.generation, platform, -1, frozenset(), store),
            lease=lease,
            heart=heart,
            stopping=self.stopping,
            complete_from=source.registry.complete_from,
            closed=source.registry.closed,
            references=references,
        )

    def _start(self, assembled: job.Job, batches: Batches, chosen: Checkpoint) -> StreamingQuery:
        milliseconds = round(self._spec.spec.trigger.ToTimedelta().total_seconds() * 1000)
        writer = (
            assembled.rows.writeStream.queryName(self._spec.dagger)
            .outputMode("update" if assembled.updates else "append")
            .option("checkpointLocation", str(chosen.path))
            .foreachBatch(batches)
        )
        with _plan_errors():
            if assembled.closing:
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime=f"{milliseconds} milliseconds").start()

    def _watch(
        self, query: StreamingQuery, batches: Batches, keeper: Keeper, heart: Heart, *, ends: bool = False
    ) -> None:
        """Return when the job has drained, or its query has ended and `ends`; raise what it died of."""
        while query.isActive:
            if self._must_stop():
                heart.note(progress.draining)
                self._drain(query, batches)
                break
            keeper.check()
            self._wake.wait(_POLL_S)
            self._wake.clear()
        if batches.unfinished:
            logger().info("drained", unfinished=batches.unfinished)
        elif (failure := batches.failure or spark.failure(query)) is not None:
            raise failure
        elif not ends and not self._must_stop():
            raise internal("QUERY_ENDED", "The query ended without an error and without being asked to.")

    def _drain(self, query: StreamingQuery, batches: Batches) -> None:
        """Let the running batch commit, then stop.

        Spark's `stop` interrupts whatever runs. So what it does first is done alone here: the state that
        Spark asks before each batch is set, the batch that runs ends as ever, and none begins after it.
        A reader that is being started is waited for as well: it would not find who started it.
        """
        spark.last_batch(query)
        batches.last.set()
        end = time.monotonic() + _DRAIN_S
        while spark.is_busy(query) and time.monotonic() < end:
            time.sleep(_DRAIN_POLL_S)
        query.stop()

    def _must_stop(self) -> bool:
        """Whether a drain was asked for, by signal or by the stop file."""
        if self._asked or (self._run_dir / rundir.STOP).exists():
            self.stopping.set()
        return self.stopping.is_set()

    def announce(self, ui_url: str = "") -> None:
        """Write driver.json: which process the Python half is, and where its UI is."""
        ticks = processes.start_ticks(self._identity.pid)
        facts = {"pid": self._identity.pid, "start_ticks": ticks, "ui_url": ui_url}
        replace_text(self._run_dir / rundir.DRIVER, json.dumps(facts))


@contextmanager
def _plan_errors() -> Iterator[None]:
    """What Spark says of a query that it cannot run, as the user's error."""
    try:
        yield
    except AnalysisException as refused:
        what = str(refused).splitlines()[0]
        raise user("BAD_PLAN", f"Spark cannot run this query: {what}") from refused


def _stop(session: SparkSession) -> None:
    """Stop Spark, and do not wait for a store or an executor that never answers."""
    stopping = threading.Thread(target=session.stop, name="stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_S)
