from __future__ import annotations

from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, spec_pb2

from api_gateway.rpc import filters
from api_gateway.rpc.filters import Term

pb = gateway_pb2


@pytest.fixture
async def many(ready: Any, samples: Any) -> Any:
    for name, team in (("alpha", "pricing"), ("beta", "pricing"), ("beta_2", "my team"), ("gamma", "")):
        spec = samples.spec()
        spec.team = team
        await ready.create(name=name, spec=spec)
    await ready.daggers.StopDagger(pb.StopDaggerRequest(name="gamma"), timeout=10)
    return ready


async def names(client: Any, **fields: Any) -> list[str]:
    listed = await client.daggers.ListDaggers(pb.ListDaggersRequest(**fields), timeout=10)
    return [dagger.name for dagger in listed.daggers]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["alpha", "beta", "beta_2", "gamma"]),
        ("  ", ["alpha", "beta", "beta_2", "gamma"]),
        ("team=pricing", ["alpha", "beta"]),
        ('team="my team"', ["beta_2"]),
        ('team=""', ["gamma"]),
        ("name=beta*", ["beta", "beta_2"]),
        ("name=beta_*", ["beta_2"]),
        ("name=beta", ["beta"]),
        ("name=*", ["alpha", "beta", "beta_2", "gamma"]),
        ("team = pricing AND name=b*", ["beta"]),
        ("phase=PENDING AND cluster=local AND name=g*", ["gamma"]),
        ("phase=RUNNING", []),
        ("name=%", []),
    ],
)
async def test_a_filter_finds_what_it_says(many: Any, text: str, found: list[str]) -> None:
    assert await names(many, filter=text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("text=alph", ["alpha"]),
        ("text=PRICING", ["alpha", "beta", "tailed"]),
        ('text="pricing bet"', ["beta"]),
        ("text=pricing AND text=bet", ["beta"]),
        ("text=my AND name=b*", ["beta_2"]),
        ("text=anonym", ["alpha", "beta", "beta_2", "gamma", "tailed"]),  # who made them
        ("text=bookings-2", ["alpha", "beta", "beta_2", "gamma", "tailed"]),  # a topic of their stream
        ('text="influx beta"', ["beta", "beta_2"]),
        ("text=log", ["tailed"]),  # a kind of sink
        ("text=warehouse.example", ["tailed"]),
        ("text=x-internal", []),  # a header of what is sent
        ("text=nowhere", []),
        ("text=%", []),
        ('text=""', ["alpha", "beta", "beta_2", "gamma", "tailed"]),
    ],
)
async def test_a_text_is_found_in_what_people_know_a_dagger_by(
    many: Any, samples: Any, text: str, found: list[str]
) -> None:
    spec = samples.spec()
    del spec.sinks[:]
    spec.sinks.add(log=spec_pb2.LogSink())
    spec.sinks.add(http=spec_pb2.HttpSink(url="https://warehouse.example/rows", headers={"x-internal": "1"}))
    await many.create(name="tailed", spec=spec)
    listed = await many.daggers.ListDaggers(pb.ListDaggersRequest(filter=text, page_size=1), timeout=10)

    assert (await names(many, filter=text), listed.total_size) == (found, len(found))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"team": "pricing"}, "team=pricing"),
        ({"team": "my team"}, 'team="my team"'),
        ({"cluster": "local"}, "cluster=local"),
        ({"name_prefix": "beta_"}, "name=beta_*"),
        ({"name_prefix": "%"}, "name=%*"),
        ({"phases": [pb.PENDING]}, "phase=PENDING"),
        ({"phases": [pb.RUNNING]}, "phase=RUNNING"),
        ({"team": "pricing", "name_prefix": "b"}, "team=pricing AND name=b*"),
        ({"team": "nobody"}, "team=nobody"),
    ],
)
async def test_fields_of_a_request_find_what_a_filter_finds(
    many: Any, fields: dict[str, Any], text: str
) -> None:
    assert await names(many, **fields) == await names(many, filter=text)


async def test_one_of_several_phases_is_enough_and_fields_and_filter_must_both_hold(many: Any) -> None:
    found = [
        await names(many, phases=[pb.RUNNING, pb.PENDING]),
        await names(many, team="pricing", filter="name=b*"),
        await names(many, team="pricing", filter='team="my team"'),
    ]

    assert found == [["alpha", "beta", "beta_2", "gamma"], ["beta"], []]


async def test_pages_follow_each_other_without_gap_or_repeat(many: Any) -> None:
    seen, token = [], ""
    for _ in range(3):
        page = await many.daggers.ListDaggers(
            pb.ListDaggersRequest(page_size=2, page_token=token), timeout=10
        )
        seen.append([dagger.name for dagger in page.daggers])
        token = page.next_page_token
        if not token:
            break

    assert seen == [["alpha", "beta"], ["beta_2", "gamma"]]


async def test_a_page_of_large_daggers_ends_before_it_is_too_large_for_a_client(
    ready: Any, samples: Any
) -> None:
    spec = samples.spec()
    spec.sql += " " * 250_000
    for number in range(15):
        await ready.create(name=f"large_{number:02}", spec=spec)

    first = await ready.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=10)
    rest = await ready.daggers.ListDaggers(
        pb.ListDaggersRequest(page_token=first.next_page_token), timeout=10
    )

    seen = [dagger.name for page in (first, rest) for dagger in page.daggers]
    assert (seen, rest.next_page_token) == ([f"large_{number:02}" for number in range(15)], "")


async def test_a_deleted_dagger_is_neither_listed_nor_found(many: Any, refusal: Any, samples: Any) -> None:
    from daggers.v1 import events_pb2

    from eventlog import Draft
    from eventlog.testing import START

    await many.daggers.DeleteDagger(pb.DeleteDaggerRequest(name="alpha"), timeout=10)
    claim = events_pb2.SchedulerStarted(scheduler_id="s", host="h")
    await many.log.append(Draft("claim", "/scheduler/s", "s", START, claim))
    epoch = await many.log.end()
    gone = events_pb2.Deleted(meta=events_pb2.FactMeta(epoch=epoch, name="alpha"))
    await many.log.append(Draft("gone", "/scheduler/s", "alpha", START, gone))
    end = await many.log.end()

    error = await refusal(
        many.daggers.GetDagger(pb.GetDaggerRequest(name="alpha", min_sequence=end), timeout=10)
    )

    assert (error.code, await names(many, min_sequence=end)) == (
        grpc.StatusCode.NOT_FOUND,
        ["beta", "beta_2", "gamma"],
    )


async def test_all_that_is_wrong_with_a_list_is_said_at_once(many: Any, refusal: Any) -> None:
    request = pb.ListDaggersRequest(
        page_size=-1,
        page_token="not a token",
        filter="phase=SLEEPING AND owner=me",
        min_sequence=-1,
        phases=[pb.RUNNING, 0, 77],
    )

    error = await refusal(many.daggers.ListDaggers(request, timeout=10))

    assert [violation.field for violation in error.violations] == [
        "filter",
        "filter",
        "phases[1]",
        "phases[2]",
        "page_token",
        "page_size",
        "min_sequence",
    ]


@pytest.mark.parametrize("other", [{"filter": "team=pricing"}, {"team": "pricing"}, {"phases": [pb.PENDING]}])
async def test_a_page_token_of_another_filter_is_refused(
    many: Any, refusal: Any, other: dict[str, Any]
) -> None:
    page = await many.daggers.ListDaggers(pb.ListDaggersRequest(page_size=1), timeout=10)
    request = pb.ListDaggersRequest(page_token=page.next_page_token, **other)

    error = await refusal(many.daggers.ListDaggers(request, timeout=10))

    assert [violation.reason for violation in error.violations] == ["INVALID_TOKEN"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("phase", 1),
        ("=x", 1),
        ("team=a OR team=b", 8),
        ("team=a AND", 11),
        ("team=a AND ", 11),
        ('team="a', 1),
    ],
)
def test_a_filter_that_is_not_understood_says_where(text: str, place: int) -> None:
    _, violations = filters.parse("filter", text)

    assert [f"character {place}:" in violation.description for violation in violations] == [True]


def test_a_filter_is_read_into_terms() -> None:
    terms, violations = filters.parse("filter", 'name=a* AND team="x y" AND phase=FAILED')

    assert (terms, violations) == (
        [Term("name", "a", True), Term("team", "x y", False), Term("phase", "FAILED", False)],
        [],
    )
