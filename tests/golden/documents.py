"""The JSON of the command, byte by byte; `python -m tests.golden.documents` writes it down anew.

Of each kind of answer: nothing filled, all of it, then each member of a oneof, each value of an enum alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from daggers.v1 import access_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from google.protobuf.message import Message
from tests.filled import alone, choices, filled
from tests.golden.sections import write

from cli.commands import revisions, whoami
from cli.output import plan_text, preview_text
from cli.output.json_views import (
    access,
    alerts,
    archives,
    audit,
    clusters,
    daggers,
    events,
    findings,
    quarantine,
    references,
    sinks,
    streams,
)
from daggerspec.exactjson import dumps

FILE = Path(__file__).with_name("documents.txt")
View = Callable[[Any], Any]
VIEWS: Final[Mapping[str, tuple[type[Message], View]]] = {
    "dagger": (gateway_pb2.Dagger, daggers.dagger),
    "dagger error": (events_pb2.DaggerError, daggers.error),
    "dagger warning": (gateway_pb2.HealthWarning, daggers.warning),
    "revision": (gateway_pb2.Revision, revisions._document),
    "plan": (gateway_pb2.PlanDaggerResponse, lambda plan: plan_text.document("orders", plan)),
    "preview": (gateway_pb2.PreviewDaggerResponse, lambda step: list(preview_text.documents([step]))),
    "finding": (gateway_pb2.Finding, findings.finding),
    "column": (gateway_pb2.OutputColumn, findings.column),
    "event": (gateway_pb2.Event, events.event),
    "alert": (gateway_pb2.Alert, alerts.alert),
    "audit record": (gateway_pb2.AuditRecord, audit.record),
    "cluster": (spec_pb2.Cluster, clusters.cluster),
    "cluster use": (gateway_pb2.ClusterUse, clusters.use),
    "stream": (spec_pb2.Stream, streams.stream),
    "stream description": (gateway_pb2.DescribeStreamResponse, streams.description),
    "stream sample": (gateway_pb2.SampleStreamResponse, lambda sample: streams.sample("orders", sample)),
    "topics": (gateway_pb2.DiscoverTopicsResponse, streams.discovery),
    "reference": (spec_pb2.ReferenceTable, references.reference),
    "secret": (spec_pb2.Secret, sinks.secret),
    "sink": (spec_pb2.RegisteredSink, sinks.sink),
    "sink step": (gateway_pb2.SinkStep, sinks.step),
    "archive": (gateway_pb2.DescribeArchiveResponse, archives.described),
    "team": (access_pb2.Team, access.team),
    "team usage": (gateway_pb2.GetTeamUsageResponse, lambda usage: access.usage("pricing", usage)),
    "destination": (access_pb2.Destination, access.destination),
    "conflict": (gateway_pb2.DestinationConflict, access.conflict),
    "sensitive conflict": (gateway_pb2.SensitiveConflict, access.sensitive_conflict),
    "account": (access_pb2.ServiceAccount, access.account),
    "grant": (access_pb2.StreamGrant, access.grant),
    "whoami": (gateway_pb2.WhoAmIResponse, whoami.document),
    "quarantined": (telemetry_pb2.Quarantined, quarantine.quarantined),
    "quarantine status": (gateway_pb2.QuarantineStatus, quarantine.status),
    "quarantined record": (gateway_pb2.GetQuarantinedResponse, quarantine.shown),
    "quarantine group": (gateway_pb2.QuarantineGroup, quarantine.group),
    "replay": (gateway_pb2.ReplayQuarantinedResponse, quarantine.replay_asked),
    "replay outcome": (gateway_pb2.GetReplayResponse, quarantine.replay_told),
}
APART: Final[Mapping[str, Sequence[str]]] = {"dagger": ("spec",), "revision": ("spec",), "sink": ("by_team",)}
"""Fields whose documents are the dagger file's: their oneofs are the file's tests' business."""


def documents() -> Iterator[tuple[str, Any]]:
    """Every document, with what it is of."""
    for name, (kind, view) in VIEWS.items():
        yield f"{name}: empty", view(kind())
        yield f"{name}: full", view(filled(kind))
        for path, value in choices(kind.DESCRIPTOR):
            if path[0] not in APART.get(name, ()):
                yield (
                    f"{name}: {'.'.join(path)}{f' = {value}' if value else ''}",
                    view(alone(kind, path, value)),
                )
    yield from _events()
    yield from _exceptions()


def _events() -> Iterator[tuple[str, Any]]:
    """Each event of the control topic."""
    for name in sorted(events_pb2.DESCRIPTOR.message_types_by_name):
        event = gateway_pb2.Event(type=name)
        event.data.Pack(filled(getattr(events_pb2, name)))
        yield f"event: {name}", events.event(event)
    broken = gateway_pb2.Event()
    broken.data.Pack(events_pb2.DaggerRequested())
    broken.data.value = b"\xff"
    yield "event: not decodable", events.event(broken)


def _exceptions() -> Iterator[tuple[str, Any]]:
    """What descriptors do not tell."""
    yield "cluster use: not known", clusters.use(None)
    yield (
        "audit record: of a newer gateway",
        audit.record(gateway_pb2.AuditRecord(call={"kind": 999, "asked": "{cut"})),
    )
    cut = telemetry_pb2.Quarantined(decoded_prefix='{"cut')
    yield "quarantined: cut", quarantine.quarantined(cut)
    yield "quarantined record: cut", quarantine.shown(gateway_pb2.GetQuarantinedResponse(decoded="{cut"))
    outcomes = gateway_pb2.GetReplayResponse(outcomes={"b": 1, "a": 2, "c": 3})
    yield "replay outcome: in order", quarantine.replay_told(outcomes)
    for action in gateway_pb2.ApplyDaggerResponse.Action.values():
        yield f"action: {action}", daggers.action(action)
    dagger = filled(gateway_pb2.Dagger)
    parquet = spec_pb2.Sink(parquet={"location": "s3://b"})
    for title, sink in {"registered": spec_pb2.Sink(registered="cold"), "parquet": parquet}.items():
        yield f"archive table: {title}", archives.archive(dagger, "cold", sink)
    yield "archive table: empty", archives.archive(gateway_pb2.Dagger(), "cold", spec_pb2.Sink())


def sections() -> dict[str, str]:
    """The JSON of each document as the command prints it."""
    return {name: f"{dumps(document, indent=2)}\n" for name, document in documents()}


def main() -> int:
    """Write the file."""
    write(FILE, sections())
    return 0


if __name__ == "__main__":
    sys.exit(main())
