"""ListRevisions: what a dagger was asked to be, out of the log, newest first."""

from typing import Any

import pytest
from daggers.v1 import gateway_pb2 as pb

NAME = "completed_bookings"


@pytest.fixture
def apply(ready: Any, samples: Any) -> Any:
    """Applies the usual spec with another sink, and says why."""

    async def ask(measurement: str, message: str = "", **fields: Any) -> pb.ApplyDaggerResponse:
        spec = samples.spec()
        spec.sinks[0].influx.measurement = measurement
        request = pb.ApplyDaggerRequest(name=NAME, spec=spec, message=message, **fields)
        answer: pb.ApplyDaggerResponse = await ready.daggers.ApplyDagger(request, timeout=10)
        return answer

    return ask


async def revisions(client: Any, **fields: Any) -> pb.ListRevisionsResponse:
    request = pb.ListRevisionsRequest(**{"name": NAME, **fields})
    answer: pb.ListRevisionsResponse = await client.daggers.ListRevisions(request, timeout=10)
    return answer


async def test_a_revision_says_who_asked_why_and_what_is_another(ready: Any, apply: Any) -> None:
    await apply("one", "first try")
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name=NAME), timeout=10)
    last = await apply("two", "a better name")
    await apply("two", "nothing new")
    newer, older = (await revisions(ready)).revisions

    assert [(each.version, each.message, each.actor) for each in (newer, older)] == [
        (3, "a better name", "anonymous"),
        (1, "first try", "anonymous"),
    ]
    assert [(change.field, change.before, change.after) for change in newer.changes] == [
        ("sinks[0].influx.measurement", "one", "two")
    ]
    assert (newer.spec, newer.sequence, list(older.changes)) == (last.dagger.spec, last.sequence, [])
    assert newer.time.ToDatetime() >= older.time.ToDatetime()


async def test_pages_go_on_behind_the_last_version_and_each_revision_has_its_changes(
    ready: Any, apply: Any
) -> None:
    for number in range(5):
        await apply(f"m{number}")
    first = await revisions(ready, page_size=2)
    second = await revisions(ready, page_size=2, page_token=first.next_page_token)
    third = await revisions(ready, page_size=2, page_token=second.next_page_token)
    pages = [
        [(revision.version, len(revision.changes)) for revision in page.revisions]
        for page in (first, second, third)
    ]

    assert pages == [[(5, 1), (4, 1)], [(3, 1), (2, 1)], [(1, 0)]]
    assert third.next_page_token == ""


async def test_a_gateway_that_starts_from_its_tables_lists_the_same(
    harness: Any, ready: Any, apply: Any, tmp_path: Any
) -> None:
    await apply("one")
    await apply("two")
    before = await revisions(ready)
    await ready.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)  # the tables have it all now
    from_tables = await revisions(await harness.start(ready.log))
    from_log = await revisions(await harness.start(ready.log, database_url=f"sqlite:///{tmp_path}/new.db"))

    assert [from_tables.revisions, from_log.revisions] == [before.revisions] * 2


async def test_what_is_asked_wrongly_is_told_at_once(ready: Any, apply: Any, refusal: Any) -> None:
    nobody = await refusal(revisions(ready, name="nobody"))
    wrong = await refusal(revisions(ready, name="No", page_size=-1, page_token="bm8KcmV2aXNpb25z"))
    long = await refusal(apply("one", "x" * 1_001))

    assert nobody.reason == "NOT_FOUND"
    assert sorted(violation.field for violation in wrong.violations) == ["name", "page_size", "page_token"]
    assert [(violation.field, violation.reason) for violation in long.violations] == [
        ("message", "TOO_LARGE")
    ]
