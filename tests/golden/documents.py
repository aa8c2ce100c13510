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

from cli.output import plan_text, preview_text, querytest_text
from cli.output.json_views import archives, audit, clusters, findings, quarantine
from cli.output.json_views.answers import action, to_json
from daggerspec.exactjson import dumps

FILE = Path(__file__).with_name("documents.txt")
View = Callable[[Any], Any]
VIEWS: Final[Mapping[str, tuple[type[Message], View]]] = {
    "dagger": (gateway_pb2.Dagger, to_json),
    "dagger error": (events_pb2.DaggerError, to_json),
    "dagger warning": (gateway_pb2.HealthWarning, to_json),
    "revision": (gateway_pb2.Revision, to_json),
    "plan": (gateway_pb2.PlanDaggerResponse, lambda plan: plan_text.document("orders", plan)),
    "preview": (gateway_pb2.PreviewDaggerResponse, lambda step: list(preview_text.documents([step]))),
    "test of a query": (
        gateway_pb2.TestResult,
        lambda result: querytest_text.document("orders", result),
    ),
    "finding": (gateway_pb2.Finding, findings.finding),
    "column": (gateway_pb2.OutputColumn, findings.column),
    "event": (gateway_pb2.Event, to_json),
    "alert": (gateway_pb2.Alert, to_json),
    "silence": (gateway_pb2.ListedSilence, to_json),
    "new silence": (gateway_pb2.CreateSilenceResponse, to_json),
    "ended silence": (gateway_pb2.ExpireSilenceResponse, to_json),
    "acknowledged alerts": (gateway_pb2.AcknowledgeAlertsResponse, to_json),
    "applied routes": (gateway_pb2.ApplyRoutesResponse, to_json),
    "deleted routes": (gateway_pb2.DeleteRoutesResponse, to_json),
    "routes": (gateway_pb2.RoutesRevision, to_json),
    "explained route": (gateway_pb2.ExplainRouteResponse, to_json),
    "released alerts": (gateway_pb2.UnacknowledgeAlertsResponse, to_json),
    "audit record": (gateway_pb2.AuditRecord, audit.record_document),
    "cluster": (spec_pb2.Cluster, to_json),
    "cluster use": (gateway_pb2.ClusterUse, to_json),
    "stream": (spec_pb2.Stream, to_json),
    "stream description": (gateway_pb2.DescribeStreamResponse, to_json),
    "stream sample": (
        gateway_pb2.SampleStreamResponse,
        lambda sample: {"stream": "orders"} | to_json(sample),
    ),
    "topics": (gateway_pb2.DiscoverTopicsResponse, to_json),
    "reference": (spec_pb2.ReferenceTable, to_json),
    "secret": (spec_pb2.Secret, to_json),
    "sink": (spec_pb2.RegisteredSink, to_json),
    "sink step": (gateway_pb2.SinkStep, to_json),
    "archive": (gateway_pb2.DescribeArchiveResponse, to_json),
    "team": (access_pb2.Team, to_json),
    "team usage": (gateway_pb2.GetTeamUsageResponse, lambda usage: {"team": "pricing"} | to_json(usage)),
    "destination": (access_pb2.Destination, to_json),
    "conflict": (gateway_pb2.DestinationConflict, to_json),
    "sensitive conflict": (gateway_pb2.SensitiveConflict, to_json),
    "account": (access_pb2.ServiceAccount, to_json),
    "grant": (access_pb2.StreamGrant, to_json),
    "host": (gateway_pb2.Host, to_json),
    "dagger of a host": (gateway_pb2.HostedDagger, to_json),
    "whoami": (gateway_pb2.WhoAmIResponse, to_json),
    "quarantined": (telemetry_pb2.Quarantined, to_json),
    "quarantine status": (gateway_pb2.QuarantineStatus, quarantine.status_document),
    "quarantined record": (gateway_pb2.GetQuarantinedResponse, quarantine.content_document),
    "quarantine group": (gateway_pb2.QuarantineGroup, to_json),
    "replay": (gateway_pb2.ReplayQuarantinedResponse, to_json),
    "replay outcome": (gateway_pb2.GetReplayResponse, to_json),
}
APART: Final[Mapping[str, Sequence[str]]] = {
    "dagger": ("spec",),
    "revision": ("spec",),
    "sink": ("by_team",),
    "acknowledged alerts": ("alerts",),
    "released alerts": ("alerts",),
    "applied routes": ("rerouted",),
}
"""Fields whose documents are the dagger file's, or an alert's: their oneofs and enums stand there."""


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
        yield f"event: {name}", to_json(event)
    broken = gateway_pb2.Event()
    broken.data.Pack(events_pb2.DaggerRequested())
    broken.data.value = b"\xff"
    yield "event: not decodable", to_json(broken)


def _exceptions() -> Iterator[tuple[str, Any]]:
    """What descriptors do not tell."""
    yield "cluster use: not known", clusters.use_document(None)
    yield (
        "audit record: of a newer gateway",
        audit.record_document(gateway_pb2.AuditRecord(call={"kind": 999, "asked": "{cut"})),
    )
    cut = telemetry_pb2.Quarantined(decoded_prefix='{"cut')
    yield "quarantined: cut", to_json(cut)
    yield (
        "quarantined record: cut",
        quarantine.content_document(gateway_pb2.GetQuarantinedResponse(decoded="{cut")),
    )
    outcomes = gateway_pb2.GetReplayResponse(outcomes={"b": 1, "a": 2, "c": 3})
    yield "replay outcome: in order", to_json(outcomes)
    for number in gateway_pb2.ApplyDaggerResponse.Action.values():
        yield f"action: {number}", action(number)
    dagger = filled(gateway_pb2.Dagger)
    parquet = spec_pb2.Sink(parquet={"location": "s3://b"})
    for title, sink in {"registered": spec_pb2.Sink(registered="cold"), "parquet": parquet}.items():
        yield f"archive table: {title}", archives.archive_document(dagger, "cold", sink)
    yield "archive table: empty", archives.archive_document(gateway_pb2.Dagger(), "cold", spec_pb2.Sink())


def sections() -> dict[str, str]:
    """The JSON of each document as the command prints it."""
    return {name: f"{dumps(document, indent=2)}\n" for name, document in documents()}


def main() -> int:
    """Write the file."""
    write(FILE, sections())
    return 0


if __name__ == "__main__":
    sys.exit(main())
