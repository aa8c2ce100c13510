"""What a plan says of records that are read again, of windows that are lost, and of costs."""

from datetime import UTC, datetime, timedelta

from daggers.v1 import gateway_pb2 as pb

from cli.output import plan_text

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
RANGES = [pb.PlannedRange(topic="t", partition=each, begin=5, end=15, first=5) for each in range(10)]
PLAN = pb.PlanDaggerResponse(
    action=pb.ApplyDaggerResponse.ACTION_UPDATED,
    effect=pb.PlanDaggerResponse.EFFECT_RECOMPUTED,
    recomputed_since=NOON,
    reads=pb.PlannedReads(
        ranges=RANGES, records=100, closed=NOON, since=NOON, whole_from=NOON, records_since=19
    ),
    reading_time=timedelta(seconds=2.5),
    lost_windows=pb.PlannedWindows(begin=NOON, end=NOON + timedelta(minutes=1), count=1),
    losses=["1 window would never be written"],
    cost=pb.DaggerCost(
        launch_memory_mib=1000, age=timedelta(hours=1), cpu_seconds_per_day=240, records_per_second=3
    ),
    launch_memory_mib=1500,
)


def test_a_plan_names_the_first_partitions_the_time_and_the_cost() -> None:
    lines = [line.strip() for line in plan_text.lines("d", PLAN)]

    assert "records since about 2026-07-01T12:00:00Z are read again" in lines
    assert "100 records are read again, of 10 partitions, about 2.5 s of a processor" in lines
    assert [line for line in lines if line.startswith("t/")] == [
        f"t/{number}: offsets 5 to 14" for number in range(8)
    ]
    assert "and 2 more (-o json)" in lines
    assert "memory reserved: 1,500 MiB, before 1,000 MiB" in lines
    assert "until now it costs 10 CPU-seconds an hour, for 3.0 records/s, 0.0 rows/min" in lines
    assert "lost: 1 window would never be written" in lines


def test_a_plan_says_why_more_is_read_again_than_its_time_and_rate_give() -> None:
    """9,305 records were told for 70 s of 25 a second: five minutes of them are of `future_tolerance`."""
    before = "came up to the streams' future_tolerance before: producers' clocks may be ahead"

    assert f"    19 came since then, and 81 {before}" in list(plan_text.lines("d", PLAN))
    assert plan_text.document("d", PLAN)["reads"]["records_since"] == 19


def test_a_cost_without_rates_names_none() -> None:
    plan = pb.PlanDaggerResponse(effect=pb.PlanDaggerResponse.EFFECT_STATE_KEPT, action=PLAN.action)
    plan.cost.CopyFrom(PLAN.cost)
    plan.cost.records_per_second = 0

    assert "  until now it costs 10 CPU-seconds an hour" in list(plan_text.lines("d", plan))


def test_who_reads_json_has_every_partition_and_the_windows() -> None:
    document = plan_text.document("d", PLAN)

    assert len(document["reads"]["ranges"]) == 10
    assert document["reads"]["ranges"][0] == {
        "topic": "t",
        "partition": 0,
        "begin": 5,
        "end": 15,
        "first": 5,
    }
    assert document["lost_windows"] == {
        "begin": "2026-07-01T12:00:00Z",
        "end": "2026-07-01T12:01:00Z",
        "count": 1,
    }
    assert (document["reading_time_s"], document["cost"]["age_s"]) == (2.5, 3600)


def test_why_nobody_looked_into_kafka_is_said() -> None:
    plan = pb.PlanDaggerResponse(
        action=pb.ApplyDaggerResponse.ACTION_UPDATED, reads_unchecked="host a is not there\x1b[31m"
    )
    lines = list(plan_text.lines("d", plan))

    assert any("Kafka was not looked into: host a is not there" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert plan_text.document("d", plan)["reads"] is None


def test_how_the_driver_is_replaced_is_said_and_why() -> None:
    plan = pb.PlanDaggerResponse(
        action=pb.ApplyDaggerResponse.ACTION_UPDATED,
        effect=pb.PlanDaggerResponse.EFFECT_RECOMPUTED,
        replacement=pb.PlanDaggerResponse.REPLACEMENT_STOP_THEN_START,
        replacement_reason="its sessions end apart",
    )
    document = plan_text.document("d", plan)

    assert "  it stops, then starts: its sessions end apart" in plan_text.lines("d", plan)
    assert (document["replacement"], document["replacement_reason"]) == (
        "stop_then_start",
        "its sessions end apart",
    )
    assert plan_text.document("d", PLAN)["replacement"] is None
