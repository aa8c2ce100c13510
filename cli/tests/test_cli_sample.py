"""`daggers stream sample`, and what is said of topics that are not there, by a host behind a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cli.tests import cli_sample as sampling


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """Address of a host."""
    yield from sampling.served(sampling.Host())


gateway = sampling.gateway


@pytest.mark.parametrize("option", ["--last-records", "--last"])
def test_the_newest_records_are_shown_decoded_and_nothing_moves_the_cursor(shell: Any, option: str) -> None:
    shell.fill()
    code, out, err = shell("stream", "sample", "orders", option, "2")
    lines = out.splitlines()

    assert (code, lines[0].split()) == (0, ["RECORD", "WRITTEN", "KEY", "VALUE"])
    assert [line.split(maxsplit=3) for line in lines[1:]] == [
        ["orders/1@41", "-", "k\\xff", '{"city": "a\\u202eb", "n": 2.50}'],
        ["orders/0@7", "-", "-", "(it does not decode as shop.v1.Order; 1,234 bytes)"],
    ]
    assert "warning: cut" in err
    assert "2 partitions, 1,234.6 records a second in the last minute\n" in err


def test_the_document_has_values_with_their_digits_and_why_others_are_not_there(shell: Any) -> None:
    shell.fill()
    text = shell("stream", "sample", "orders", "-o", "json")[1]
    document = json.loads(text)

    assert '"n": 2.50' in text
    assert [(each["value"], each["problem"]) for each in document["records"]] == [
        ({"city": "a\u202eb", "n": 2.5}, None),
        (None, "it does not decode as shop.v1.Order"),
    ]
    assert (document["stream"], document["missing_topics"], document["cut"]) == ("orders", {}, "cut")
    assert (document["partitions"], document["records_per_second"]) == (2, 1234.56)


def test_a_stream_is_described_with_what_its_topics_are_now_where_that_is_asked(shell: Any) -> None:
    shell.fill()
    plain, told = (shell("stream", "describe", "orders", *more)[1] for more in ((), ("--topics",)))
    document = json.loads(shell("stream", "describe", "orders", "--topics", "-o", "json")[1])
    said = "now: 2 partitions, 1,234.6 records a second in the last minute"

    assert (said in plain, told.splitlines()[2]) == (False, said)
    assert (document["partitions"], document["records_per_second"]) == (2, 1234.56)


def test_topics_are_shown_with_what_they_hold_and_the_messages_that_fit(shell: Any) -> None:
    shell.fill()
    code, out, _ = shell("stream", "discover", "--cluster", "local")
    lines = [line.split() for line in out.splitlines()]

    assert (code, lines[0][:2]) == (0, ["TOPIC", "PARTITIONS"])
    assert lines[1] == ["orders", "2", "12,345", "1.5", "168h", "orders", "shop.v1.Order", "100%"]
    assert lines[2][:3] == ["shop.v1.Other", "75%:", "25%"]
    assert lines[3] == ["quiet", "1", "0", "0.0", "-", "-", "-", "no", "records"]


def test_where_no_registered_message_fits_it_says_what_to_do(shell: Any) -> None:
    shell.fill()
    code, out, said = shell("stream", "discover", "--cluster", "local", "--topic", "text")

    assert (code, out.splitlines()[1].split()[-2:]) == (0, ["none", "fits"])
    assert "no registered message fits: `daggers schema register FILE` registers yours" in said


def test_the_document_of_topics_has_examples_with_their_digits(shell: Any) -> None:
    shell.fill()
    text = shell("stream", "discover", "--cluster", "local", "-o", "json")[1]
    [orders, quiet] = json.loads(text)["topics"]

    assert '"n": 2.50' in text
    assert (orders["retention_s"], orders["streams"], quiet["fits"]) == (604_800, ["orders"], [])


def test_a_topic_that_is_not_there_is_a_warning_when_its_stream_is_registered_and_when_it_is_read(
    shell: Any, dagger_file: str
) -> None:
    shell.fill()
    carries = ("--cluster", "local", "--message", "shop.v1.Order", "--time-field", "event_time")
    words = ("stream", "register", "misspelt", "--topic", "ordrs", *carries)
    told, shown = shell(*words), json.loads(shell(*words, "-o", "json")[1])
    file = shell.file("d.yaml", dagger_file.replace("stream: orders", "stream: misspelt"))
    code, out, _ = shell("validate", file)
    sampled = shell("stream", "sample", "misspelt")

    said = "the Kafka of cluster local has no topic ordrs: did you mean orders?"
    assert (told[0], told[2]) == (0, f"warning: {said}\n")
    assert [(each["code"], each["severity"], each["suggestion"]) for each in shown["findings"]] == [
        ("TOPIC_MISSING", "warning", "orders")
    ]
    assert (code, said in out) == (0, True)
    assert "warning: there is no topic ordrs: did you mean orders?" in sampled[2]


def test_what_can_be_deleted_is_said_and_stays(shell: Any, dagger_file: str) -> None:
    shell.fill()
    shell("apply", shell.file("d.yaml", dagger_file))
    used = shell("stream", "delete", "orders", "--dry-run")
    dagger = shell("delete", "orders_by_city", "--dry-run")
    there = shell("get", "orders_by_city")
    both = shell("delete", "orders_by_city", "--dry-run", "--wait")

    assert (used[0], "is used by dagger orders_by_city" in used[2]) == (1, True)
    assert (dagger[:2], there[0], both[0]) == ((0, "orders_by_city can be deleted\n"), 0, 2)
