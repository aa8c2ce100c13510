"""`daggers history`, `diff` and `rollback`: what a dagger was asked to be, and back to it."""

import json
from typing import Any

import pytest

NAME = "orders_by_city"


@pytest.fixture(scope="module")
def revised() -> list[str]:
    """Made once: the gateway of the module has the dagger from then on."""
    return []


@pytest.fixture
def shop(shell: Any, dagger_file: str, revised: list[str]) -> Any:
    """A shell whose gateway has a dagger of three versions, of which the second is a stop."""
    if not revised:
        shell.fill()
        other = f"{dagger_file}trigger: 5s\n".replace("COUNT(1) AS orders", "COUNT(1) AS placed")
        done = [
            shell("apply", shell.file("a.yaml", dagger_file), "--message", "first try"),
            shell("stop", NAME),
            shell("apply", shell.file("b.yaml", other), "-m", "slower, and a better name"),
        ]
        assert [code for code, _, _ in done] == [0, 0, 0], done
        revised.append(NAME)
    return shell


def test_history_says_who_what_and_why_newest_first(shop: Any) -> None:
    code, out, _ = shop("history", NAME)
    document = json.loads(shop("history", NAME, "-o", "json", "--limit", "2")[1])
    newest, oldest = (line.split() for line in out.splitlines()[1:3])

    assert (code, out.splitlines()[0].split()) == (0, ["VERSION", "TIME", "WHO", "WHAT", "WHY"])
    assert (newest[0], newest[2], oldest[0], oldest[-2:]) == ("3", "anonymous", "1", ["first", "try"])
    assert "sql; trigger: 1s -> 5s" in out
    assert "slower, and a better name" in out
    assert [each["version"] for each in document] == [3, 1]
    assert [each["field"] for each in document[0]["changes"]] == ["sql", "trigger"]


def test_diff_tells_fields_and_the_lines_of_the_query(shop: Any) -> None:
    code, out, _ = shop("diff", NAME, 2, 3)
    same = shop("diff", NAME, 1, 2)
    newest = json.loads(shop("diff", NAME, 1, "-o", "json")[1])

    assert code == 0
    assert out.splitlines()[:2] == ["--- sql, version 1", "+++ sql, version 3"]
    assert "-SELECT city AS tag_city, COUNT(1) AS orders," in out
    assert "+SELECT city AS tag_city, COUNT(1) AS placed," in out
    assert "trigger: 1s -> 5s" in out
    assert (same[1], same[2]) == ("", "version 1 and version 1 say the same\n")
    assert (newest["before"], newest["after"], len(newest["changes"])) == (1, 3, 2)


def test_a_rollback_is_a_new_revision_with_the_old_spec(shop: Any) -> None:
    code, out, err = shop("rollback", NAME, "--to", 1)
    history = json.loads(shop("history", NAME, "-o", "json")[1])
    again = shop("rollback", NAME, "--to", 3, "-m", "no, forward", "--yes")
    newest = json.loads(shop("history", NAME, "-o", "json")[1])[0]

    assert (code, out) == (0, f"{NAME} updated\n")
    assert "trigger: 5s -> 1s" in err
    assert (history[0]["spec"], history[0]["message"]) == (history[2]["spec"], "rollback to version 1")
    assert (again[0], newest["spec"], newest["message"]) == (0, history[1]["spec"], "no, forward")


def test_a_dagger_that_is_not_there_has_no_history(shop: Any) -> None:
    said = [
        shop(*words)
        for words in (("history", "nobody"), ("diff", "nobody", 1), ("rollback", "nobody", "--to", 1))
    ]

    assert [code for code, _, _ in said] == [1, 1, 1]
    assert all("nobody" in err for _, _, err in said)
