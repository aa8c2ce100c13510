"""Quotas of a team in its file, and what the team takes, by the command."""

import json
from typing import Any

QUOTAS = """\
kind: team
name: pricing
quotas:
  daggers: {soft: 1, hard: 2}
  memory: {hard: 64g}
"""


def test_quotas_of_a_file_are_shown_with_what_is_used_of_them(shell: Any, dagger_file: str) -> None:
    applied = shell("team", "apply", shell.file("pricing.yaml", QUOTAS))
    shell.fill()
    made = shell("apply", shell.file("orders.yaml", dagger_file))
    told = json.loads(shell("team", "get", "pricing", "-o", "json")[1])
    _, table, _ = shell("team", "usage", "pricing")
    _, wide, _ = shell("team", "usage", "pricing", "-o", "wide")
    usage = json.loads(shell("team", "usage", "pricing", "-o", "json")[1])

    assert (applied[0], made[0]) == (0, 0), (applied, made)
    assert told["quotas"] == {"daggers": {"soft": 1, "hard": 2}, "memory": {"hard": "65536m"}}
    assert [line.split() for line in table.splitlines()[:2]] == [
        ["QUOTA", "USED", "SOFT", "HARD"], ["daggers", "1", "1", "2"],
    ]  # fmt: skip
    assert "64.0 GiB" in table
    assert ("RESERVED" in wide, "RESERVED" in table, "orders_by_city" in table) == (True, False, True)
    assert usage["quotas"][0] == {"name": "daggers", "used": 1, "soft": 1, "hard": 2}
    assert (usage["daggers"][0]["name"], usage["daggers"][0]["age_s"]) == ("orders_by_city", None)


def test_quotas_that_are_none_are_told_with_their_place(shell: Any) -> None:
    text = "kind: team\nname: pricing\nquotas:\n  daggers: {hard: many}\n  memory: 5\n  cores: {hard: 1}\n"
    _, out, _ = shell("team", "apply", shell.file("team.yaml", text), "-o", "json")
    findings = json.loads(out)["error"]["findings"]

    assert {(finding["field"], finding["line"]) for finding in findings} == {
        ("quotas.daggers.hard", 4), ("quotas.memory", 5), ("quotas.cores", 6),
    }  # fmt: skip
