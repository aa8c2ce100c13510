"""Rate of a dagger's records that are quarantined, and of its rows that sinks refuse. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from chassis.durations import format_span
from fleet.conditions.finding import Finding, Measure, counted_long_enough
from fleet.health.advice import ADVICE, QUARANTINED, REFUSED
from fleet.health.degradation import Limits, share_kept_back, too_many
from fleet.health.watch import Sample, Watch


def rate(watch: Watch, limits: Limits) -> Finding | None:
    """Judge whether too many records were quarantined, or rows refused, over the samples of the watch.

    None until the samples span `limits.share_time`.
    """
    if len(watch.samples) < 2 or not counted_long_enough(watch, limits):
        return None
    first, last = watch.samples[0], watch.samples[-1]
    records = _Share.over(watch.samples, _quarantined_records, last.rows_in - first.rows_in)
    rows = _Share.over(watch.samples, _refused_rows, last.rows_out - first.rows_out)
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
    begun = min(share.find_first(watch.samples) for share in exceeded.values())
    measure = measure._replace(value=max(share.value for share in exceeded.values()))
    owner = ADVICE[QUARANTINED if records in exceeded.values() else REFUSED]
    return Finding(True, "; ".join(exceeded), watch.samples[begun].time, measure=measure, advice=owner)


def _quarantined_records(sample: Sample) -> Counter[str]:
    """Count quarantined records by reason: the counters include refused rows, which are subtracted."""
    return Counter(sample.quarantined) - Counter(sample.refused)


def _refused_rows(sample: Sample) -> Counter[str]:
    """Count refused rows by reason."""
    return Counter(sample.refused)


@dataclass(frozen=True, slots=True)
class _Share:
    """Share of records or rows that were kept back, by reason."""

    count_of: Callable[[Sample], Counter[str]]
    """Counters by reason of a sample."""
    kept_back: Counter[str]
    """By reason, from the first sample to the last."""
    count: int
    """All that was kept back."""
    went_on: int
    """Records or rows that were not kept back, from the first sample to the last."""

    @classmethod
    def over(
        cls, samples: Sequence[Sample], count_of: Callable[[Sample], Counter[str]], went_on: int
    ) -> Self:
        """Take the share over at least two samples."""
        kept_back = count_of(samples[-1]) - count_of(samples[0])
        return cls(count_of, kept_back, kept_back.total(), went_on)

    @property
    def value(self) -> float:
        return share_kept_back(self.count, self.went_on)

    @property
    def reasons(self) -> list[str]:
        """The three most frequent reasons."""
        return [reason for reason, _ in self.kept_back.most_common(3)]

    def find_first(self, samples: Sequence[Sample]) -> int:
        """Return the index of the sample in which the counters first exceed those of the first sample."""
        counts = (self.count_of(sample).total() for sample in samples)
        begun = next(counts)
        return next(number for number, count in enumerate(counts, start=1) if count > begun)
