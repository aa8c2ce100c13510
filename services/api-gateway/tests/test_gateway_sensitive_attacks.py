"""Attacks on sensitive fields by who has no grant: by what chooses rows, and by what a dagger was before."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, gateway_pb2, spec_pb2
from tests.contracts.quarantine import set_aside
from tests.sensitiveworld import CLEAN, MADE, Caller, asked, fields, given, launched, rows, two_streams

from api_gateway.auth.masking import MASKED
from chassis.errors import ApiError

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
WINDOW = "TUMBLE(rowtime, INTERVAL '10' SECOND)"
END = "TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp"
CHOSEN = f"{CLEAN} WHERE city = 'Jakarta'"
ORACLES = {
    "a join with a stream of the same values": (
        "SELECT a.status AS first, 1 AS orders FROM `data_stream` a JOIN `others` b ON a.city = b.city AND"
        " b.rowtime BETWEEN a.rowtime - INTERVAL '1' MINUTE AND a.rowtime + INTERVAL '1' MINUTE",
        ["a.city"],
    ),
    "letters that are unfolded": (
        "SELECT c.l AS first, 1 AS orders FROM `data_stream` CROSS JOIN UNNEST(ARRAY['a', 'b']) AS c (l)"
        " WHERE SUBSTRING(city, 1, 1) = c.l AND CHAR_LENGTH(city) > 3",
        ["city", "city"],
    ),
    "an equality": (CHOSEN, ["city"]),
    "a pattern": (f"{CLEAN} WHERE city LIKE 'J%'", ["city"]),
    "an absence": (f"{CLEAN} WHERE city IS NULL", ["city"]),
    "HAVING": (
        f"SELECT COUNT(1) AS orders, {END} FROM `data_stream` GROUP BY {WINDOW} HAVING MAX(city) > 'J'",
        ["MAX(city)", "city"],
    ),
    "a FILTER": (
        f"SELECT COUNT(*) FILTER (WHERE city = 'J') AS orders, {END} FROM `data_stream` GROUP BY {WINDOW}",
        ["city"],
    ),
    "a group": (f"SELECT COUNT(1) AS orders, {END} FROM `data_stream` GROUP BY {WINDOW}, city", ["city"]),
    "a count": (f"SELECT COUNT(city) AS orders, {END} FROM `data_stream` GROUP BY {WINDOW}", ["city"]),
}


def places(sql: str, violations: Any) -> list[str]:
    return [sql[one.column - 1 : one.end_column - 1] for one in violations]


@pytest.mark.parametrize("attack", ORACLES)
async def test_no_query_of_an_oracle_is_previewed_or_written(
    harness: Any, samples: Any, refusal: Refused, attack: str
) -> None:
    sql, where = ORACLES[attack]
    spec = asked(samples, sql)
    async with two_streams(harness, samples) as (_, seeing, other):
        errors = [
            await refusal(other.ask("CreateDagger", name="mine", spec=spec)),
            await refusal(other.ask("PlanDagger", name="mine", spec=spec)),
            await refusal(other.steps("PreviewDagger", spec=spec)),
        ]
        found = (await other.ask("Validate", name="mine", spec=spec)).findings
        previewed = await seeing.steps("PreviewDagger", spec=spec)
        await seeing.ask("CreateDagger", name="theirs", spec=spec)

    for error in errors:
        assert {(one.field, one.reason) for one in error.violations} == {("spec.sql", "SENSITIVE_COLUMN")}
        assert places(sql, error.violations)[: len(where)] == where
    assert places(sql, errors[-1].violations) == where  # no column is written by a preview
    assert {finding.code for finding in found} == {"SENSITIVE_COLUMN"}
    assert places(sql, found)[: len(where)] == where
    assert previewed[-1].HasField("done")


async def test_no_rule_that_goes_by_a_sensitive_value_is_judged_for_who_has_no_grant(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """Refuse it: its firings would tell of values that the rows of the preview hide."""
    columns = f"MAX(city) AS first, COUNT(1) AS orders, {END}"
    spec = asked(samples, f"SELECT {columns} FROM `data_stream` GROUP BY {WINDOW}")
    spec.alerts.add(name="oracle", when="first > 'J'")
    async with two_streams(harness, samples) as (_, seeing, other):
        error = await refusal(other.steps("PreviewDagger", spec=spec))
        previewed = await seeing.steps("PreviewDagger", spec=spec)

    assert ("spec.alerts[0]", "SENSITIVE_COLUMN") in {(one.field, one.reason) for one in error.violations}
    assert previewed[-1].HasField("done")


async def test_what_is_only_observed_is_still_not_previewed(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """Masking holds while the gate observes, and a row that is chosen by a value shows it."""
    async with two_streams(harness, samples, enforce=False) as (_, _, other):
        await other.ask("CreateDagger", name="mine", spec=asked(samples, CHOSEN))
        await launched(other.client, "mine")
        error = await refusal(other.steps("PreviewDagger", spec=asked(samples, CHOSEN)))
        read = await refusal(rows(other, "mine"))

    assert [one.reason for one in error.violations] == ["SENSITIVE_COLUMN"]
    assert read.reason == "SENSITIVE_COLUMN"


@pytest.mark.parametrize("method", ["ReadRows", "WatchRows"])
async def test_rows_that_a_sensitive_field_has_chosen_are_not_shown(
    harness: Any, samples: Any, refusal: Refused, method: str
) -> None:
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, "theirs", asked(samples, CHOSEN))
        error = await refusal(other.steps(method, name="theirs"))
        shown = await seeing.steps(method, name="theirs")

    assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_COLUMN")
    assert "WHERE goes by city of stream bookings" in error.message
    assert len(shown) == 1


async def test_a_sink_chooses_no_rows_by_a_sensitive_column(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    spec = asked(samples, MADE)
    spec.sinks[0].when = "first = 'Jakarta'"
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, "theirs", spec)
        found = (await other.ask("Validate", name="mine", spec=spec)).findings
        read = await refusal(rows(other, "theirs"))

    assert [finding.field for finding in found] == ["spec.sinks[0].when", "spec.sql"]
    assert "rows of a sink are chosen by city" in read.message


async def test_points_that_a_sensitive_tag_tells_apart_are_not_shown(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """Of two rows with one tag a store keeps one: how many there are says which values are equal."""
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, "theirs", asked(samples, MADE.replace("AS first", "AS tag_city"), "points"))
        error = await refusal(rows(other, "theirs"))

    assert "column tag_city decides which rows of a sink are one" in error.message


# ---- What a dagger was before ------------------------------------------------------------------------------


async def test_an_edit_unmasks_no_row_that_is_there(harness: Any, samples: Any, refusal: Refused) -> None:
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, "counts", asked(samples, MADE, "place"))
        before = await rows(other, "counts")
        await given(seeing, "counts", asked(samples, CLEAN, "place", stream="plain"))
        after = await rows(other, "counts")
        await given(seeing, "counts", asked(samples, CLEAN, "elsewhere", stream="plain"))
        moved = await rows(other, "counts")
        await given(seeing, "counts", asked(samples, CHOSEN, "elsewhere"))
        await given(seeing, "counts", asked(samples, CLEAN, "elsewhere", stream="plain"))
        chosen = await refusal(rows(other, "counts"))

    assert fields(before)["first"] == fields(after)["first"] == MASKED
    assert "first" not in fields(moved)
    assert chosen.reason == "SENSITIVE_COLUMN"


async def test_rows_of_another_dagger_in_the_same_place_stay_masked(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with two_streams(harness, samples) as (root, seeing, other):
        await given(seeing, "theirs", asked(samples, MADE, "place"))
        await given(other, "mine", asked(samples, CLEAN, "place", stream="plain"))
        beside = await rows(other, "mine")
        await root.ask("DeleteDagger", name="theirs")
        later = await rows(other, "mine")

    assert fields(beside)["first"] == fields(later)["first"] == MASKED


async def test_an_edit_that_drops_a_sensitive_field_needs_the_grant(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    clean = asked(samples, CLEAN, stream="plain")
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, "theirs", asked(samples, MADE))
        errors = [
            await refusal(other.ask(method, name="theirs", spec=clean))
            for method in ("UpdateDagger", "ApplyDagger", "PlanDagger")
        ]
        found = (await other.ask("Validate", name="theirs", spec=clean)).findings
        await seeing.ask("UpdateDagger", name="theirs", spec=clean)
        await other.ask("UpdateDagger", name="theirs", spec=asked(samples, f"{CLEAN} ", stream="plain"))

    for error in errors:
        assert [(one.reason, one.field) for one in error.violations] == [("SENSITIVE_COLUMN", "spec.sql")]
        assert "the edit no longer reads city of stream bookings" in error.violations[0].message
    assert [finding.code for finding in found] == ["SENSITIVE_COLUMN"]


async def test_what_was_set_aside_is_masked_by_what_its_launch_read(harness: Any, samples: Any) -> None:
    async with two_streams(harness, samples) as (_, seeing, other):
        fleet = other.client.gateway.fold.fleet
        await given(seeing, "theirs", asked(samples, MADE))
        first = fleet.daggers["theirs"].generation
        await given(seeing, "theirs", asked(samples, CLEAN, stream="plain"))
        second = fleet.daggers["theirs"].generation
        for number, generation in enumerate((first, second)):
            record = set_aside("theirs", number, generation=generation, value=b"J", detail="of J")
            other.client.quarantined.place(0, *record, time_ms=round(time.time() * 1_000))
        shown = {
            who: {
                one.generation: (one.value, one.detail)
                for one in (await who.ask("ListQuarantined", dagger="theirs")).records
            }
            for who in (seeing, other)
        }

    assert shown[seeing] == {first: (b"J", "of J"), second: (b"J", "of J")}
    assert shown[other] == {first: (b"", MASKED), second: (b"J", "of J")}


async def test_a_stream_that_is_gone_unmasks_nothing(harness: Any, samples: Any, refusal: Refused) -> None:
    async with two_streams(harness, samples) as (root, seeing, other):
        await given(root, "counts", asked(samples, CLEAN, stream="plain"))
        await given(seeing, "theirs", asked(samples, MADE, "place"))
        generation = other.client.gateway.fold.fleet.daggers["theirs"].generation
        await given(seeing, "theirs", asked(samples, CLEAN, "place", stream="plain"))
        record = set_aside("theirs", 1, generation=generation, value=b"J")
        other.client.quarantined.place(0, *record, time_ms=round(time.time() * 1_000))
        await root.ask("DeleteStream", name="bookings")
        listed = (await other.ask("ListQuarantined", dagger="theirs")).records
        error = await refusal(rows(other, "theirs"))
        shown = await seeing.steps("ReadRows", name="theirs")

    assert [one.value for one in listed] == [b""]
    assert error.reason == "SENSITIVE_COLUMN"
    assert len(shown) == 1


async def test_a_place_is_released_by_who_sees_what_is_there(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    place = "influx://127.0.0.1:8086/daggers/place"
    async with two_streams(harness, samples) as (root, seeing, other):
        made = await root.ask(
            "CreateServiceAccount", name="owning-bot", team="pricing", role=access_pb2.ROLE_OWNER
        )
        owner = Caller(other.client, made.token)
        await given(seeing, "theirs", asked(samples, MADE, "place"))
        await given(seeing, "theirs", asked(samples, CLEAN, "elsewhere", stream="plain"))
        error = await refusal(owner.ask("ReleaseDestination", name=place))
        await root.ask("ReleaseDestination", name=place)
        await given(other, "mine", asked(samples, CLEAN, "place", stream="plain"))
        anew = await rows(other, "mine")

    assert (error.reason, "first" in error.message) == ("SENSITIVE_COLUMN", True)
    assert "first" not in fields(anew)


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_sink_gets_another_address_by_who_sees_what_is_written_there(
    harness: Any, samples: Any, refusal: Refused, stopped: bool
) -> None:
    """A dagger's next launch would write in clear to whatever the owner of the sink names."""
    warehouse = spec_pb2.Sink(influx={"address": {"url": "http://127.0.0.1:8086", "bucket": "rows"}})
    elsewhere = spec_pb2.Sink(influx={"address": {"url": "http://127.0.0.1:8087", "bucket": "rows"}})
    sink = spec_pb2.RegisteredSink(name="warehouse", sink=warehouse, teams=["pricing"])
    moved = spec_pb2.RegisteredSink(name="warehouse", sink=elsewhere, teams=["pricing"])
    slower = spec_pb2.RegisteredSink(
        name="warehouse", sink=warehouse, teams=["pricing"], limit={"rows_per_second": 5}
    )
    spec = asked(samples, MADE)
    del spec.sinks[:]
    spec.sinks.add(registered="warehouse", influx={"measurement": "theirs"})
    async with two_streams(harness, samples, enforce=False) as (root, seeing, other):
        made = await root.ask(
            "CreateServiceAccount", name="owning-bot", team="pricing", role=access_pb2.ROLE_OWNER
        )
        owner = Caller(other.client, made.token)
        await owner.ask("RegisterSink", sink=sink)
        await owner.ask("RegisterSink", sink=moved)  # nobody writes there yet
        await owner.ask("RegisterSink", sink=sink, request_id="back")
        await given(seeing, "theirs", spec)
        if stopped:
            await seeing.ask("StopDagger", name="theirs")
        error = await refusal(owner.ask("RegisterSink", sink=moved))
        checked = await refusal(owner.ask("RegisterSink", sink=moved, validate_only=True))
        again = await owner.ask("RegisterSink", sink=sink, request_id="back")
        limited = await owner.ask("RegisterSink", sink=slower)
        by_root = await root.ask("RegisterSink", sink=moved)

    assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_COLUMN")
    assert "dagger theirs writes to sink warehouse" in error.message
    assert "first" in error.message
    assert checked.reason == "SENSITIVE_COLUMN"
    assert [one.version for one in (again, limited, by_root)] == [3, 4, 5]


# ---- What is there already ---------------------------------------------------------------------------------


async def test_daggers_that_would_be_refused_run_on_and_are_listed(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with two_streams(harness, samples, enforce=False) as (_, seeing, other):
        await seeing.ask("CreateDagger", name="theirs", spec=asked(samples, CHOSEN))
        await other.ask("CreateDagger", name="mine", spec=asked(samples, CHOSEN))
        await other.ask("CreateDagger", name="clean", spec=asked(samples, CLEAN))
        listed = (await other.ask("ListDestinationConflicts", team="pricing")).sensitive
        others = (await other.ask("ListDestinationConflicts", team="delivery")).sensitive

    assert [(one.dagger, one.updater, one.stream, one.path) for one in listed] == [
        ("mine", "account:other-bot", "bookings", "city")
    ]
    assert [(one.team, one.field, one.line, CHOSEN[one.column - 1 :][:4]) for one in listed] == [
        ("pricing", "spec.sql", 1, "city")
    ]
    assert list(others) == []
