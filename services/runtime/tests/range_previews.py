"""Previews of a range for tests, and what rules say in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from daggers.v1 import gateway_pb2, host_pb2, rules_pb2, spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.launches import Dagger, whole

from daggerspec.row import from_proto
from runtime.preview.run import Preview

Done = gateway_pb2.PreviewDone
Counts = Counter[tuple[str, str]]


class RangePreview:
    """Run of a preview over a dagger's records, and its answers."""

    def __init__(
        self, session: SparkSession, dagger: Dagger, range_: gateway_pb2.PreviewRange, max_rows: int = 0
    ) -> None:
        dagger.generation += 1
        run_dir = dagger.folder / f"preview-{dagger.generation}"
        run_dir.mkdir(parents=True)
        dagger.sinks = [spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink(limit=1)))]
        dagger.root = str(run_dir / "checkpoints")
        job = whole(dagger.spec(run_dir))
        job.ClearField("platform")
        request = host_pb2.PreviewJob(job=job, range=range_, max_rows=max_rows)
        self.steps: list[gateway_pb2.PreviewDaggerResponse] = []
        Preview(request, session, self.steps.append, lambda: False).run()

    @property
    def done(self) -> Done:
        return self.steps[-1].done

    def counts(self, *, partial: bool) -> Counts:
        """Return counts by window end and city, of whole windows or of parts."""
        rows = [
            from_proto(row) for step in self.steps if step.rows.partial == partial for row in step.rows.rows
        ]
        return Counter(
            {
                (row.time.strftime("%Y-%m-%dT%H:%M:%SZ"), row.tags["tag_city_id"]): row.fields[
                    "num_of_bookings"
                ]
                for row in rows
                if row.time is not None
            }
        )

    def first_windows(self) -> set[str]:
        """Return the ends of the windows whose rows came first."""
        rows = next(step.rows.rows for step in self.steps if step.HasField("rows"))
        times = [from_proto(row).time for row in rows]
        return {time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times if time is not None}


def rule_turns(observed: Iterable[rules_pb2.RuleObserved]) -> list[tuple[str, ...]]:
    """List rule, state, city, window and text, as live and previewed observations share them."""
    return sorted(
        (one.rule, rules_pb2.RuleState.Name(one.state), one.key["tag_city_id"], one.window.ToJsonString(),
         one.since.ToJsonString(), one.summary, repr(one.value))
        for one in observed
    )  # fmt: skip


def everything() -> gateway_pb2.PreviewRange:
    return gateway_pb2.PreviewRange(last_records=1_000_000)
