"""Rate of a dagger's records that are quarantined, and of its rows that sinks refuse. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chassis.durations import format_span
from fleet.health.advice import ADVICE, QUARANTINED, REFUSED
from fleet.health.degradation import Limits, share_kept_back, too_many
from fleet.health.watch import Sample, Watch
from health_monitor.conditions.finding import Finding, Measure, counted_long_enough


def rate(watch: Watch, limits: Limits) -> Finding | None:
    """Judge whether too many records were quarantined, or rows refused, over the samples of the watch.

    None until the samples span `limits.share_time`.
    """
    if len(watch.samples) < 2 or not counted_long_enough(watch, limits):
        return None
    first, last = watch.samples[0], watch.samples[-1]
    records = _Share(tuple(map(_quarantined_records, watch.samples)), last.rows_in - first.rows_in)
    rows = _Share(tuple(sample.refused for sample in watch.samples), last.rows_out - first.rows_out)
    span = format_span(last.time - first.time)
    exceeded = {
        f"{share.count:,} {subject} in {span}, {share.value:.1%}{of}: {', '.join(share.reasons)}": share
        for share, subject, of in (
            (records, "records were quarantined", ""),
            (rows, "rows were refused by sinks", " of those to be written"),
        )
        if too_many(share.count, share.went_on, limits)
    }
    worst = max(records.value, rows.value)
    measure = Measure(worst, limits.quarantine_share, "share")
    if not exceeded:
        well = f"{records.value:.1%} of its records are quarantined, {rows.value:.1%} of its rows are refused"
        return Finding(False, well, last.time, measure=measure)
    begun = min(share.first for share in exceeded.values())
    measure = measure._replace(value=max(share.value for share in exceeded.values()))
    owner = ADVICE[QUARANTINED if records in exceeded.values() else REFUSED]
    return Finding(True, "; ".join(exceeded), watch.samples[begun].time, measure=measure, advice=owner)


def _quarantined_records(sample: Sample) -> Mapping[str, int]:
    """Count quarantined records by reason: the counters include refused rows, which are subtracted."""
    return Counter(sample.quarantined) - Counter(sample.refused)


@dataclass(frozen=True, slots=True)
class _Share:
    """Share of records or rows that were kept back, by reason."""

    samples: Sequence[Mapping[str, int]]
    """Counters by reason at each of at least two moments."""
    went_on: int
    """Records or rows that were not kept back, from the first moment to the last."""

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
        """The three most frequent reasons."""
        return [reason for reason, _ in self.kept_back.most_common(3)]

    @property
    def first(self) -> int:
        """Index of the sample in which the counters first exceed those of the first sample."""
        begun = sum(self.samples[0].values())
        return next(number for number, counts in enumerate(self.samples) if sum(counts.values()) > begun)
