"""How much of a dagger's records and rows is kept back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chassis.durations import spoken
from fleet.health.advice import ADVICE, QUARANTINED, REFUSED
from fleet.health.degradation import Limits, share_kept_back, too_many
from fleet.health.watch import Sample, Watch
from health_monitor.finding import Finding, Measure, counted_long_enough


def rate(watch: Watch, limits: Limits) -> Finding | None:
    """Whether too much was kept back in the last minutes: records quarantined, or rows refused.

    None until it has been counted for long enough.
    """
    if len(watch.samples) < 2 or not counted_long_enough(watch, limits):
        return None
    first, last = watch.samples[0], watch.samples[-1]
    aside = _Share(tuple(map(_aside, watch.samples)), last.rows_in - first.rows_in)
    back = _Share(tuple(sample.refused for sample in watch.samples), last.rows_out - first.rows_out)
    span = spoken(last.time - first.time)
    told = {
        f"{share.count:,} {what} in {span}, {share.value:.1%}{of}: {', '.join(share.reasons)}": share
        for share, what, of in (
            (aside, "records were quarantined", ""),
            (back, "rows were refused by sinks", " of those to be written"),
        )
        if too_many(share.count, share.went_on, limits)
    }
    worst = max(aside.value, back.value)
    measure = Measure(worst, limits.quarantine_share, "share")
    if not told:
        well = f"{aside.value:.1%} of its records are quarantined, {back.value:.1%} of its rows are refused"
        return Finding(False, well, last.time, measure=measure)
    begun = min(share.first for share in told.values())
    measure = measure._replace(value=max(share.value for share in told.values()))
    whose = ADVICE[QUARANTINED if aside in told.values() else REFUSED]
    return Finding(True, "; ".join(told), watch.samples[begun].time, measure=measure, advice=whose)


def _aside(sample: Sample) -> Mapping[str, int]:
    """The records among what was kept back: the rest are rows."""
    return Counter(sample.quarantined) - Counter(sample.refused)


@dataclass(frozen=True, slots=True)
class _Share:
    """What was kept back, by reason, beside what went on."""

    samples: Sequence[Mapping[str, int]]
    """What had been kept back at each of at least two moments."""
    went_on: int

    @property
    def kept_back(self) -> Counter[str]:
        """By reason, from the first moment to the last."""
        return Counter(self.samples[-1]) - Counter(self.samples[0])

    @property
    def count(self) -> int:
        return self.kept_back.total()

    @property
    def value(self) -> float:
        return share_kept_back(self.count, self.went_on)

    @property
    def reasons(self) -> list[str]:
        """The three that are most of it."""
        return [reason for reason, _ in self.kept_back.most_common(3)]

    @property
    def first(self) -> int:
        """The number of the moment by which the first of it had been kept back."""
        begun = sum(self.samples[0].values())
        return next(number for number, kept in enumerate(self.samples) if sum(kept.values()) > begun)
