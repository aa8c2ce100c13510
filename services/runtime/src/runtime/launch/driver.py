"""Run one driver, from its spec to its exit.

It starts in this order, each step only after the one before: stop file, checkpoint root, lease, SQL,
checkpoint, Spark, streams, sinks, query. Then it watches the query, the stop file and SIGTERM, the lease, and
the checkpoint. A shadow takes no lease and checks no sink before it takes over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

from daggers.v1 import telemetry_pb2
from pyspark.errors import AnalysisException
from pyspark.sql.streaming.query import StreamingQuery

import daggersql
from chassis import processes
from chassis.files import replace_text
from chassis.logging import logger
from daggerspec import rundir, state
from daggerspec.executors import web_urls
from runtime.errors import internal, user
from runtime.launch import backlog, job, keeping, planned, progress
from runtime.launch.batch import Batches
from runtime.launch.boundary import Boundary
from runtime.launch.dividing import divide_state
from runtime.launch.launch import Launch
from runtime.launch.listener import Listener
from runtime.launch.shadow import CHECK_S, Shadow
from runtime.references.loading import References
from runtime.rules.judging import RuleJudge, RulesInForce
from runtime.rules.limits import LimitTables
from runtime.rules.observations import Observations
from runtime.source.planner import pace
from runtime.spark import executors, helpers, leftover_pods, queries
from runtime.spark import session as spark
from runtime.spark.jvm import JvmWatch
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint
from runtime.state.checkpoint_watch import CheckpointWatcher
from runtime.state.groups import Groups, changes

_POLL_S = 1.0
_TURNS_PER_PROBE = 5
_DRAIN_POLL_S = 0.05
_DRAIN_S = 120.0
_OF_RULES = "rules"
"""Folder of the reference tables that alert rules read, among those of the query."""


class Driver:
    """Runs one launch. `jvm` is the watch of the process's JVM."""

    def __init__(self, launch: Launch, jvm: JvmWatch) -> None:
        self._launch = launch
        self._spec = launch.spec
        self._jvm = jvm

    def run(self) -> None:
        """Run until ordered to stop. Raises: what ended the launch, for `JvmWatch.explain`."""
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
                keeping.record_failure(launch, failure)
                launch.heartbeat.update(partial(progress.exiting, error=self._jvm.explain(failure)))
                raise
            finally:
                launch.stopping.set()
                launch.ended.set()
                helpers.release(launch.run_dir, None)

    def _compute(self) -> None:
        """Run the steps that need the plan and Spark."""
        launch = self._launch
        plan = planned.check_spec(self._spec)
        warnings = [f"{finding.code}: {finding.message}" for finding in plan.warnings]
        publish_warnings = partial(launch.heartbeat.update, partial(progress.set_warnings, warnings=warnings))
        publish_warnings()
        references = self._references(plan)
        is_shadow = not launch.writing.is_set()
        choose = checkpoint.begin_shadow if is_shadow else checkpoint.choose
        own = launch.root, state.identity(self._spec.spec, plan), self._spec.generation
        if not is_shadow:
            warnings += keeping.begin(launch, own[1])
        chosen = choose(*own)
        session = launch.session
        if not is_shadow:  # who holds the lease knows that earlier launches are over
            leftover_pods.sweep(session.sparkContext)
        self._choose_stores(plan)
        ui_url = session.sparkContext.uiWebUrl or ""
        launch.heartbeat.update(partial(progress.set_ui_url, ui_url=ui_url))
        self.announce(ui_url)
        helpers.need(launch.run_dir)
        with _plan_errors(), launch.in_step("start"):
            assembled = job.assemble(launch, plan, chosen)
        warnings += assembled.lost
        shadow = Shadow(launch, chosen, assembled.source) if is_shadow else None
        if not is_shadow:
            job.check_sinks(assembled.written_targets)
        if launch.must_stop():
            return
        limits = self._open_references((), _OF_RULES)
        rules = self._begin_rules(plan, LimitTables(limits))
        limits.keep_fresh(launch.ended)
        boundary = Boundary(launch.run_dir, assembled.source.windows, chosen.watermark)
        batches = Batches(
            launch,
            assembled.targets,
            chosen=chosen,
            source=assembled.source,
            references=references,
            boundary=boundary,
            rules=rules,
            shadow=shadow,
            lookahead=plan.lookahead,
            read_until=assembled.source.read_until,
        )
        groups = Groups(plan.bounds, plan.horizon, changes=partial(changes, session, str(chosen.path)))
        executing = executors.of(session, self._master_pages(), time.monotonic)
        listener = Listener(
            launch,
            checkpoint=chosen,
            source=assembled.source,
            attempts=batches.attempts,
            plan_warnings=warnings,
            references=(references, limits),
            groups=groups,
            patience=assembled.patience,
            completed=job.begin_completion(launch, assembled, chosen, datetime.now(UTC)),
            early=assembled.early,
            executors=executing,
        )
        session.streams.addListener(listener)

        watcher = CheckpointWatcher(
            chosen.path,
            self._spec.checkpoints,
            active=launch.writing.is_set,
            wake=launch.wake,
            ended=launch.ended,
        )

        def check() -> None:
            executing.check()
            if shadow is not None and not launch.writing.is_set():
                shadow.check(partial(self._prepare, assembled, references, limits))
            if launch.writing.is_set():
                launch.check_lease()
                watcher.check()
                if boundary.is_reached():
                    launch.stop()
            rules.take(launch.run_dir / rundir.RULES)
            listener.check()

        warnings += divide_state(launch, chosen.path, check)  # the listener has this list
        publish_warnings()  # the listener's come only behind the first batch, which may be a long one
        if launch.must_stop():
            return
        while assembled.closing:
            query = self._start(assembled, batches, chosen)
            self._watch(query, batches, check, ends=True)
            if launch.must_stop():
                return
            listener.note_ended(query.runId)
            helpers.need(launch.run_dir)
            with _plan_errors():
                chosen = choose(*own)
                assembled = job.assemble(launch, plan, chosen)
        query = self._start(assembled, batches, chosen)
        watcher.follow()
        groups.follow(launch.stopping)
        backlog.follow(launch)
        self._watch(query, batches, check)
        batches.save_last_event_times()

    def _begin_rules(self, plan: daggersql.Plan, limits: LimitTables) -> RuleJudge:
        """Put the alert rules of the launch in force. Raises: JobError."""
        launch, windows = self._launch, daggersql.fixed_size(plan.window)

        def note(rules: RulesInForce) -> None:
            step = partial(progress.rules_taken, revision=rules.revision, digest=rules.digest)
            launch.heartbeat.update(step)

        def note_learning(learning: Sequence[telemetry_pb2.LearningRule]) -> None:
            launch.heartbeat.update(partial(progress.set_learning, learning=learning))

        rules = RuleJudge(
            self._spec.dagger,
            generation=self._spec.generation,
            created=self._spec.created,
            root=lambda: launch.root,
            window=windows,
            limits=limits,
            compile_rules=partial(planned.compile_rules, self._spec),
            sender=Observations(self._spec.platform),
            on_rules=note,
            on_learning=note_learning,
        )
        rules.put(self._spec.version, self._spec.spec.alerts, plan.rules, self._spec.references)
        return rules

    def _choose_stores(self, plan: daggersql.Plan) -> None:
        """Configure where Spark stores checkpoints and state."""
        if self._launch.root.local:
            spark.checkpoint_locally(self._launch.session)
        if state.on_disk(self._spec.spec, plan):
            spark.keep_state_on_disk(self._launch.session)

    def _master_pages(self) -> tuple[str, ...]:
        """Return the URLs of the pages of its standalone masters; none where it has none."""
        own = (cluster for cluster in self._spec.clusters if cluster.name == self._spec.spec.cluster)
        return next(map(web_urls, own), ())

    def _prepare(self, assembled: job.Job, references: References, limits: References) -> None:
        """Run the pre-write checks that a shadow skipped. Raises: JobError."""
        job.check_sinks(assembled.written_targets)
        references.keep_in(self._reference_store)
        limits.keep_in(self._reference_store / _OF_RULES)

    @property
    def _reference_store(self) -> Path:
        """Folder for good versions of reference tables, shared by the launches."""
        return (self._launch.root.local or self._launch.run_dir.parent) / "references"

    def _references(self, plan: daggersql.Plan) -> References:
        """Load the plan's reference tables, and keep them fresh."""
        references = self._open_references(plan.references)
        references.start()
        references.keep_fresh(self._launch.ended)
        return references

    def _open_references(self, uses: Sequence[daggersql.Reference], folder: str = "") -> References:
        """Prepare reference tables. Good versions are stored beside the checkpoints, in a folder there; a
        shadow stores its own in its run directory.
        """
        run_dir, store = self._launch.run_dir, self._reference_store
        if not self._launch.writing.is_set():
            store = run_dir / rundir.KEPT
        return References(
            uses,
            self._spec.references,
            dagger=self._spec.dagger,
            store=store / folder,
            folder=run_dir / rundir.REFERENCES,
            clock=time.monotonic,
        )

    def _start(self, assembled: job.Job, batches: Batches, chosen: Checkpoint) -> StreamingQuery:
        writer = (
            assembled.rows.writeStream.queryName(self._spec.dagger)
            .outputMode("update" if assembled.early else "append")
            .option("checkpointLocation", str(chosen.path))
            .foreachBatch(batches)
        )
        spark.work_for(self._launch.session, self._spec.dagger)
        with _plan_errors():
            if assembled.closing:
                return writer.trigger(availableNow=True).start()
            # no pause between batches: the readers block until one is due
            return writer.trigger(processingTime="0 seconds").start()

    def _watch(
        self,
        query: StreamingQuery,
        batches: Batches,
        check: Callable[[], None],
        *,
        ends: bool = False,
    ) -> None:
        """Watch the query until the launch has drained, or the query has ended and `ends` is set.

        check: called regularly; raises what has to end the launch. The query has ended at return, also with
        an error. Raises: what ended the launch.
        """
        launch, is_woken = self._launch, False
        try:
            for turn in count():
                # the listener wakes this thread at a query's end; Spark is also polled, now and then
                if (is_woken or turn % _TURNS_PER_PROBE == 0) and not query.isActive:
                    break
                if launch.must_stop():
                    launch.heartbeat.update(progress.draining)
                    self._drain(query, batches)
                    break
                check()
                is_woken = launch.wake.wait(_POLL_S if launch.writing.is_set() else CHECK_S)
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
        """Let the running batch commit, then stop the query.

        Spark's `stop` interrupts what runs. So first Spark is made to begin no further batch: the running
        batch ends normally, and the query's thread ends by itself. A batch that is about to begin counts as
        running, and a reader that is starting is waited for, too: else it would miss its starter.
        """
        end = time.monotonic() + _DRAIN_S
        release = partial(pace.release, self._spec.dagger, self._spec.generation)
        queries.last_batch(query, release=release, patience_s=_DRAIN_S)
        batches.last.set()
        while not queries.has_ended(query) and time.monotonic() < end:
            time.sleep(_DRAIN_POLL_S)
        query.stop()

    def announce(self, ui_url: str = "") -> None:
        """Write driver.json: the process of the Python half, and the address of Spark's UI."""
        pid = self._launch.pid
        facts = {"pid": pid, "start_ticks": processes.start_ticks(pid), "ui_url": ui_url}
        replace_text(self._launch.run_dir / rundir.DRIVER, json.dumps(facts))


@contextmanager
def _plan_errors() -> Iterator[None]:
    """Raise Spark's analysis errors as the user's error BAD_PLAN."""
    try:
        yield
    except AnalysisException as refused:
        first_line = str(refused).splitlines()[0]
        raise user("BAD_PLAN", f"Spark cannot run this query: {first_line}") from refused
