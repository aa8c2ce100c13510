"""PlanDagger: what ApplyDagger would do, and what that does to windows and rows."""

from datetime import UTC, datetime
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from daggers.v1 import gateway_pb2 as pb
from google.protobuf.message import Message

from api_gateway.validate import edit_plan, move_plan
from daggerspec import cutover
from daggerspec.changes import changes
from daggerspec.defaults import fill_defaults
from eventlog import Draft
from eventlog.testing import given
from fleet import Fleet

NAME = "completed_bookings"
P = pb.PlanDaggerResponse


@pytest.fixture
def plan(ready: Any, samples: Any) -> Any:
    """Plans a spec, the usual one unless another is given."""

    async def ask(**fields: Any) -> pb.PlanDaggerResponse:
        request = pb.PlanDaggerRequest(**{"name": NAME, "spec": samples.spec(), **fields})
        answer: pb.PlanDaggerResponse = await ready.daggers.PlanDagger(request, timeout=10)
        return answer

    return ask


async def test_a_plan_writes_nothing_and_says_what_apply_then_does(
    ready: Any, plan: Any, samples: Any
) -> None:
    end, other = await ready.log.end(), samples.spec()
    other.sinks[0].influx.measurement = "another"
    first = await plan()
    nothing_written = await ready.log.end() == end
    await ready.create()
    same, revised = await plan(), await plan(spec=other)
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name=NAME), timeout=10)
    stopped = await plan()
    actions = [each.action for each in (first, same, revised, stopped)]

    assert nothing_written
    assert actions == [
        pb.ApplyDaggerResponse.ACTION_CREATED,
        pb.ApplyDaggerResponse.ACTION_UNCHANGED,
        pb.ApplyDaggerResponse.ACTION_UPDATED,
        pb.ApplyDaggerResponse.ACTION_STARTED,
    ]
    assert [each.version for each in (first, same, revised, stopped)] == [0, 1, 1, 2]
    assert (first.effect, same.effect, list(same.changes)) == (P.EFFECT_BEGINS, P.EFFECT_NOTHING, [])
    assert [change.field for change in revised.changes] == ["sinks[0].influx.measurement"]


async def test_a_plan_tells_columns_that_are_others_and_what_each_sink_sees(
    ready: Any, plan: Any, samples: Any
) -> None:
    await ready.create()
    spec = samples.spec()
    spec.sql = samples.query.replace(" AS ", " AS x_", 1)
    spec.sinks.add().kafka.topic = "out"
    planned = await plan(spec=spec)
    names = [(column.before.name, column.after.name) for column in planned.columns]

    assert len(names) == 2
    assert names[1] == ("", f"x_{names[0][0]}")
    assert [(sink.field, sink.kind) for sink in planned.sinks] == [
        ("sinks[0]", "influx"),
        ("sinks[1]", "kafka"),
    ]
    assert all(sink.seen for sink in planned.sinks)


async def test_a_plan_says_how_state_is_divided_at_a_move_and_whether_checkpoints_are_out_of_reach(
    ready: Any, plan: Any, samples: Any
) -> None:
    far = samples.cluster()
    far.name, far.spark_master = "far", "spark://10.1.2.3:7077"
    far.executors.count, far.executors.cores = 4, 2
    await ready.catalog.RegisterCluster(pb.RegisterClusterRequest(cluster=far), timeout=10)
    here, moved, in_memory = samples.spec(), samples.spec(), samples.spec()
    here.state = moved.state = spec_pb2.STATE_STORE_DISK
    moved.cluster = in_memory.cluster = "far"
    await ready.create(spec=here)
    epoch = await said(ready, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name=NAME, epoch=epoch)
    await said(ready, events_pb2.LaunchIntended(meta=meta, version=1))
    host = events_pb2.HostRegistered(scheduler_id="s", host="a", boot_id="b", shared_checkpoints=False)
    planned = []
    for shared in (False, True):
        host.shared_checkpoints = shared
        await said(ready, host)
        planned.append(await plan(spec=moved))
    stays, read_again = await plan(spec=here), await plan(spec=in_memory)

    assert [each.effect for each in planned] == [P.EFFECT_STATE_KEPT] * 2
    assert "divided anew at the start, from 1 partition into 8 partitions" in planned[0].reason
    assert ["CHECKPOINTS_NOT_SHARED" in str(each.warnings) for each in planned] == [True, False]
    assert "divided" not in stays.reason + read_again.reason


def test_a_plan_says_what_is_lost_where_state_in_memory_moves(samples: Any) -> None:
    fleet, near, far = Fleet(), samples.cluster(), samples.cluster()
    far.name, far.spark_master, far.executors.cores_max = "far", "spark://10.1.2.3:7077", 8
    for record in given(*(events_pb2.ClusterRegistered(cluster=each) for each in (near, far))):
        fleet.apply(record)
    here, there = samples.spec(), samples.spec()
    there.cluster = "far"
    up, down, stays = (
        move_plan.describe_division(*specs, fleet, on_disk=False)
        for specs in ((here, there), (there, here), (there, there))
    )

    assert "in memory and stays in 1 partition, so that it computes on as many cores" in up
    assert "in memory and stays in 8 partitions, where 1 partition would do" in down
    assert stays == ""


async def test_a_plan_says_whether_a_table_is_altered_by_a_new_column(
    ready: Any, plan: Any, samples: Any
) -> None:
    await ready.create()
    seen = []
    for adds in (True, False):
        spec = samples.spec()
        spec.sql = samples.query.replace(" AS ", " AS x_", 1)
        table = spec.sinks.add(name="table").postgres
        table.address.host, table.address.database, table.address.user = "db", "d", "u"
        table.table = "rows"
        table.add_columns = adds
        seen.append(" ".join((await plan(spec=spec)).sinks[1].seen))

    assert ["the table rows is altered" in each for each in seen] == [True, False]
    assert ["the table rows must have x_" in each for each in seen] == [False, True]


@pytest.mark.parametrize(("table", "told"), [("same", True), ("other", False)])
async def test_a_plan_says_that_a_table_of_files_keeps_its_kind_of_folders(table: str, told: bool) -> None:
    before, after = (
        spec_pb2.DaggerSpec(sinks=[{"parquet": {"location": "/f", "table": "same"}}]) for _ in "ab"
    )
    after.sinks[0].parquet.table, after.sinks[0].parquet.per = table, spec_pb2.ParquetSink.PER_DAY
    had, wanted = (fill_defaults(NAME, spec) for spec in (before, after))

    warned = [*edit_plan.other_folders(changes(had, wanted))]
    assert [warning.partition(":")[0] for warning in warned] == (["sinks[0].parquet.per"] if told else [])


async def test_what_apply_refuses_a_plan_refuses_in_the_same_words(
    ready: Any, plan: Any, samples: Any, refusal: Any
) -> None:
    spec = samples.spec()
    spec.sql, spec.cluster = "SELECT nope FROM data_stream", "nowhere"
    request = pb.ApplyDaggerRequest(name="No", spec=spec)
    applied = await refusal(ready.daggers.ApplyDagger(request, timeout=10))
    planned = await refusal(plan(name="No", spec=spec))

    assert (planned.code, planned.reason) == (applied.code, applied.reason)
    assert planned.violations == applied.violations


async def said(client: Any, message: Message) -> int:
    """A record of a scheduler, once the gateway has read it; its sequence."""
    sequence: int = await client.log.end() + 1
    await client.log.append(Draft(f"p{sequence}", "/test", NAME, datetime.now(UTC), message))
    await client.gateway.follower.wait_for(sequence)
    return sequence


async def test_a_plan_says_which_edits_are_cut_over_and_why_others_stop_first(
    ready: Any, plan: Any, samples: Any
) -> None:
    other, sessions, same = samples.spec(), samples.spec(), samples.spec()
    other.sql = samples.query.replace("'10' SECOND", "'20' SECOND")
    sessions.sql = samples.query.replace("TUMBLE", "SESSION")
    same.sinks[0].influx.measurement, same.sinks[0].when = "another", "orders > 1"
    first = await plan()
    await ready.create()
    epoch = await said(ready, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name=NAME, epoch=epoch)
    meta.generation = await said(ready, events_pb2.LaunchIntended(meta=meta, version=1))
    await said(ready, events_pb2.Launched(meta=meta, driver={"host": "a", "pid": 7}))
    await said(ready, events_pb2.Running(meta=meta))
    off = await plan(spec=other)
    serving = events_pb2.HostServing(scheduler_id="s", host="a", address="a:1", cutover=True)
    await said(ready, serving)
    answers = [await plan(spec=spec) for spec in (other, sessions, same, samples.spec())]

    assert [first.replacement, *(each.replacement for each in answers)] == [
        P.REPLACEMENT_UNSPECIFIED,
        P.REPLACEMENT_CUTOVER,
        P.REPLACEMENT_STOP_THEN_START,
        P.REPLACEMENT_STOP_THEN_START,
        P.REPLACEMENT_UNSPECIFIED,
    ]
    assert off.replacement == P.REPLACEMENT_STOP_THEN_START
    assert "DAGGERS_SCHEDULER_CUTOVER" in off.replacement_reason
    assert "sessions" in answers[1].replacement_reason
    assert answers[2].replacement_reason == cutover.STATE_KEPT
    assert answers[2].effect == P.EFFECT_STATE_KEPT
    assert [change.field for change in answers[2].changes] == [
        "sinks[0].influx.measurement", "sinks[0].when",
    ]  # fmt: skip
