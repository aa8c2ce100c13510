"""Limits of conditions in dagger and team files: both ways agree, and what is wrong has its place."""

from __future__ import annotations

import pytest

from daggerclient import InvalidFileError, teamfile
from daggerclient.daggerfile.parse import parse
from daggerclient.daggerfile.show import to_document

FILE = """
name: some
team: crm
cluster: local
streams: [{stream: bookings}]
sql: SELECT 1
sinks: [log]
conditions:
"""
SAID = {
    "late_rows": {"limit": "5 %", "clear": "2.5 %", "after_start": "15m"},
    "no_input": "off",
    "no_progress": {"limit": "600s", "hold": "1m"},
    "restart_loop": {"limit": "5"},
    "failed": "on",
}
WRITTEN = """\
  late_rows: {limit: 5 %, clear: 2.5 %, after_start: 15m}
  no_input: off
  no_progress: {limit: 10m, hold: 1m}
  restart_loop: {limit: 5}
  failed: on
"""


def test_what_a_dagger_says_of_conditions_is_read_and_shown_the_same() -> None:
    [dagger] = parse(FILE + WRITTEN, "d.yaml")
    conditions = dagger.spec.conditions

    assert (conditions["late_rows"].limit, conditions["late_rows"].clear) == (0.05, 0.025)
    assert (conditions["no_progress"].limit, conditions["no_progress"].hold.seconds) == (600, 60)
    assert (conditions["no_input"].off, conditions["failed"].off) == (True, False)
    assert to_document(dagger.spec)["conditions"] == SAID


def test_a_team_says_the_same() -> None:
    team = teamfile.parse(f"kind: team\nname: crm\nconditions:\n{WRITTEN}", "team.yaml")

    assert teamfile.to_document(team)["conditions"] == SAID


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("no_progres: off", "UNKNOWN_KEY"),
        ("no_progress: never", "UNKNOWN_VALUE"),
        ("no_progress: {limit: some}", "BAD_DURATION"),
        ("late_rows: {limit: 5}", "BAD_SHARE"),
        ("restart_loop: {limit: many}", "WRONG_TYPE"),
        ("no_progress: {unit: s}", "UNKNOWN_KEY"),
    ],
)
def test_what_is_wrong_has_its_place(line: str, code: str) -> None:
    with pytest.raises(InvalidFileError) as refused:
        parse(f"{FILE}  {line}\n", "d.yaml")

    assert code in [finding["code"] for finding in refused.value.findings]
