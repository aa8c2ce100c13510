"""A driver with alert rules that is killed: each firing and each end is observed once, and is a recount."""

from __future__ import annotations

from pathlib import Path

import pytest
from daggers.v1 import rules_pb2, spec_pb2
from google.protobuf import json_format
from services.runtime.tests.job_driver import bookings, log_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.observations import Turn, read_observations
from tests.integration.bookings import spread

from chassis.files import replace_text
from daggerspec import alertrules, rundir
from runtime.rules.past import FILE

pytestmark = [pytest.mark.integration, pytest.mark.long]
BUSY = rules_pb2.AlertRule(
    name="busy", when="num_of_bookings > 15", for_windows=2, key=["tag_city_id"],
    summary="city {tag_city_id}: {num_of_bookings}", severity=rules_pb2.RULE_SEVERITY_CRITICAL,
)  # fmt: skip
CALM = rules_pb2.AlertRule(name="calm", when="num_of_bookings < 3", key=["tag_city_id"])


def turns(kafka: str, dagger: Dagger) -> list[Turn]:
    return sorted(turn for turn, _ in read_observations(kafka, dagger.name).values())


def test_a_rule_fires_and_is_over_once_over_a_kill_and_an_edit(tmp_path: Path, kafka: str) -> None:
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(5)], alerts=[BUSY], idle_timeout_s=0)
    minute = 60
    many = spread(range(2 * minute), cities=1)
    few = [(second, 1) for second in (130, 190)]

    with dagger.launch() as first:
        dagger.write(*bookings(many), *bookings(few[:1]))
        first.until_true(lambda: turns(kafka, dagger) != [])
        beat = first.until(lambda beat: beat.rules_revision == 1)
        first.kill()
    fired = read_observations(kafka, dagger.name)
    with dagger.launch() as second:
        dagger.write(*bookings(few[1:]))
        second.until_true(lambda: len(turns(kafka, dagger)) == 2)
        rules = rules_pb2.AlertRules(revision=2, rules=[CALM])
        replace_text(second.run_dir / rundir.RULES, json_format.MessageToJson(rules))
        later = second.until(lambda beat: beat.rules_revision == 2)
        dagger.write(*bookings([(250, 1), (310, 1)]))
        second.until_true(lambda: len(turns(kafka, dagger)) >= 3)
        second.stop()

    assert turns(kafka, dagger) == [
        ("busy", "FIRED", "1", "02:00"),
        ("busy", "RESOLVED", "1", "03:00"),
        ("calm", "FIRED", "1", "04:00"),
    ]
    [(_, first_fired)] = fired.values()
    assert (first_fired.summary, first_fired.value) == ("city 1: 60", 60.0)
    assert beat.rules_digest == alertrules.digest_of_all([BUSY])
    assert later.rules_digest == alertrules.digest_of_all([CALM])


def test_a_number_of_an_earlier_window_is_there_behind_a_kill(tmp_path: Path, kafka: str) -> None:
    jump = rules_pb2.AlertRule(
        name="jump", when="num_of_bookings > 2 * before('1m', num_of_bookings)", key=["tag_city_id"]
    )
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(5)], alerts=[jump], idle_timeout_s=0)

    with dagger.launch() as first:
        dagger.write(*bookings([*((second, 1) for second in range(0, 60, 6)), (70, 1)]))
        first.until_true(lambda: any(Path(dagger.checkpoints).rglob(f"{FILE}*")))
        first.kill()
    with dagger.launch() as second:
        dagger.write(*bookings([*((second, 1) for second in range(71, 100)), (130, 1)]))
        second.until_true(lambda: turns(kafka, dagger) != [])
        dagger.write(*bookings([(190, 1)]))
        second.until_true(lambda: len(turns(kafka, dagger)) == 2)
        second.stop()

    assert turns(kafka, dagger) == [("jump", "FIRED", "1", "02:00"), ("jump", "RESOLVED", "1", "03:00")]
    [fired] = [one for turn, one in read_observations(kafka, dagger.name).values() if turn[1] == "FIRED"]
    assert dict(fired.values) == {"num_of_bookings": "30", "before('1m', num_of_bookings)": "10"}


def test_limits_of_a_table_are_taken_with_rules_and_stay_while_it_is_away(tmp_path: Path, kafka: str) -> None:
    file = tmp_path / "limits.csv"
    table = spec_pb2.ReferenceTable(
        name="city_limits", format=spec_pb2.ReferenceTable.FORMAT_CSV, location=str(file)
    )
    own = rules_pb2.AlertRule(
        name="own", when="num_of_bookings > most", key=["tag_city_id"],
        limits=rules_pb2.RuleLimits(reference="city_limits", key=["tag_city_id"], columns=["most"]),
        summary="{num_of_bookings} of {most}",
    )  # fmt: skip
    dagger = Dagger(tmp_path, kafka, sinks=[log_sink(5)], idle_timeout_s=0)

    file.write_text("city,most\n1,5\n")
    with dagger.launch() as first:
        rules = rules_pb2.AlertRules(revision=2, rules=[own], references=[table.SerializeToString()])
        replace_text(first.run_dir / rundir.RULES, json_format.MessageToJson(rules))
        first.until(lambda beat: beat.rules_revision == 2)
        dagger.write(*bookings([*((second, city) for second in range(10) for city in (1, 2)), (70, 1)]))
        first.until_true(lambda: turns(kafka, dagger) != [])
        first.kill()
    file.unlink()
    dagger.alerts, dagger.references = [own], [table]
    with dagger.launch() as second:
        dagger.write(
            *bookings([*((second, city) for second in range(130, 140) for city in (1, 2)), (190, 1)])
        )
        second.until_true(lambda: len(turns(kafka, dagger)) == 3)
        stale = second.until(lambda beat: any("REFERENCE_STALE" in one for one in beat.warnings))
        second.stop()

    assert turns(kafka, dagger) == [
        ("own", "FIRED", "1", "01:00"), ("own", "FIRED", "1", "03:00"), ("own", "RESOLVED", "1", "02:00"),
    ]  # fmt: skip
    observed = [one for turn, one in read_observations(kafka, dagger.name).values() if turn[1] == "FIRED"]
    assert [(one.summary, one.value, one.limit) for one in observed] == [("10 of 5", 10.0, 5.0)] * 2
    assert any(one.startswith("REFERENCE_STALE city_limits: ") for one in stale.warnings)
