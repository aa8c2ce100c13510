"""What a follower of each recipe of CONTRIBUTING.md writes: by recipe, the change of each file that it names.

A change is text to insert before or behind an anchor of the file, or a whole new file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.kinds import drop

Change = Callable[[str], str]


def whole(text: str) -> Change:
    """A new file."""
    return lambda _: text


def behind(anchor: str, text: str) -> Change:
    """Text behind the only place where the file says `anchor`."""

    def change(old: str) -> str:
        assert old.count(anchor) == 1, f"{old.count(anchor)} times: {anchor}"
        return old.replace(anchor, anchor + text)

    return change


def at_end(text: str) -> Change:
    """Text behind all else."""
    return lambda old: old + text


def both(*changes: Change) -> Change:
    """One after the other."""

    def change(old: str) -> str:
        for each in changes:
            old = each(old)
        return old

    return change


SPEC: Final = "proto/daggers/v1/spec.proto"
FIELD: Final[Mapping[str, Change]] = {
    SPEC: behind("  StateStore state = 10;\n", "  // From 0 to 9.\n  uint32 dummy = 999;\n"),
    "libs/spec/src/daggerspec/rules.py": behind(
        '    yield from fields.text(f"{path}.team", spec.team, limit=128)\n',
        "    if spec.dummy > 9:\n"
        '        yield Violation(f"{path}.dummy", "must not be > 9", "OUT_OF_RANGE")\n',
    ),
    "libs/spec/src/daggerspec/defaults.py": behind(
        "    spec.emit = spec.emit or spec_pb2.EMIT_FINAL\n", "    spec.dummy = spec.dummy or 1\n"
    ),
    "libs/client/src/daggerclient/daggerfile/table.py": behind(
        '    KeyRow("consumer_group", TEXT),\n',
        '    KeyRow("dummy", Form(lambda reader, node, path: reader.integer(node, path), int)),\n',
    ),
    "tests/parity/corpus.py": behind(
        '    Case("little memory", {"driverMemoryMib": 449}, one("driver_memory_mib", "OUT_OF_RANGE")),\n',
        '    Case("a great dummy", {"dummy": 10}, one("dummy", "OUT_OF_RANGE")),\n',
    ),
}
FACT: Final[Mapping[str, Change]] = {
    "proto/daggers/v1/events.proto": at_end(
        "\n// Somebody looked at the driver.\nmessage Dummied {\n  // Whose word, and which launch.\n"
        "  FactMeta meta = 1;\n}\n"
    ),
    "libs/fleet/src/fleet/fold/facts.py": behind(
        "FACTS: Final[Mapping[type[Message], FactRule]] = {\n",
        '    events_pb2.Dummied: FactRule(phases={RUNNING: RUNNING}, detail=lambda _: "looked at"),\n',
    ),
    "tests/golden/history.json": lambda old: (
        old.rstrip().removesuffix("]").rstrip()
        + ',\n{"id": "dummy", "type": "daggers.v1.Dummied", "subject": "counts", "time":'
        ' "2026-01-01T01:00:00+00:00", "message": {"meta": {"epoch": "21", "name": "counts", "generation":'
        ' "54"}}}\n]\n'
    ),
}
SINK: Final[Mapping[str, Change]] = {
    SPEC: both(
        behind("    LogSink log = 3;\n", "    // A file.\n    DummySink dummy = 999;\n"), at_end(drop.MESSAGE)
    ),
    "libs/spec/src/daggerspec/sinks/dummy.py": whole(drop.RULES),
    "services/runtime/src/runtime/sinks/dummy.py": whole(drop.WRITER),
    "services/runtime/tests/sink_cases/dummy.py": whole(drop.CASE),
}
RECEIVER: Final[Mapping[str, Change]] = {
    "services/health-monitor/src/health_monitor/receivers/dummy.py": whole(
        '''"""A dummy: whatever it is told, it takes."""

from datetime import timedelta

from pydantic import Field

from health_monitor.receivers import (
    HttpAnswer, HttpRequest, ReceiverSettings, SecretUrl, Success, classify_failure
)

IN_SETTINGS = False
PACE = timedelta(seconds=60)
TAKEN = HttpAnswer(204)


class Settings(ReceiverSettings):
    """One dummy."""

    url: SecretUrl = Field(examples=["https://dummy.example"])
    """Where it is."""


def request(notify, settings):
    return HttpRequest(settings.url.get_secret_value(), notify.alert.dagger.encode(), "POST", {})


def outcome(answer):
    return Success() if answer.status == 204 else classify_failure(answer, "")
'''
    ),
    "libs/spec/src/daggerspec/receivers/dummy.py": whole(
        '"""A dummy."""\n\nSECRETS = {"url": True}\nSETTINGS = {}\nACKNOWLEDGES = False\n'
        "TAKES_ANNOUNCEMENTS = True\n"
    ),
    "services/health-monitor/src/health_monitor/callbacks/dummy.py": whole(
        '''"""Callbacks of the dummy: it signs with its address, and says nothing of who acknowledges."""

SIGNED_BY = "url"


def find_receiver(request):
    return f"{request.team}/dummy"


def is_signed(request, secret, now):
    return request.headers.get("signature") == secret


def read(request, receiver, now):
    return None


def reply(callback, detail, *, is_acknowledged):
    return None
'''
    ),
}
FUNCTION: Final[Mapping[str, Change]] = {
    "libs/daggersql/src/daggersql/functions/own/dummy.py": whole(
        '''"""Dummy(text)."""

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.types import STRING

FUNCTION = Function(
    "Dummy",
    (Signature((Family.TEXT,), STRING, "reverse({0})"),),
    own=True,
    doc=Doc("The text from its end. NULL for NULL.", (("text", "any text"),), (("Dummy('ab')", "ba"),)),
)
'''
    ),
    "services/runtime/src/runtime/functions/dummy.py": whole(
        '''"""Dummy(text): the text from its end; native in Spark."""


def reference(text):
    return None if text is None else text[::-1]


def register(session):
    """Nothing to bring: Spark has it."""
'''
    ),
    "docs/dialect.md": behind("and ours: `Split ByteToString GeoHash", " Dummy"),
}
REASON: Final[Mapping[str, Change]] = {
    "libs/fleet/src/fleet/health/degradation.py": both(
        behind('    QUARANTINE_FLOOD = "QUARANTINE_FLOOD"\n', '    DUMMY_STATE = "DUMMY_STATE"\n'),
        behind("MEANINGS: Final[Mapping[Reason, str]] = {\n", '    Reason.DUMMY_STATE: "it is a dummy",\n'),
    ),
    "libs/fleet/src/fleet/health/advice.py": behind(
        "ADVICE: Final[Mapping[str, Advice]] = {\n",
        '    Reason.DUMMY_STATE: Advice("dummy", _USER, "Go on."),\n',
    ),
    "docs/operations.md": behind(
        "stands behind SINK_RETRYING.\n",
        "\n### DUMMY_STATE\n* **Symptom.** It is a dummy.\n* **Check.** Look.\n* **Act.** Go on.\n",
    ),
}
SETTING: Final[Mapping[str, Change]] = {
    "services/telemetry/src/telemetry/settings.py": at_end('\n    dummy_s: float = 1\n    """Seconds."""\n'),
}
COMMAND: Final[Mapping[str, Change]] = {
    "cli/src/cli/commands/dummy.py": whole(
        '''"""`daggers dummy`."""

from cli.framework.group import group
from cli.framework.session import Session, command

app = group()


@command(app, "dummy", example="daggers dummy")
def dummy(session: Session) -> None:
    """Print an empty document."""
    session.out.show({}, lambda _: None)
'''
    ),
    "cli/src/cli/commands/table.py": behind(
        '        "list": LazyCommand("List daggers by name.", "cli.commands.daggers"),\n',
        '        "dummy": LazyCommand("Show nothing.", "cli.commands.dummy"),\n',
    ),
}


def rpc(service: str, handlers: str) -> Mapping[str, Change]:
    """An RPC of the QuarantineService, which the file `service` declares and the file `handlers` has."""
    asked, answered = "CountDummiesRequest", "CountDummiesResponse"
    return {
        service: both(
            behind(
                "  rpc ListQuarantined(ListQuarantinedRequest) returns (ListQuarantinedResponse);\n",
                f"  // How many there are.\n  rpc CountDummies({asked}) returns ({answered});\n",
            ),
            at_end(
                f"\n// Asks.\nmessage {asked} {{\n  // Whose.\n  string dagger = 1;\n}}\n"
                f"\n// Answers.\nmessage {answered} {{\n  // How many.\n  int64 count = 1;\n}}\n"
            ),
        ),
        "libs/access/src/access/methods.py": behind(
            '        "SummarizeQuarantine": Rule(Action.READ, _about, views.quarantine_groups),\n',
            '        "CountDummies": Rule(Action.READ, _about),\n',
        ),
        handlers: behind(
            "        self._parts, self._clock = parts, clock\n",
            "\n    async def CountDummies(self, request, context):\n"
            '        """How many there are."""\n'
            '        refuse([*fields.name("dagger", request.dagger)])\n'
            "        return gateway_pb2.CountDummiesResponse(count=7)\n",
        ),
        "services/api-gateway/tests/test_gateway_dummy.py": whole(
            """from daggers.v1 import gateway_pb2


async def test_dummies_are_counted(ready, refusal) -> None:
    count = ready.quarantine.CountDummies
    answer = await count(gateway_pb2.CountDummiesRequest(dagger="completed_bookings"), timeout=10)
    bad = await refusal(count(gateway_pb2.CountDummiesRequest(), timeout=10))

    assert (answer.count, [each.field for each in bad.violations]) == (7, ["dagger"])
"""
        ),
        "cli/src/cli/commands/quarantine.py": at_end(
            '''

@command(quarantine, "count", example="daggers quarantine count completed_bookings")
def count_dummies(session: Session, name: Name) -> None:
    """How many records the dagger has in quarantine."""
    with session.connect({"dagger": "NAME"}) as gateway:
        request = gateway_pb2.CountDummiesRequest(dagger=name)
        answer = gateway.call(gateway.quarantine.CountDummies, request)
    session.out.show({"count": answer.count}, lambda _: None)
'''
        ),
    }


OPERATION: Final[Mapping[str, Change]] = {
    "proto/daggers/v1/host.proto": both(
        behind(
            "  rpc PlanHostReads(PlanHostReadsRequest) returns (stream PlannedReads);\n",
            "  // How many there are.\n"
            "  rpc CountHostDummies(CountHostDummiesRequest) returns (stream HostDummies);\n",
        ),
        at_end(
            "\n// Asks for CountHostDummies.\nmessage CountHostDummiesRequest {\n"
            "  // Whose they are.\n  string cluster = 1;\n"
            "  // The host answers once it has read the log up to here.\n  int64 min_sequence = 2;\n"
            "  // The host that is meant.\n  string host = 3;\n}\n"
            "\n// Answers CountHostDummies.\nmessage HostDummies {\n  // How many.\n  int64 count = 1;\n}\n"
        ),
    ),
    "services/scheduler/src/scheduler/host/operation_table.py": behind(
        "TABLE: Final[tuple[HostOperation[Any], ...]] = (\n",
        """    HostOperation(
        method="CountHostDummies",
        module="runtime.dummy",
        reads="dummies",
        limit=Limit(1, "counts"),
        patience_s=30.0,
        prepare=lambda request, host: ProcessInput(spec_pb2.JobSpec(dagger=request.cluster), []),
    ),
""",
    ),
    "services/runtime/src/runtime/dummy.py": whole(
        """import sys

from daggers.v1 import host_pb2, spec_pb2

from runtime import framed


def main() -> int:
    return framed.answer_job(
        "dummies", spec_pb2.JobSpec, lambda job: [host_pb2.HostDummies(count=len(job.dagger))]
    )


if __name__ == "__main__":
    sys.exit(main())
"""
    ),
    "pyproject.toml": behind('    "__main__ | appcds_home | daemon |', " dummy |"),
    "services/api-gateway/src/api_gateway/hosts/dummy.py": whole(
        """from daggers.v1 import host_pb2


def count_dummies(hosts, cluster, context):
    request = host_pb2.CountHostDummiesRequest(cluster=cluster)
    return hosts.ask_any(lambda host: host.CountHostDummies, request, context)
"""
    ),
    "services/scheduler/tests/test_scheduler_dummy.py": whole(
        """import subprocess
import sys

import grpc
import pytest
from daggers.v1 import host_pb2, spec_pb2
from services.scheduler.tests.operation_host import operating

from chassis.errors import from_rpc_error


async def test_dummies_are_counted_where_it_is_meant(tmp_path) -> None:
    request = host_pb2.CountHostDummiesRequest(cluster="seven__", host="there")
    with pytest.raises(grpc.RpcError) as caught:
        async with operating(tmp_path, [], {}, knowledge={}) as stub:
            async for _ in stub.CountHostDummies(request, timeout=60):
                pass
    job = spec_pb2.JobSpec(dagger="seven__").SerializeToString()
    run = subprocess.run([sys.executable, "-m", "runtime.dummy"], input=job, capture_output=True, check=True)

    assert from_rpc_error(caught.value).reason == "WRONG_HOST"
    assert host_pb2.HostDummies.FromString(run.stdout[5:]).count == 7
"""
    ),
}
