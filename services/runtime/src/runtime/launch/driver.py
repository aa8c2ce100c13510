"""The life of one driver, from its spec to its last words.

In this order, each step only when the one before holds: the stop file, the checkpoint root, the lease, the
SQL, the checkpoint, Spark, the streams, the sinks, the query. Then it watches: the query, the stop file and
SIGTERM, the lease, the checkpoint. A shadow has no lease and looks at no sink before it is handed over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql.streaming.query import StreamingQuery

import daggersql
from chassis import processes
from chassis.files import replace_text
from chassis.logging import logger
from daggerspec import rundir, state
from runtime.errors import internal, user
from runtime.launch import backlog, job, keeping, planned, progress
from runtime.launch.batch import Batches
from runtime.launch.boundary import Boundary
from runtime.launch.launch import Launch
from runtime.launch.listener import Listener
from runtime.launch.shadow import LOOK_S, Shadow
from runtime.references.loading import References
from runtime.source.planner import pace
from runtime.spark import executors, queries
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint
from runtime.state.checkpoint_watch import CheckpointWatcher
from runtime.state.groups import Groups, changes

_POLL_S = 1.0
_ASKED = 5
_DRAIN_POLL_S = 0.05
_DRAIN_S = 120.0


class Driver:
    """The life of one launch; `jvm` is the process's."""

    def __init__(self, launch: Launch, jvm: JvmWatch) -> None:
        self._launch = launch
        self._spec = launch.spec
        self._jvm = jvm

    def run(self) -> None:
        """Run until told to stop. Raises what the launch died of; `JvmWatch.explain` has the words for it."""
        launch = self._launch
        if launch.must_stop():
            return
        keeping.find_root(launch)
        if launch.writing.is_set():
            launch.take_lease()
        with launch.heartbeat:
            try:
                self._compute()
            except BaseException as failure:
                keeping.ended(launch, failure)
                launch.heartbeat.update(partial(progress.exiting, error=self._jvm.explain(failure)))
                raise
            finally:
                launch.stopping.set()
                launch.ended.set()

    def _compute(self) -> None:
        """Everything that needs the plan and Spark."""
        launch = self._launch
        plan = planned.checked(self._spec)
        warnings = [f"{finding.code}: {finding.message}" for finding in plan.warnings]
        launch.heartbeat.update(partial(progress.warned, warnings=warnings))
        references = self._references(plan)
        is_shadow = not launch.writing.is_set()
        choose = checkpoint.begin_shadow if is_shadow else checkpoint.choose
        own = launch.root, state.identity(self._spec.spec, plan), self._spec.generation
        if not is_shadow:
            warnings += keeping.begin(launch, own[1])
        chosen = choose(*own)
        session = launch.session
        if launch.root.local:
            spark.checkpoint_locally(session)
        if state.on_disk(self._spec.spec, plan):
            spark.keep_state_on_disk(session)
        ui_url = session.sparkContext.uiWebUrl or ""
        launch.heartbeat.update(partial(progress.shown, ui_url=ui_url))
        self.announce(ui_url)
        with _plan_errors():
            assembled = job.assemble(launch, plan, chosen)
        warnings += assembled.lost
        shadow = Shadow(launch, chosen, assembled.source) if is_shadow else None
        if not is_shadow:
            job.check_sinks(assembled.targets)
        if launch.must_stop():
            return
        boundary = Boundary(launch.run_dir, assembled.source.windows, chosen.watermark)
        batches = Batches(
            launch,
            assembled.targets,
            chosen=chosen,
            source=assembled.source,
            references=references,
            boundary=boundary,
            shadow=shadow,
            lookahead=plan.lookahead,
            read_until=assembled.source.read_until,
        )
        groups = Groups(plan.bounds, plan.horizon, changes=partial(changes, session, str(chosen.path)))
        listener = Listener(
            launch,
            checkpoint=chosen,
            source=assembled.source,
            attempts=batches.attempts,
            plan_warnings=warnings,
            references=references,
            groups=groups,
            patience=assembled.patience,
            early=assembled.updates,
        )
        session.streams.addListener(listener)

        watcher = CheckpointWatcher(
            chosen.path,
            self._spec.checkpoints,
            active=launch.writing.is_set,
            wake=launch.wake,
            ended=launch.ended,
        )

        executing = executors.of(session, time.monotonic)

        def look() -> None:
            executing.check()
            if shadow is not None and not launch.writing.is_set():
                shadow.look(partial(self._prepare, assembled, references))
            if launch.writing.is_set():
                launch.check_lease()
                watcher.check()
                if boundary.is_reached():
                    launch.stop()
            listener.look()

        while assembled.closing:
            query = self._start(assembled, batches, chosen)
            self._watch(query, batches, look, ends=True)
            if launch.must_stop():
                return
            with _plan_errors():
                chosen = choose(*own)
                assembled = job.assemble(launch, plan, chosen)
        query = self._start(assembled, batches, chosen)
        watcher.follow()
        groups.follow(launch.stopping)
        backlog.follow(launch)
        self._watch(query, batches, look)
        batches.keep_last()

    def _prepare(self, assembled: job.Job, references: References) -> None:
        """What a shadow has not done that a driver does before it writes. Raises: JobError."""
        job.check_sinks(assembled.targets)
        references.keep_in(self._kept)

    @property
    def _kept(self) -> Path:
        """Where good versions of reference tables are kept from launch to launch."""
        return (self._launch.root.local or self._launch.run_dir.parent) / "references"

    def _references(self, plan: daggersql.Plan) -> References:
        """The reference tables of the plan, read once; good versions are kept beside the checkpoints, by a
        shadow with its run.
        """
        run_dir = self._launch.run_dir
        references = References(
            plan.references,
            self._spec.references,
            dagger=self._spec.dagger,
            store=self._kept if self._launch.writing.is_set() else run_dir / rundir.KEPT,
            folder=run_dir / rundir.REFERENCES,
            clock=time.monotonic,
        )
        references.start()
        references.keep_fresh(self._launch.ended)
        return references

    def _start(self, assembled: job.Job, batches: Batches, chosen: Checkpoint) -> StreamingQuery:
        writer = (
            assembled.rows.writeStream.queryName(self._spec.dagger)
            .outputMode("update" if assembled.updates else "append")
            .option("checkpointLocation", str(chosen.path))
            .foreachBatch(batches)
        )
        with _plan_errors():
            if assembled.closing:
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime="0 seconds").start()  # readers wait until a batch is due

    def _watch(
        self,
        query: StreamingQuery,
        batches: Batches,
        look: Callable[[], None],
        *,
        ends: bool = False,
    ) -> None:
        """Return when the launch has drained, or its query has ended and `ends`; raise what it died of.

        `look` is called now and then, and raises what it is to die of.
        Its query has ended then, whatever else runs in this process.
        """
        launch, woken = self._launch, False
        try:
            for turn in count():
                # Spark tells of a query's end, which ends the wait; it is also asked, now and then.
                if (woken or turn % _ASKED == 0) and not query.isActive:
                    break
                if launch.must_stop():
                    launch.heartbeat.update(progress.draining)
                    self._drain(query, batches)
                    break
                look()
                woken = launch.wake.wait(_POLL_S if launch.writing.is_set() else LOOK_S)
                launch.wake.clear()
        except BaseException:
            launch.stopping.set()
            batches.last.set()
            queries.stop_patiently(query.stop)
            raise
        if batches.unfinished:
            logger().info("driver.drained", unfinished=batches.unfinished)
        elif (failure := batches.failure or queries.failure(query)) is not None:
            if not (launch.stopping.is_set() and queries.is_interruption(failure)):
                raise failure
            logger().info("driver.drained", unfinished="The last batch was interrupted.")
        elif not ends and not launch.must_stop():
            raise internal("QUERY_ENDED", "The query ended without an error and without being asked to.")

    def _drain(self, query: StreamingQuery, batches: Batches) -> None:
        """Let the running batch commit, then stop.

        Spark's `stop` interrupts whatever runs. So first Spark is told to begin no further batch, where it
        interrupts none by that: the batch that runs ends as ever, and the query's thread by itself. A batch
        that Spark was about to begin is one that runs, and a reader that is being started is waited for as
        well: it would not find who started it.
        """
        end = time.monotonic() + _DRAIN_S
        release = partial(pace.release, self._spec.dagger, self._spec.generation)
        queries.last_batch(query, release=release, patience_s=_DRAIN_S)
        batches.last.set()
        while not queries.has_ended(query) and time.monotonic() < end:
            time.sleep(_DRAIN_POLL_S)
        query.stop()

    def announce(self, ui_url: str = "") -> None:
        """Write driver.json: which process the Python half is, and where its UI is."""
        pid = self._launch.pid
        facts = {"pid": pid, "start_ticks": processes.start_ticks(pid), "ui_url": ui_url}
        replace_text(self._launch.run_dir / rundir.DRIVER, json.dumps(facts))


@contextmanager
def _plan_errors() -> Iterator[None]:
    """What Spark says of a query that it cannot run, as the user's error."""
    try:
        yield
    except AnalysisException as refused:
        what = str(refused).splitlines()[0]
        raise user("BAD_PLAN", f"Spark cannot run this query: {what}") from refused
