from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from api_gateway.validate import schemas
from api_gateway.validate.query_checks import Checks
from daggerspec.defaults import fill_defaults
from eventlog.testing import given
from fleet import Fleet


def without_city(samples: Any) -> Message:
    files = samples.files()
    booking = files.file[0].message_type[0]
    del booking.field[1]
    return events_pb2.SchemaRegistered(schema=schemas.prune(files))


def by_another_time(samples: Any) -> Message:
    stream = samples.stream()
    stream.time_field = "place.seen"
    return events_pb2.StreamRegistered(stream=stream)


def of_another_message(samples: Any) -> Message:
    stream = samples.stream()
    stream.message, stream.time_field = "shop.Summary", "window_timestamp"
    return events_pb2.StreamRegistered(stream=stream)


def a_reference(_: Any) -> Message:
    return events_pb2.ReferenceRegistered(reference=spec_pb2.ReferenceTable(name="cities"))


@pytest.fixture
def fleet(samples: Any) -> Fleet:
    """Knows the cluster local, the schema and the stream."""
    found = Fleet()
    for record in given(
        events_pb2.ClusterRegistered(cluster=samples.cluster()),
        events_pb2.SchemaRegistered(schema=schemas.prune(samples.files())),
        events_pb2.StreamRegistered(stream=samples.stream()),
    ):
        found.apply(record)
    return found


async def test_a_query_is_checked_once_whatever_stands_beside_it(samples: Any, fleet: Fleet) -> None:
    checks = Checks()
    first = await checks.check(fill_defaults("one_dagger", samples.spec()), fleet, accepted=False)
    other = samples.spec()
    other.team = "another"

    assert await checks.check(fill_defaults("another_dagger", other), fleet, accepted=False) is first


@pytest.mark.parametrize("change", [without_city, by_another_time, of_another_message, a_reference])
async def test_a_query_is_checked_again_when_what_it_reads_was_registered_anew(
    samples: Any, fleet: Fleet, change: Callable[[Any], Message]
) -> None:
    checks, spec = Checks(), fill_defaults("a_dagger", samples.spec())
    before = await checks.check(spec, fleet, accepted=False)
    for record in given(change(samples), since=fleet.sequence):
        fleet.apply(record)
    after = await checks.check(spec, fleet, accepted=False)

    assert after is not before
    assert after == await Checks().check(spec, fleet, accepted=False)


async def test_a_query_is_checked_again_when_its_table_has_another_name(samples: Any, fleet: Fleet) -> None:
    checks, spec = Checks(), fill_defaults("a_dagger", samples.spec())
    before = await checks.check(spec, fleet, accepted=False)
    spec.streams[0].table = "bookings"
    after = await checks.check(spec, fleet, accepted=False)

    assert before.plan is not None
    assert after.plan is None


async def test_only_the_newest_checks_are_remembered(samples: Any, fleet: Fleet) -> None:
    checks, spec = Checks(), fill_defaults("a_dagger", samples.spec())
    first = await checks.check(spec, fleet, accepted=False)
    for number in range(300):
        spec.sql = f"SELECT nothing_{number} FROM data_stream"
        await checks.check(spec, fleet, accepted=False)

    assert await checks.check(fill_defaults("a_dagger", samples.spec()), fleet, accepted=False) is not first


async def test_a_check_with_long_rules_is_not_remembered(samples: Any, fleet: Fleet) -> None:
    checks, spec = Checks(), fill_defaults("a_dagger", samples.spec())
    spec.alerts.add(name="few", when="orders < 1", summary="x" * 20_000)
    first = await checks.check(spec, fleet, accepted=False)

    assert await checks.check(spec, fleet, accepted=False) is not first


async def test_a_query_that_is_still_asked_for_stays_remembered(samples: Any, fleet: Fleet) -> None:
    checks, kept = Checks(), fill_defaults("a_dagger", samples.spec())
    first = await checks.check(kept, fleet, accepted=False)
    spec = fill_defaults("a_dagger", samples.spec())
    for number in range(300):
        spec.sql = f"SELECT nothing_{number} FROM data_stream"
        await checks.check(spec, fleet, accepted=False)
        await checks.check(kept, fleet, accepted=False)

    assert await checks.check(kept, fleet, accepted=False) is first


async def test_a_stream_is_checked_under_the_name_that_it_has_in_the_query(
    samples: Any, fleet: Fleet
) -> None:
    spec = fill_defaults("one_dagger", samples.spec())
    spec.sql = spec.sql.replace("data_stream", "b")
    unknown = await Checks().check(spec, fleet, accepted=False)
    spec.streams[0].table = "b"

    assert unknown.plan is None
    assert (await Checks().check(spec, fleet, accepted=False)).plan is not None
