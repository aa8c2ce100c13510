"""Routes as they are written in YAML: what is read, written back, and named with its place."""

from __future__ import annotations

import pytest
import yaml
from daggers.v1 import alerts_pb2

from daggerclient import InvalidFileError
from daggerclient.routesdocument import to_document
from daggerclient.routesfile import parse

TEXT = """\
kind: routes
name: pricing
receivers: [slack]
group_by: []
group_wait: 30s
group_interval: 5m
repeat_interval: off
routes:
  - match: [severity=critical]
    receivers: [pagerduty, slack]
    escalation: {after: 15m, receivers: [email]}
    continue: true
  - match: ["rule=api_*", key_tag_api=pay]
    windows: [mon-fri 09:00-18:00 Europe/Berlin]
    repeat_interval: 4h
    routes:
      - {match: [severity=warning], windows: [], escalation: off, group_by: [dagger]}
"""


def test_a_file_is_read_and_written_back() -> None:
    file = parse(TEXT, "routes.yaml")
    first, second = file.routes.routes

    assert (file.team, list(file.routes.receivers)) == ("pricing", ["slack"])
    assert (file.routes.HasField("group_by"), list(file.routes.group_by.names)) == (True, [])
    assert (file.routes.HasField("repeat_interval"), file.routes.repeat_interval.seconds) == (True, 0)
    assert (first.continues, first.escalation.after.seconds, first.HasField("windows")) == (True, 900, False)
    assert (second.repeat_interval.seconds, second.routes[0].HasField("windows")) == (14_400, True)
    assert file.places["routes[1].match[0]"] == (13, 13)
    written = yaml.safe_dump(to_document(file.team, file.routes), sort_keys=False)
    assert parse(written, "again.yaml").routes == file.routes


def test_what_is_not_said_is_not_there() -> None:
    assert parse("kind: routes\nname: pricing\n", "r").routes == alerts_pb2.AlertRoute()


def test_all_that_is_wrong_is_said_with_its_place() -> None:
    wrong = """\
kind: routes
receivers: slack
group_wait: soon
match: [severity=critical]
routes:
  - {matches: [a=b], continue: perhaps}
  - {escalation: {after: 0s}}
"""
    with pytest.raises(InvalidFileError) as caught:
        parse(wrong, "r.yaml")

    assert {(each["field"], each["code"]) for each in caught.value.findings} == {
        ("name", "MISSING_KEY"),
        ("receivers", "WRONG_TYPE"),
        ("group_wait", "BAD_DURATION"),
        ("match", "UNKNOWN_KEY"),
        ("routes[0].matches", "UNKNOWN_KEY"),
        ("routes[0].continue", "WRONG_TYPE"),
        ("routes[1].escalation.receivers", "MISSING_KEY"),
        ("routes[1].escalation.after", "BAD_DURATION"),
    }
    assert all(each["line"] for each in caught.value.findings)
