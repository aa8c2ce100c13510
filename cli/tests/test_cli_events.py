"""`daggers events`: which of them are shown."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.commands.events import when
from cli.errors import MisusedError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "sequence", "instant"),
    [
        ("-1", -1, None),
        ("120", 120, None),
        ("30s", -1, NOON - timedelta(seconds=30)),
        ("10m", -1, NOON - timedelta(minutes=10)),
        ("1d", -1, NOON - timedelta(days=1)),
        ("2025-12-31T12:00:00.5Z", -1, NOON - timedelta(days=1) + timedelta(seconds=0.5)),
    ],
)
def test_since_is_a_duration_or_an_instant_or_a_sequence(
    since: str, sequence: int, instant: datetime | None
) -> None:
    assert when(since, NOON) == (sequence, instant)


@pytest.mark.parametrize("since", ["-2", "ten minutes", "10w", ""])
def test_since_of_another_form_is_refused(since: str) -> None:
    with pytest.raises(MisusedError, match="--since"):
        when(since, NOON)


def test_the_newest_events_are_shown_in_their_order_and_by_who_asked(shell: Any) -> None:
    shell.fill()

    def sequences(*words: str) -> list[int]:
        code, out, _ = shell("events", "-o", "json", *words)
        assert code == 0
        return [each["sequence"] for each in json.loads(out)]

    whole = sequences()

    assert sequences("--tail", "2") == whole[-2:]
    assert sequences("--tail", "0") == []
    assert sequences("--since", "10m") == whole
    assert sequences("--since", "0s") == []
    assert sequences("--actor", "nobody") == []
    assert sequences("--since", str(whole[0])) == whole[1:]


def test_a_list_without_an_event_says_so_beside_its_document(shell: Any) -> None:
    shell.fill()

    code, out, err = shell("events", "no-such-dagger")
    _, document, _ = shell("events", "no-such-dagger", "-o", "json")

    assert (code, out, err) == (0, "", "no event matches\n")
    assert json.loads(document) == []


def test_who_asked_is_the_actor_of_the_request(shell: Any) -> None:
    shell.fill()
    _, out, _ = shell("events", "-o", "json")
    actor = json.loads(out)[0]["data"]["meta"]["actor"]
    assert actor

    _, by, _ = shell("events", "-o", "json", "--actor", actor)

    assert len(json.loads(by)) == len(json.loads(out))
