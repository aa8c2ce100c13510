"""Write a batch to all sinks, in the driver: attempt after attempt, until everything is durable.

An attempt is one Spark job that computes the rows once for all sinks. Between two attempts the unavailable
sinks are probed where they can be: no job starts while none is back. Staged rows are committed in the end, by
the holder of the lease.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count

from pyspark.sql import DataFrame

from runtime import sinks
from runtime.errors import JobError
from runtime.launch import freshness, progress
from runtime.launch.delivery import Delivery
from runtime.launch.lanes import Lanes
from runtime.launch.launch import Launch
from runtime.launch.outages import left_s, pause_s
from runtime.launch.report import REPORT, Report, Trouble, read_report, trouble_of
from runtime.rules.selection import SelectedRule
from runtime.sinks import BatchRef, Target
from runtime.spool.log import LogAddress

_RECENT = 100


class BatchWriter:
    """Writes the batches of one launch, one after the other."""

    def __init__(
        self, launch: Launch, targets: Sequence[Target], leave: Callable[[str], None], lanes: Lanes
    ) -> None:
        """leave: ends the last batch of a drain unwritten, for the given reason; it does not return. lanes:
        the logs of sinks that take no rows.
        """
        self._launch, self._lanes = launch, lanes
        self._targets = {target.name: target for target in targets}
        self._leave = leave
        self._delivery = Delivery(
            tuple(targets),
            launch.spec.generation,
            launch.spec.platform.SerializeToString(deterministic=True),
            batch_id=-1,
            done=frozenset(),
            store=launch.lease_in_workers,
            dagger=launch.spec.dagger,
            run_dir=str(launch.run_dir),
        )
        self._attempts: dict[int, int] = {}
        self._waiting: dict[str, datetime] = {}

    def attempts(self, batch_id: int) -> int:
        """Return how often a recent batch was computed: Spark's observations are summed over that."""
        return self._attempts.get(batch_id, 1)

    def write(
        self, rows: DataFrame, batch: BatchRef, rules: tuple[SelectedRule, ...] = ()
    ) -> tuple[Report, Mapping[str, Trouble]]:
        """Write until everything is durable; return the report, and the sinks whose rows wait in a log.

        rules: alert rules whose columns the rows have. Raises: JobError.
        """
        self._delivery = replace(self._delivery, rules=rules)
        total, paused = Report(), dict[str, Trouble]()
        spooled = self._lanes.begin_batch()
        began = time.monotonic()
        for attempt in count(1):
            self._attempts[batch.batch_id] = attempt
            # Spark reports a batch while later ones run, but never this many
            self._attempts.pop(batch.batch_id - _RECENT, None)
            self._launch.lease.confirm()
            last_attempt = self._launch.stopping.is_set()
            total = total.merge(self._attempt(rows, batch, total, paused, spooled))
            self._waiting |= total.waiting
            away = {**paused, **total.troubles}
            if away:
                over = self._lanes.take_over({name: away[name] for name in away if name not in spooled})
                gone = self._lanes.give_up({name: away[name] for name in away if name in spooled})
            else:
                committed, over = self._commit(batch, total.receipts)
                if not over:
                    break
                gone = frozenset()
            spooled = {name: log for name, log in {**spooled, **over}.items() if name not in gone}
            total = total.without_staged(over).without_spooled(gone)
            away = {name: trouble for name, trouble in away.items() if name not in {*over, *gone}}
            if not away:
                paused = {}
                continue
            self._report_retrying(away)
            if last_attempt:
                self._leave("; ".join(trouble.error.detail for trouble in away.values()))
            paused = self._wait_for_sinks(attempt, away)
        for name in spooled:
            self._lanes.mark(batch, name, total)
        self._lanes.note_slow(total, time.monotonic() - began)
        self._report_acknowledged(total, committed)
        return total, self._lanes.troubles()

    def compute_only(self, rows: DataFrame) -> None:
        """Compute a batch without writing it: Spark's state depends on it."""
        self._compute(rows, ())

    def select_again(
        self, rows: DataFrame, batch_id: int, rules: tuple[SelectedRule, ...]
    ) -> Sequence[bytes]:
        """Compute a batch that is written again, for what alert rules select of it. Raises: JobError."""
        self._attempts[batch_id] += 1
        return self._compute(rows, rules)

    def _compute(self, rows: DataFrame, rules: tuple[SelectedRule, ...]) -> Sequence[bytes]:
        delivery = replace(self._delivery, targets=(), rules=rules)
        with self._launch.in_step("compute"):
            return read_report(rows.mapInArrow(delivery, REPORT).collect()).rule_rows

    def _attempt(
        self,
        rows: DataFrame,
        batch: BatchRef,
        total: Report,
        paused: Mapping[str, Trouble],
        spooled: Mapping[str, LogAddress],
    ) -> Report:
        """Run one Spark job for the unfinished sinks that are not paused; return its report."""
        delivery = replace(
            self._delivery,
            batch_id=batch.batch_id,
            done=total.done,
            paused=frozenset(paused),
            checkpoint=batch.checkpoint,
            may_refuse=self._launch.may_refuse(),
            spooled=spooled,
        )
        invalid = Counter(self._launch.functions.counts())
        if any(target.resolved.HasField("share") for target in self._targets.values()):
            rows = rows.repartition(1)  # a rate limit needs a single writer task
        with self._launch.in_step("compute"):
            report = read_report(rows.mapInArrow(delivery, REPORT).collect())
        return replace(report, invalid=Counter(self._launch.functions.counts()) - invalid)

    def _wait_for_sinks(self, attempt: int, away: Mapping[str, Trouble]) -> dict[str, Trouble]:
        """Wait until another attempt makes sense; return the sinks to leave out of it."""
        requested = {name: trouble.retry_after or 0.0 for name, trouble in away.items()}
        began = time.monotonic()
        for further in count(attempt):
            now = time.monotonic()
            least = min(left_s(after, now - began) for after in requested.values())
            self._launch.stopping.wait(pause_s(further, random.random(), least))  # noqa: S311 - jitter
            if self._launch.stopping.is_set():
                break
            now = time.monotonic()
            resting = {name for name, after in requested.items() if left_s(after, now - began)}
            unavailable = {name: away[name] for name in away if name in resting}
            unavailable |= self._probe_sinks(away.keys() - resting)
            if len(unavailable) < len(away):
                return unavailable
            away = unavailable
            self._report_retrying(away)
        return {}

    def _commit(
        self, batch: BatchRef, receipts: Mapping[str, Sequence[bytes]]
    ) -> tuple[Mapping[str, float], dict[str, LogAddress]]:
        """Commit what the workers have staged, retrying each sink until it accepts, or has a log instead.

        Returns when each had, in seconds since 1970; and the logs: nothing of their sinks is committed.
        """
        committed, spooled = dict[str, float](), dict[str, LogAddress]()
        for name, staged in receipts.items():
            for attempt in count(1):
                self._launch.lease.confirm()
                last_attempt = self._launch.stopping.is_set()
                try:
                    with sinks.clients_of(self._targets[name]), self._launch.in_step("commit"):
                        sinks.commit(self._targets[name], batch, staged)
                    committed[name] = time.time()
                    break
                except JobError as error:
                    away = {name: trouble_of(name, error)}
                if over := self._lanes.take_over(away):
                    spooled |= over
                    break
                self._report_retrying(away)
                if last_attempt:
                    self._leave(away[name].error.detail)
                after = away[name].retry_after
                self._launch.stopping.wait(pause_s(attempt, random.random(), after))  # noqa: S311 - jitter
        return committed, spooled

    def _probe_sinks(self, names: Collection[str]) -> dict[str, Trouble]:
        """Probe sinks, and return those that accept no rows. A sink without a probe counts as available."""
        unavailable = {}
        for name in sorted(names):
            try:
                with sinks.clients_of(self._targets[name]):
                    sinks.probe(self._targets[name])
            except JobError as error:
                unavailable[name] = trouble_of(name, error)
        return unavailable

    def _report_retrying(self, away: Mapping[str, Trouble]) -> None:
        elsewhere = self._lanes.troubles(), self._lanes.refusals(away)
        troubles = (one for named in (away, *elsewhere) for _, one in sorted(named.items()))
        why = list({one.error.detail: one.error for one in troubles}.values())
        waiting = {name: since for name, since in self._waiting.items() if name in away}
        self._launch.heartbeat.update(partial(progress.retrying, why=why, waiting=waiting))

    def _report_acknowledged(self, report: Report, committed: Mapping[str, float]) -> None:
        """Report how old the rows of a batch were when each sink had them."""
        self._waiting.clear()
        ages = {
            name: freshness.count_acknowledged(parts, committed.get(name))
            for name, parts in report.ages.items()
        }
        step = partial(progress.rows_acknowledged, time=datetime.now(UTC), ages=ages)
        self._launch.heartbeat.update(step)
