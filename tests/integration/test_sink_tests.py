"""Sinks that the host of the real stack tries: for `daggers sink test` and `daggers plan`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from conftest import Stack
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Reply
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.sink_tests import steps

pytestmark = pytest.mark.integration


def test_a_host_tries_a_registered_sink_and_those_of_a_file(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    registration = tmp_path / "sink.yaml"
    with httpserver.serving() as server:
        server.questions = Reply(405)
        crm = {"kind": "sink", "name": "tried-crm", "teams": ["pricing"], "http": {"url": server.url}}
        registration.write_text(yaml.safe_dump(crm))
        cli("sink", "apply", registration)
        reached = cli.try_("sink", "test", "tried-crm")
        sinks = [{"name": "crm", "http": {"url": server.url}}, {"log": {}}]
        _, file = Bookings(stack.kafka, cli).dagger(tmp_path, sinks=sinks)
        sent = cli.try_("sink", "test", "-f", file, "--send-one")
        server.questions = Reply(403)
        denied = cli.try_("sink", "test", "tried-crm")
        planned = cli.try_("plan", file)
        cli("sink", "delete", "tried-crm", "--yes")

    assert (reached.code, steps(reached)[-1]) == (0, ("tried-crm", "ask", "")), reached
    assert (denied.code, steps(denied)[-1]) == (1, ("tried-crm", "ask", "SINK_DENIED")), denied
    [crm_in_plan] = planned.json["sinks"]
    assert (crm_in_plan["field"], crm_in_plan["reason"]) == ("sinks[0]", "SINK_DENIED"), planned
    assert (planned.code, planned.json["sinks_untried"]) == (0, ""), planned
    rows = [each for each in steps(sent) if each[1] == "row"]
    assert (sent.code, rows) == (0, [("crm", "row", ""), ("log", "row", "")]), sent
    assert [each.json["num_of_bookings"] for each in server.received] == [0]
