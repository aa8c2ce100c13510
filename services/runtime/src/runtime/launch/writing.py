"""How a batch gets into all sinks, in the driver: attempt after attempt, until everything is durable.

An attempt is one Spark job, all sinks from the same pass. Between two of them sinks that took no rows are
asked whether they do again, where they can be: as long as none does, there is no job. What they staged is
committed in the end, by whoever holds the lease.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from pyspark.sql import DataFrame

from runtime import sinks
from runtime.clients.breaker import FLOOD
from runtime.errors import JobError, external
from runtime.launch import progress
from runtime.launch.delivery import Delivery
from runtime.launch.launch import Launch
from runtime.launch.outages import Outages, left_s, pause_s
from runtime.launch.report import REPORT, Report, Trouble, read_report, trouble_of
from runtime.sinks import BatchRef, Target

_RECENT = 100


class Writing:
    """Writes the batches of one launch, one after the other."""

    def __init__(self, launch: Launch, targets: Sequence[Target], leave: Callable[[str], None]) -> None:
        """`leave` is told why the last batch of a drain stays unwritten; it does not return."""
        self._launch = launch
        self._targets = {target.name: target for target in targets}
        self._leave = leave
        self._delivery = Delivery(
            tuple(targets),
            launch.spec.generation,
            launch.spec.platform.SerializeToString(deterministic=True),
            batch_id=-1,
            done=frozenset(),
            store=launch.lease_in_workers,
        )
        rules = {name: target.resolved.sink.on_outage for name, target in self._targets.items()}
        self._outages = Outages(rules, {})
        self._attempts: dict[int, int] = {}

    def attempts(self, batch_id: int) -> int:
        """How often the rows of a recent batch were computed: what Spark observed counts that often."""
        return self._attempts.get(batch_id, 1)

    def write(self, rows: DataFrame, batch: BatchRef) -> tuple[Report, Mapping[str, Trouble]]:
        """Write until everything is durable; then the sinks whose rows were set aside, because they are away.

        Raises: JobError.
        """
        total, held = Report(), dict[str, Trouble]()
        skipping = self._still(self._outages.to_skip(time.monotonic()))
        for attempt in count(1):
            self._attempts[batch.batch_id] = attempt
            # Spark tells of a batch while the next ones run already, but never of so many.
            self._attempts.pop(batch.batch_id - _RECENT, None)
            self._launch.lease.confirm()
            last_attempt = self._launch.stopping.is_set()
            report = self._attempt(rows, batch, total, held, skipping)
            total = total.then(report)
            away = {**held, **total.troubles}
            self._heard(away, skipping, report.skipped.total())
            if not away:
                break
            self._tell(away, skipping)
            if last_attempt:
                self._leave("; ".join(trouble.error.detail for trouble in away.values()))
            held, more = self._waited(attempt, away, skipping)
            skipping |= more
        self._commit(batch, total.receipts, skipping)
        return total, skipping

    def drop(self, rows: DataFrame) -> None:
        """Compute a batch, on which Spark's state depends, and write nothing of it."""
        rows.mapInArrow(replace(self._delivery, targets=()), REPORT).collect()

    def _attempt(
        self,
        rows: DataFrame,
        batch: BatchRef,
        total: Report,
        held: Mapping[str, Trouble],
        skipping: Mapping[str, Trouble],
    ) -> Report:
        """One Spark job over all rows, for what is not finished; sinks that are held are left alone."""
        delivery = replace(
            self._delivery,
            batch_id=batch.batch_id,
            done=total.done,
            held=frozenset(held),
            checkpoint=batch.checkpoint,
            may_refuse=self._launch.may_refuse(),
            skipped={name: trouble.error.detail for name, trouble in skipping.items()},
        )
        invalid = Counter(self._launch.functions.counts())
        if any(target.resolved.HasField("share") for target in self._targets.values()):
            rows = rows.repartition(1)  # a share is kept by who writes alone
        report = read_report(rows.mapInArrow(delivery, REPORT).collect())
        return replace(report, invalid=Counter(self._launch.functions.counts()) - invalid)

    def _waited(
        self, attempt: int, away: Mapping[str, Trouble], skipping: Mapping[str, Trouble]
    ) -> tuple[dict[str, Trouble], dict[str, Trouble]]:
        """Wait until it is worth trying again; the sinks to leave alone then, and those to skip from now on.

        Raises: JobError when a sink has been away for longer than its rule waits.
        """
        asked = {name: trouble.retry_after or 0.0 for name, trouble in away.items()}
        began = time.monotonic()
        for further in count(attempt):
            now = time.monotonic()
            least = min(left_s(after, now - began) for after in asked.values())
            self._launch.stopping.wait(pause_s(further, random.random(), least))  # noqa: S311 - jitter
            if self._launch.stopping.is_set():
                break
            now = time.monotonic()
            for name in sorted(self._outages.to_fail(now)):
                raise external("SINK_UNAVAILABLE", away[name].error.detail, retryable=True)
            skip = {name: away[name] for name in self._outages.to_skip(now) if name in away}
            resting = {name for name, after in asked.items() if left_s(after, now - began)}
            open_ = {name: away[name] for name in away if name not in skip}
            still = {name: open_[name] for name in open_ if name in resting}
            still |= self._still(open_.keys() - resting)
            if len(still) < len(away):
                return still, skip
            away = still
            self._tell(away, skipping)
        return {}, {}

    def _commit(
        self, batch: BatchRef, receipts: Mapping[str, Sequence[bytes]], skipping: Mapping[str, Trouble]
    ) -> None:
        """Make valid what the workers have staged, each sink as long as it takes."""
        for name, staged in receipts.items():
            for attempt in count(1):
                self._launch.lease.confirm()
                last_attempt = self._launch.stopping.is_set()
                try:
                    sinks.commit(self._targets[name], batch, staged)
                    break
                except JobError as error:
                    away = {name: trouble_of(name, error)}
                self._tell(away, skipping)
                if last_attempt:
                    self._leave(away[name].error.detail)
                after = away[name].retry_after
                self._launch.stopping.wait(pause_s(attempt, random.random(), after))  # noqa: S311 - jitter

    def _still(self, names: Collection[str]) -> dict[str, Trouble]:
        """Those of these sinks that say that they take no rows; who cannot be asked is worth a try."""
        still = {}
        for name in sorted(names):
            try:
                sinks.probe(self._targets[name])
            except JobError as error:
                still[name] = trouble_of(name, error)
        return still

    def _heard(self, away: Mapping[str, Trouble], skipping: Mapping[str, Trouble], size: int) -> None:
        now = time.monotonic()
        silent = {name for name, trouble in away.items() if trouble.error.reason != FLOOD}
        there = self._targets.keys() - silent - skipping.keys()
        self._outages = self._outages.heard(now, silent, there).set_aside(now, size)

    def _tell(self, away: Mapping[str, Trouble], skipping: Mapping[str, Trouble]) -> None:
        why = [trouble.error for _, trouble in sorted({**skipping, **away}.items())]
        self._launch.heartbeat.update(partial(progress.retrying, why=why))
