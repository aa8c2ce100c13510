"""Judge the alert rules of a preview: what they would have said of its range.

The engine, what workers select and the memory of keys are those of a driver (`runtime.rules`); what is
observed goes to the caller, and nothing is sent. A worker also looks for the number that came closest to each
limit, for rules that never fire.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import gateway_pb2, rules_pb2, spec_pb2
from pyspark.sql import DataFrame

import daggersql
from daggersql.rules.compiled import LimitComparison
from runtime.launch import planned
from runtime.references.loading import References
from runtime.rules.judging import RuleJudge
from runtime.rules.limits import LimitTables
from runtime.rules.selection import RowSelection, SelectedRule, list_windows
from runtime.source.status import Gap
from runtime.state.store import Place

MOST_OBSERVED: Final = 1_000
"""Observations of a rule that are given."""
Nearest = tuple[float, int]
"""A number that a rule compares, and the end of its window in us since 1970."""


@dataclass(frozen=True, slots=True)
class SelectedRules:
    """Rules as a worker needs them. Spark pickles it."""

    selected: tuple[SelectedRule, ...] = ()
    compared: tuple[LimitComparison | None, ...] = ()


NO_RULES: Final = SelectedRules()


class PartRules:
    """One partition's rows of whole windows, as rules see them."""

    def __init__(self, rules: SelectedRules) -> None:
        self._compared = rules.compared
        self._selection = RowSelection(rules.selected, sys.maxsize)  # nothing is computed again
        self._contents: list[bytes] = []
        self._nearest: list[Nearest | None] = [None] * len(rules.compared)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch with the columns of `RangeRules.begin_batch`."""
        self._contents += self._selection.select(batch)
        for number, compared in enumerate(self._compared):
            if compared is not None:
                nearest = _nearest(batch, compared)
                self._nearest[number] = _worse(compared, self._nearest[number], nearest)

    def finish(self) -> tuple[list[bytes], str]:
        """Return the selected rows (`selection.RowSelection`), and the nearest numbers as JSON."""
        return self._contents, json.dumps(self._nearest)


class RangeRules:
    """The rules of one preview."""

    def __init__(
        self, spec: spec_pb2.JobSpec, plan: daggersql.Plan, root: Callable[[], Place], limits: References
    ) -> None:
        """root: directory of the preview's checkpoint. limits: for the tables that rules read. Raises:
        JobError (EXTERNAL) for one of these that cannot be read.
        """
        windows = daggersql.fixed_size(plan.window)
        self._rules = spec.spec.alerts
        self._compared = tuple(_find_fixed(rule.comparison) for rule in plan.rules)
        self._observed: list[rules_pb2.RuleObserved] = []
        self._nearest: list[Nearest | None] = [None] * len(self._compared)
        self._until: datetime | None = None
        self._judge = RuleJudge(
            spec.dagger,
            generation=spec.generation,
            created=spec.created,
            root=root,
            window=windows,
            limits=LimitTables(limits),
            compile_rules=partial(planned.compile_rules, spec),
            sender=self,
            on_rules=lambda _: None,
            on_learning=lambda _: None,
        )
        self._judge.put(spec.version, self._rules, plan.rules, spec.references)
        limits.start()

    def write(self, observed: Sequence[rules_pb2.RuleObserved]) -> Sequence[rules_pb2.RuleObserved]:
        """Keep observations, in place of the topic of a driver's."""
        self._observed += observed
        return ()

    def begin_batch(self, rows: DataFrame, closed: datetime | None) -> DataFrame:
        """Add what the rules say to the rows of a batch that closes windows up to `closed`."""
        return self._judge.begin_batch(rows, closed)

    def select(self) -> SelectedRules:
        """Return what workers need of the rules."""
        return SelectedRules(self._judge.select(), self._compared)

    def end_batch(
        self,
        parts: Sequence[tuple[Sequence[bytes], str]],
        closed: datetime | None,
        gaps: Sequence[Gap] = (),
    ) -> None:
        """Judge what workers have selected (`PartRules.finish`). closed, gaps: of `RuleJudge.end_batch`."""
        self._judge.end_batch([content for contents, _ in parts for content in contents], closed, gaps)
        self._until = closed or self._until
        for _, of_part in parts:
            for number, nearest in enumerate(json.loads(of_part)):
                compared = self._compared[number]
                if compared is not None and nearest is not None:
                    self._nearest[number] = _worse(compared, self._nearest[number], tuple(nearest))

    def summarize(self) -> gateway_pb2.PreviewRules:
        """Build what the rules said."""
        summary = gateway_pb2.PreviewRules()
        if self._until is not None:
            summary.until.FromDatetime(self._until)
        for rule, compared, nearest in zip(self._rules, self._compared, self._nearest, strict=True):
            of_rule = [one for one in self._observed if one.rule == rule.name]
            one = summary.rules.add(
                rule=rule.name,
                observed=of_rule[:MOST_OBSERVED],
                observed_left_out=max(len(of_rule) - MOST_OBSERVED, 0),
            )
            if compared is not None and compared.limit is not None and nearest is not None:
                one.limit, one.nearest = compared.limit, nearest[0]
                one.nearest_window.FromMicroseconds(nearest[1])
        return summary


def _find_fixed(compared: LimitComparison | None) -> LimitComparison | None:
    """Return a comparison with one number, which a rule may come near to; None for other rules."""
    return compared if compared is not None and compared.limit is not None else None


def _nearest(batch: pa.RecordBatch, compared: LimitComparison) -> Nearest | None:
    """Find the number of a batch that is closest to a limit, or furthest beyond it, and its window."""
    values = pc.cast(batch.column(compared.column), pa.float64(), safe=False)
    values = pc.if_else(pc.is_finite(values), values, None)
    worst = (pc.max if compared.above else pc.min)(values).as_py()
    if worst is None:
        return None
    [window] = list_windows(batch.slice(pc.index(values, worst).as_py(), 1))
    return worst, window


def _worse(compared: LimitComparison, one: Nearest | None, other: Nearest | None) -> Nearest | None:
    """Return the number that is further beyond the limit; of equal ones that of the earlier window."""
    if one is None or other is None:
        return one or other
    if one[0] == other[0]:
        return min(one, other, key=lambda nearest: nearest[1])
    return other if compared.is_worse(other[0], one[0]) else one
