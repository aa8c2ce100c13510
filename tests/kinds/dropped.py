"""Run in the copy by test_dropped_sink: what each member knows of the sink `dummy`, as one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.parity.corpus import SPEC
from tests.parity.parity import NAME, PLATFORM, fleet
from typer.testing import CliRunner

from api_gateway.validate import spec_check
from api_gateway.validate.query_checks import Checks
from cli.commands import rows
from daggerclient.daggerfile import parse, show
from daggerspec import reference
from daggerspec.defaults import fill_defaults
from eventlog.testing import given
from fleet.fold import resolve
from runtime.launch import planned

FILE = """
name: d
team: t
cluster: local
streams: [{stream: bookings}]
sql: SELECT 1
sinks: [{dummy: {place: /srv/rows}}]
"""


def main() -> None:
    folded = fleet()
    wrong = spec(place="nowhere")
    judged = asyncio.run(
        spec_check.validate("spec", NAME, wrong, folded, Checks(), now=datetime(2026, 7, 1, tzinfo=UTC))
    )
    good = spec()
    for record in given(events_pb2.DaggerRequested(name=NAME, spec=good), since=folded.sequence):
        folded.apply(record)
    launch = resolve.job(
        folded, folded.daggers[NAME], 7, platform=PLATFORM, checkpoint_root="/c", run_dir="/r"
    )
    [read] = parse.parse(FILE, "d.yaml")
    found = {
        "refused": [(violation.field, violation.reason) for violation in judged.violations],
        "default": MessageToDict(good.sinks[0]),
        "resolved": MessageToDict(launch.sinks[0].sink),
        "columns": len(planned.check_spec(launch).columns),
        "read": MessageToDict(read.spec.sinks[0]),
        "shown": show.to_document(read.spec)["sinks"],
        "help": "dummy" in CliRunner().invoke(rows.app, ["rows", "--help"]).output,
        "docs": "## dummy\n\nEach row is one line of a file." in reference.text(),
    }
    json.dump(found, sys.stdout)


def spec(**dummy: str) -> spec_pb2.DaggerSpec:
    return fill_defaults(NAME, ParseDict({**SPEC, "sinks": [{"dummy": dummy}]}, spec_pb2.DaggerSpec()))


if __name__ == "__main__":
    main()
