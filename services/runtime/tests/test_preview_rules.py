"""Rules over a range say what they would have said live: the same firings and ends, of the same windows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import rules_pb2, spec_pb2, telemetry_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.job_driver import log_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.observations import read_observations
from services.runtime.tests.range_previews import RangePreview, everything, rule_turns
from services.runtime.tests.streams import source_session
from tests.integration.bookings import booking, recount

pytestmark = pytest.mark.integration
RULES, MINUTES, CITIES = 24, 24, (1, 2, 3, 4)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with source_session() as session:
        yield session


def draw_rule(number: int, chance: random.Random) -> rules_pb2.AlertRule:
    """Draw a rule on the counts of cities: with a limit, a silence, or a comparison with the past."""
    name, key = f"rule{number}", chance.choice((["tag_city_id"], []))
    kind = chance.choice(("limit", "limit", "limit", "absent", "before", "table"))
    if kind == "absent":
        return rules_pb2.AlertRule(name=name, key=key, absent=timedelta(minutes=chance.randint(1, 5)))
    limit = str(chance.randint(0, 9))
    if kind == "before":
        limit = f"{chance.choice((0.5, 1, 1.5))} * before('{chance.randint(1, 9)}m', num_of_bookings)"
    if kind == "table":
        limit = f"{chance.choice((0.5, 1))} * most"
    fields: dict[str, Any] = {"when": f"num_of_bookings {chance.choice(('>', '<', '>=', '<='))} {limit}"}
    if kind == "table":
        fields["limits"] = rules_pb2.RuleLimits(reference="own", key=["tag_city_id"], columns=["most"])
    match chance.randrange(4):
        case 0:
            fields["for_windows"] = chance.randint(1, 3)
        case 1:
            fields["for_time"] = timedelta(minutes=chance.randint(1, 3))
    match chance.randrange(3):
        case 0 if kind == "limit":
            fields["clear"] = chance.choice((0.2, 0.5, 1.0))
        case 1:
            fields["resolve_when"] = f"num_of_bookings = {chance.randint(0, 9)}"
    return rules_pb2.AlertRule(name=name, key=key, **fields)


def write_limits(folder: Path, chance: random.Random) -> spec_pb2.ReferenceTable:
    """Write a table of a limit for each city but one."""
    file = folder / "own.csv"
    lines = (f"{city},{chance.randint(1, 9)}" for city in CITIES[1:])
    file.write_text("\n".join(("city,most", *lines)))
    return spec_pb2.ReferenceTable(name="own", format=spec_pb2.ReferenceTable.FORMAT_CSV, location=str(file))


def draw_events(chance: random.Random) -> list[tuple[int, int]]:
    """Draw seconds and cities of records: cities fall silent now and then, and are busier now and then."""
    events = []
    for city in CITIES:
        rate = 3
        for minute in range(MINUTES):
            if chance.random() < 0.3:
                rate = chance.choice((0, 0, 1, 5, 10))
            events += [(60 * minute + chance.randrange(60), city) for _ in range(rate)]
    return sorted(events)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 7))])
def test_generated_rules_say_of_a_range_what_they_said_live_over_a_kill(
    session: SparkSession, kafka: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    rules = [draw_rule(number, chance) for number in range(RULES)]
    events = draw_events(chance)
    kill = chance.randint(MINUTES // 3, 2 * MINUTES // 3) * 60
    table = write_limits(tmp_path, chance)
    dagger = Dagger(
        tmp_path, kafka, sinks=[log_sink(1_000)], alerts=rules, references=[table], idle_timeout_s=0
    )
    first = [event for event in events if event[0] < kill]
    dagger.write(*(booking(second, city_id=city) for second, city in first))
    with dagger.launch() as live:
        live.until(lambda beat: beat.watermark.seconds % 3600 >= first[-1][0] - 15)
        live.kill()
    dagger.write(*(booking(second, city_id=city) for second, city in events[len(first) :]))
    dagger.write(booking(60 * MINUTES + 40))
    with dagger.launch() as live:
        live.until(lambda beat: beat.watermark.seconds % 3600 >= 60 * MINUTES + 30)
        live.stop()
    observed = [one for _, one in read_observations(kafka, dagger.name).values()]

    found = RangePreview(session, dagger, everything()).done.rules

    previewed = [one for rule in found.rules for one in rule.observed]
    assert rule_turns(previewed) == rule_turns(observed)
    assert len({one.rule for one in observed}) > RULES // 2


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 5))])
def test_rules_on_what_is_usual_say_of_a_range_what_they_said_live_over_a_kill(
    session: SparkSession, kafka: str, tmp_path: Path, seed: int
) -> None:
    chance, hour, noon = random.Random(seed), 3_600, 43_200
    rules = [
        rules_pb2.AlertRule(name=f"odd{number}", when=when, key=key, for_windows=chance.randint(1, 2))
        for key in (["tag_city_id"], [])
        for number, when in enumerate((
            f"outside(num_of_bookings, band => {chance.choice((1, 2, 3))})",
            f"outside(num_of_bookings, season => 'hour of day') OR num_of_bookings > {chance.randint(6, 9)}",
            "outside(num_of_bookings, band => 2) AND num_of_bookings > before('5m', num_of_bookings)",
            "NOT outside(num_of_bookings, band => 1)",
        ), 4 * len(key))
    ]  # fmt: skip
    counts = [
        [chance.choice((1, 2, 2, 3, 3, 8 if minute > 170 else 4)) for minute in range(300)] for _ in "ab"
    ]
    events = sorted(
        (60 * minute + chance.randrange(60), city)
        for city, of_city in enumerate(counts, 1)
        for minute, count in enumerate(of_city)
        for _ in range(count)
    )
    kill = chance.randint(3 * hour, 4 * hour)
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(1_000)], alerts=rules, idle_timeout_s=0)
    first = [event for event in events if event[0] < kill]
    dagger.write(*(booking(second, city_id=city) for second, city in first))

    def reaches(second: int) -> Callable[[telemetry_pb2.Heartbeat], bool]:
        return lambda beat: beat.watermark.seconds % 86_400 >= noon + second

    with dagger.launch() as live:
        live.until(reaches(first[-1][0] - 15))
        live.kill()
    dagger.write(*(booking(second, city_id=city) for second, city in events[len(first) :]))
    dagger.write(booking(5 * hour + 40))
    with dagger.launch() as live:
        live.until(reaches(5 * hour + 30))
        live.stop()
    observed = [one for _, one in read_observations(kafka, dagger.name).values()]

    found = RangePreview(session, dagger, everything()).done.rules

    previewed = [one for rule in found.rules for one in rule.observed]
    assert rule_turns(previewed) == rule_turns(observed)
    assert {"odd0", "odd2", "odd4"} <= {one.rule for one in observed}
    fired = [one for one in observed if one.rule == "odd4" and one.state == rules_pb2.RULE_STATE_FIRED]
    assert all({"median of num_of_bookings", "spread of num_of_bookings"} <= {*one.values} for one in fired)
    assert min(one.window.seconds % 86_400 - noon for one in fired) > 3 * hour


def test_rules_say_of_a_range_what_they_would_have_said_live(
    session: SparkSession, kafka: str, tmp_path: Path
) -> None:
    often = random.Random(7)
    events = [(second, often.choice((1, 1, 2, 3))) for second in range(600) if often.random() < 0.5]
    events += [(second, 4) for second in (*range(60, 120), *range(180, 360, 2))]
    rules = [
        rules_pb2.AlertRule(name="busy", when="num_of_bookings > 8", key=["tag_city_id"]),
        rules_pb2.AlertRule(
            name="long", when="num_of_bookings > 20", for_windows=2, clear=0.3, key=["tag_city_id"]
        ),
        rules_pb2.AlertRule(name="never", when="num_of_bookings > 1000"),
        rules_pb2.AlertRule(name="silent", absent=timedelta(minutes=1), key=["tag_city_id"]),
        rules_pb2.AlertRule(
            name="jump", when="num_of_bookings > 1.2 * before('2m', num_of_bookings)", key=["tag_city_id"]
        ),
    ]
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(100)], alerts=rules, idle_timeout_s=0)
    dagger.write(*(booking(second, city_id=city) for second, city in sorted(events)), booking(700))
    with dagger.launch() as live:
        live.until(lambda beat: beat.HasField("watermark") and beat.watermark.seconds % 3600 >= 690)
        live.stop()
    judged = [one for _, one in read_observations(kafka, dagger.name).values()]

    found = RangePreview(session, dagger, everything()).done.rules

    previewed = [one for rule in found.rules for one in rule.observed]
    assert [rule.rule for rule in found.rules] == ["busy", "long", "never", "silent", "jump"]
    assert rule_turns(previewed) == rule_turns(judged)
    assert {one.rule for one in judged} == {"busy", "long", "silent", "jump"}
    silences = [turn[1:4:2] for turn in rule_turns(judged) if turn[0] == "silent" and turn[2] == "4"]
    assert silences == [
        ("RULE_STATE_FIRED", "2026-01-01T12:03:00Z"),
        ("RULE_STATE_FIRED", "2026-01-01T12:07:00Z"),
        ("RULE_STATE_RESOLVED", "2026-01-01T12:04:00Z"),
    ]
    (window, _), most = min(recount(events).items(), key=lambda item: (-item[1], item[0]))
    never = found.rules[2]
    assert (never.nearest, never.limit, list(never.observed)) == (most, 1000, [])
    assert never.nearest_window.ToJsonString() == window
    assert found.until.ToJsonString() == "2026-01-01T12:11:39Z"
