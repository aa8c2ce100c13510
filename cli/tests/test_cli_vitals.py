"""`daggers get` and `daggers list`: what a dagger does now, in lines that people read."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2, rules_pb2, telemetry_pb2, vitals_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from cli.commands import rule_list
from cli.output import vitals
from cli.output.json_views.answers import to_json
from cli.output.printer import align

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def before(**span: int) -> Timestamp:
    instant = Timestamp()
    instant.FromDatetime(NOON - timedelta(**span))
    return instant


def a_dagger(name: str = "completed_bookings_of_the_nort") -> gateway_pb2.Dagger:
    warning = vitals_pb2.HealthWarning(
        code="SINK_UNAVAILABLE",
        object="influx",
        message="influx: InfluxDB at http://db does not answer, for 2 min; its rows wait, nothing is lost",
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL,
        since=before(minutes=2),
        next="Repair the sink or its secret: the driver goes on by itself.",
    )
    late = vitals_pb2.HealthWarning(code="LATE_RECORDS", message="3 came late.", since=before(minutes=1))
    return gateway_pb2.Dagger(
        name=name,
        phase=gateway_pb2.BACKING_OFF,
        phase_time=before(hours=2, minutes=3),
        restarts=12,
        last_exit=gateway_pb2.DriverExit(
            generation=7,
            time=before(minutes=4, seconds=9),
            code=69,
            error=events_pb2.DaggerError(
                domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="GONE", detail="it is gone."
            ),
        ),
        vitals=vitals_pb2.Vitals(
            dagger=name,
            generation=8,
            heard_time=before(seconds=3),
            records_per_s=123_456.7,
            rows_per_s=0.25,
            lag=1_234_567,
            watermark=before(seconds=40),
            last_commit=before(seconds=5),
            records=10_000,
            rows=90,
            late_rows=12,
            recent_late_rows=2,
            late_windows=40,
            recent_late_windows=7,
            quarantined={"MALFORMED": 3},
            state_rows=1_000,
            memory_bytes=1_500 * 2**20,
            warnings=[warning, late],
        ),
    )


def test_a_list_fits_a_hundred_characters() -> None:
    lines = align([vitals.COLUMNS, vitals.row(a_dagger(), NOON, wide=False)])

    assert max(map(len, lines)) <= 100
    assert lines[1].split() == [
        a_dagger().name, "BACKING_OFF", "2", "h", "123.5k", "0.25", "1.2M", "SINK_UNAVAILABLE", "+1",
    ]  # fmt: skip


def test_a_wide_list_has_every_column_and_the_whole_name() -> None:
    row = dict(zip(vitals.WIDE, vitals.row(a_dagger(), NOON, wide=True), strict=True))

    assert (row["NAME"], row["WARNINGS"]) == (a_dagger().name, "SINK_UNAVAILABLE, LATE_RECORDS")
    assert (row["WATERMARK"], row["LATE"], row["QUARANTINED"]) == ("40 s", "12", "3")
    assert (row["COMMIT"], row["RESTARTS"]) == ("5 s", "12")
    assert (row["STATE"], row["MEMORY"]) == ("1,000", "1.5 GiB")


def test_what_is_not_known_is_a_dash() -> None:
    row = vitals.row(gateway_pb2.Dagger(name="x", phase=gateway_pb2.PENDING), NOON, wide=False)

    assert row == ("x", "PENDING", "-", "-", "-", "-", "-")


def test_get_says_ages_and_what_the_last_minutes_brought() -> None:
    facts = dict(vitals.facts(a_dagger(), NOON))

    assert facts["phase"] == "BACKING_OFF, for 2 h 3 min"
    assert facts["last exit"] == "4 min ago, code 69: EXTERNAL GONE: it is gone."
    assert (facts["last commit"], facts["watermark"]) == ("5 s ago", "40 s ago")
    assert (facts["late"], facts["quarantined"]) == (
        "12 rows, missing from 40 windows in all; 2 from 7 in 5 min",
        "3 MALFORMED",
    )
    assert (facts["lag"], facts["memory"]) == ("1,234,567 records, 37 s", "1.5 GiB")


def test_get_says_which_sink_has_the_late_records() -> None:
    dagger = a_dagger()
    dagger.spec.late.keep = "late_orders"

    late = dict(vitals.facts(dagger, NOON))["late"]

    assert late == "12 rows, missing from 40 windows in all; 2 from 7 in 5 min; kept by late_orders"

    dagger.spec.late.update.FromSeconds(600)
    late = dict(vitals.facts(dagger, NOON))["late"]
    assert late.endswith("; kept by late_orders; until 10m behind a window its row is written again")


def test_get_says_of_each_sink_how_fresh_its_rows_are_and_what_waits_for_it() -> None:
    dagger = a_dagger()
    fresh = dagger.vitals.freshness
    fresh["crm"].CopyFrom(telemetry_pb2.Freshness(rows=1_200, p50_ms=400, p95_ms=5_900, p99_ms=125_000))
    fresh["files"].waiting_since.CopyFrom(before(minutes=3))

    lines = [text for key, text in vitals.facts(dagger, NOON) if key == "freshness"]

    assert lines == [
        "crm: p50 0.4 s, p95 5.9 s, p99 2 min of 1,200 rows in an hour",
        "files: the oldest that waits is of 3 min ago",
    ]
    assert to_json(dagger)["vitals"]["freshness"]["files"] == {
        "rows": 0, "p50_ms": 0, "p95_ms": 0, "p99_ms": 0, "waiting_since": "2026-01-01T11:57:00Z",
    }  # fmt: skip


def test_get_says_of_each_sink_what_waits_in_its_log() -> None:
    dagger = a_dagger()
    away = telemetry_pb2.Spool(rows=1_200, bytes=2**20, since=before(minutes=3), error={"reason": "GONE"})
    dagger.vitals.spools["crm"].CopyFrom(away)
    dagger.vitals.spools["db"].CopyFrom(
        telemetry_pb2.Spool(rows=7, bytes=3 * 2**20, rows_per_second=30, since=before(minutes=3))
    )
    dagger.vitals.spools["files"].CopyFrom(telemetry_pb2.Spool(paused=True))

    lines = [text for key, text in vitals.facts(dagger, NOON) if key == "waiting"]

    assert lines == [
        "crm: 1,200 rows, 1 MiB, the oldest since 3 min ago; none is written; GONE",
        "db: 7 rows, 3 MiB, the oldest since 3 min ago; 30 rows/s are written",
        "files: 0 rows; paused",
    ]
    assert to_json(dagger)["vitals"]["spools"]["files"]["paused"] is True


@pytest.mark.parametrize(("spare", "started"), [(True, "by the warm spare"), (False, "cold")])
def test_get_says_how_the_driver_was_started(spare: bool, started: str) -> None:
    dagger = gateway_pb2.Dagger(name="x", driver=events_pb2.DriverHandle(pid=7, spare=spare))

    assert dict(vitals.facts(dagger, NOON))["started"] == started
    assert to_json(dagger)["driver"]["spare"] is spare
    assert "started" not in dict(vitals.facts(gateway_pb2.Dagger(name="x"), NOON))


def test_a_warning_says_whose_it_is_and_what_to_do() -> None:
    first, second = map(vitals.warning, a_dagger().vitals.warnings)

    assert first == (
        "EXTERNAL SINK_UNAVAILABLE: influx: InfluxDB at http://db does not answer, for 2 min; its rows wait,"
        " nothing is lost. Repair the sink or its secret: the driver goes on by itself."
    )
    assert second == "LATE_RECORDS: 3 came late."


def test_json_has_the_instants() -> None:
    shown = to_json(a_dagger())

    assert shown["phase_time"] == "2026-01-01T09:57:00Z"
    assert (shown["last_exit"]["time"], shown["last_exit"]["code"]) == ("2026-01-01T11:55:51Z", 69)
    assert (shown["vitals"]["last_commit"], shown["vitals"]["lag"]) == ("2026-01-01T11:59:55Z", 1_234_567)
    assert shown["vitals"]["warnings"][0]["since"] == "2026-01-01T11:58:00Z"
    assert json.dumps(shown)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (9.06, "9.1"),
        (12, "12"),
        (1_234, "1,234"),
        (12_345, "12.3k"),
        (4.5e6, "4.5M"),
    ],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert vitals.short(number) == text


def test_an_instant_ahead_is_in_a_while() -> None:
    assert vitals.ago(before(minutes=-4), NOON) == "in 4 min"


def test_a_dagger_names_its_rules_that_are_learning() -> None:
    dagger, until = a_dagger(), before(days=-7)
    dagger.vitals.learning_rules.add(rule="jump", until=until)
    dagger.vitals.learning_rules.add(rule="odd")

    assert [text for name, text in vitals.facts(dagger, NOON) if name == "rule"] == [
        "jump is learning: compares windows from 2026-01-08T12:00:00Z on",
        "odd is learning: there was no window yet",
    ]


# ---- The commands ------------------------------------------------------------------------------------------


@pytest.fixture
def filled(shell: Any, dagger_file: str) -> Any:
    """A shell whose gateway has the dagger orders_by_city."""
    shell.fill()
    assert shell("apply", "-f", shell.file("orders.yaml", dagger_file))[0] == 0
    return shell


def test_a_filter_that_matches_nothing_says_of_how_many(filled: Any) -> None:
    count = len(json.loads(filled("list", "-o", "json")[1]))

    assert filled("list", "--filter", "team=nobody") == (0, "", f"none of {count} matches\n")


def test_get_and_list_tell_a_dagger_that_nobody_launched(filled: Any) -> None:
    listed, got = filled("list")[1].splitlines(), filled("get", "orders_by_city")[1]

    assert listed[0].split() == list(vitals.COLUMNS)
    assert listed[1].split()[:2] == ["orders_by_city", "PENDING"]
    assert got.splitlines()[0].split()[:3] == ["phase", "PENDING,", "for"]
    assert "MEMORY" in filled("list", "-o", "wide")[1]


def test_a_name_that_is_not_there_comes_with_the_one_that_may_be_meant(filled: Any) -> None:
    code, _, err = filled("get", "order_by_city")

    assert (code, "there is no dagger order_by_city: did you mean orders_by_city?" in err) == (1, True)


RULES = """\
alerts:
  - {name: busy, when: orders > 8, for: 2 windows, key: [tag_city], severity: critical}
  - {name: silent, absent: 10m}
"""


def test_the_rules_of_a_dagger_are_listed_with_what_becomes_of_them(filled: Any, dagger_file: str) -> None:
    before_them = filled("alerts", "rules", "orders_by_city")
    applied, _, err = filled("apply", "-f", filled.file("ruled.yaml", dagger_file + RULES))
    assert applied == 0, err
    code, out, _ = filled("alerts", "rules", "orders_by_city")
    [busy, silent] = json.loads(filled("alerts", "rules", "orders_by_city", "-o", "json")[1])

    assert before_them == (0, "", "it has no rules\n")
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "RULE FIRES WHEN FOR SEVERITY NOW",
        "busy orders > 8 2 windows critical -",
        "silent no row for 10m - warning -",
    ]
    assert (busy["rule"], busy["firing"], busy["learning"]) == ("busy", [], False)
    assert silent["fires_when"] == "no row for 10m"


def test_a_rule_fires_by_its_keys_or_is_learning() -> None:
    rules = [rules_pb2.AlertRule(name=name, when="n > most") for name in ("busy", "odd", "calm")]
    rules[0].limits.reference = "own"
    fires = [gateway_pb2.Alert(rule="busy", key={"tag_city": city}) for city in ("oslo", "rome")]
    learning = {"odd": telemetry_pb2.LearningRule(rule="odd")}

    assert [(row[1], row[-1]) for row in rule_list.build_rows(rules, fires, learning)] == [
        ("n > most, limits of own", "fires: tag_city=oslo; tag_city=rome"),
        ("n > most", "learning: there was no window yet"),
        ("n > most", "-"),
    ]


def test_a_watched_list_is_for_people(filled: Any) -> None:
    assert filled("list", "--watch", "-o", "json")[0] == 2
