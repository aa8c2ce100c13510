"""What each command prints with -o json, byte by byte; `python -m tests.golden.commands` writes it anew.

The gateway here answers each call with a message filled by its descriptor: a real one never says everything.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from google.protobuf import message_factory, symbol_database
from google.protobuf.message import Message
from tests.filled import filled
from tests.golden.sections import write

from cli.__main__ import run

FILE = Path(__file__).with_name("commands.txt")
M = TypeVar("M", bound=Message)
Fill = Callable[[type[Any]], Any]
ARGUMENTS: Final[dict[str, list[str]]] = {
    "alerts explain": ["orders", "late_rows"],
    "alerts receiver test": ["pricing/slack"],
    "alerts rules": ["orders"],
    "cluster register": ["prod", "--spark-master", "local[2]"],
    "schema register": ["shop.proto"],
    "stream register": [
        "orders", "--cluster", "c", "--topic", "t", "--message", "m.M", "--time-field", "f"
    ],
    "reference register": ["cities", "--format", "csv", "--location", "/tables/cities.csv"],
    "completion": ["bash"],
    "apply": ["-f", "dagger.yaml"],
    "validate": ["-f", "dagger.yaml"],
    "plan": ["-f", "dagger.yaml"],
    "preview": ["-f", "dagger.yaml"],
    "test": ["-f", "tested.yaml"],
    "alerts test": ["-f", "ruled.yaml"],
    "history": ["orders"],
    "host show": ["machine-2"],
    "host cordon": ["machine-2"],
    "host drain": ["machine-2", "--yes"],
    "host uncordon": ["machine-2"],
    "host confirm-gone": ["machine-2", "--yes"],
    "diff": ["orders", "1"],
    "archive describe": ["orders"],
    "alerts silence": ["dagger=orders", "--for", "2h", "--reason", "new topic"],
    "alerts unsilence": ["pricing/0f3a"],
    "alerts ack": ["orders", "no_progress", "--comment", "new topic"],
    "alerts route": ["--for", "orders", "severity=critical"],
    "routes apply": ["-f", "routes.yaml"],
    "routes plan": ["-f", "routes.yaml"],
    "routes get": ["pricing"],
    "routes history": ["pricing"],
    "routes rollback": ["pricing", "--to", "1", "--yes"],
    "routes delete": ["pricing", "--yes"],
    "alerts unack": ["orders", "no_progress"],
    "rollback": ["orders", "--to", "1"],
    "sql check": ["--streams", "streams.json"],
    "delete": ["orders", "--yes"],
    "init": ["orders", "--force"],
    "quarantine list": ["orders"],
    "quarantine show": ["orders", "0f3a"],
    "quarantine replay": ["orders", "--yes"],
    "quarantine discard": ["orders", "--why", "test traffic", "--yes"],
    "quarantine allow": ["orders", "--for", "1h"],
    "sink pause": ["orders", "crm"],
    "sink resume": ["orders", "crm"],
    "stream describe": ["orders"],
    "stream offer": ["orders"],
    "stream sample": ["x"],
    "stream discover": ["--cluster", "local"],
    "schema show": ["m.M"],
    "schema get": ["m.M"],
    "schema delete": ["m.M", "--yes"],
    **{f"{kind} get": ["orders"] for kind in ("cluster", "stream", "reference")},
    **{f"{kind} delete": ["orders", "--yes"] for kind in ("cluster", "stream", "reference")},
    "team apply": ["team.yaml"],
    "team usage": ["pricing"],
    "secret apply": ["secret.yaml"],
    "sink apply": ["sink.yaml"],
    "sink test": ["crm"],
    "sink ddl": ["orders"],
    **{f"{kind} get": ["crm"] for kind in ("secret", "sink")},
    **{f"{kind} delete": ["crm", "--yes"] for kind in ("secret", "sink")},
    "team delete": ["pricing", "--yes"],
    "team give": ["influx://influx:8086/rows/fares", "pricing"],
    "team release": ["influx://influx:8086/rows/fares", "--yes"],
    "account create": ["ci-bot", "--team", "pricing", "--role", "viewer"],
    "account rotate": ["ci-bot"],
    "account revoke": ["ci-bot", "--yes"],
    "grant role": ["user:ada", "viewer", "--team", "pricing"],
    "grant revoke": ["user:ada", "--team", "pricing"],
    "grant stream": ["orders", "--all"],
    "grant sensitive": ["orders", "--none"],
    "log export": ["log.jsonl"],
    "log restore": ["log.jsonl"],
    **{name: ["orders"] for name in ("get", "start", "stop", "restart", "rows", "watch", "logs")},
    "metrics": ["orders"],
}  # fmt: skip
"""The words behind each command."""
DAGGER: Final = """\
name: orders
team: pricing
cluster: local
streams:
  - stream: orders
sql: SELECT city AS tag_city, event_timestamp AS window_timestamp FROM `data_stream`
sinks:
  - log: {}
"""
FILES: Final = {
    "dagger.yaml": DAGGER,
    "ruled.yaml": DAGGER + "alerts: [{name: busy, when: orders > 8}]\n",
    "tested.yaml": DAGGER + "tests: [{name: nothing comes of nothing, expect: {rows: []}}]\n",
    "team.yaml": "kind: team\nname: pricing\n",
    "secret.yaml": "kind: secret\nname: crm\nplace: {env: CRM}\naddresses: [crm:1]\n",
    "sink.yaml": "kind: sink\nname: crm\nkafka: {cluster: local}\n",
    "shop.proto": 'syntax = "proto3"; message Order {}',
}
"""What those words name."""
VERSION: Final = str(2**53 + 100_000)
"""Later than any that a filled revision has."""
CALLS: Final = {name: words for name, words in ARGUMENTS.items() if not name.startswith(("log ", "sql "))}
CALLS.update(
    {
        f"{kind} list": []
        for kind in (
            "cluster",
            "stream",
            "reference",
            "schema",
            "team",
            "secret",
            "sink",
            "account",
            "grant",
            "archive",
        )
    }
)
CALLS |= {"list": [], "whoami": [], "alerts list": ["--all"], "alerts watch": [], "audit": [], "events": []}
CALLS |= {"quarantine summary": [], "team get": ["pricing"], "team destinations": [], "team conflicts": []}
CALLS |= {"diff": ["orders", VERSION], "rollback": ["orders", "--to", VERSION, "--accept-loss"]}
CALLS |= {"apply": ["dagger.yaml", "--accept-loss"], "watch": ["orders", "--for", "0"]}
del CALLS["init"]
"""Every command that shows what the gateway answers."""
SHAPES: Final[dict[str, Fill]] = {"empty": lambda kind: kind(), "full": filled}


class FilledAnswers(grpc.GenericRpcHandler):
    """Answers each call with one message as `fill` makes it; a stream has one step."""

    def __init__(self, fill: Fill) -> None:
        self._fill = fill

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        service, _, name = str(details.method).strip("/").rpartition("/")
        method = symbol_database.Default().pool.FindServiceByName(service).methods_by_name[name]
        asked, answered = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
        answer = self._fill(answered)
        serialize = answered.SerializeToString
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(
                lambda *_: iter([answer]), asked.FromString, serialize
            )
        return grpc.unary_unary_rpc_method_handler(lambda *_: answer, asked.FromString, serialize)


@contextmanager
def answering(fill: Fill) -> Iterator[str]:
    """Serve such a gateway: its address."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=[FilledAnswers(fill)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait(5)


def sections() -> dict[str, str]:
    """Run each command in a folder of its own: its exit code and what it prints on stdout."""
    printed = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        for shape, fill in SHAPES.items():
            with answering(fill) as address, _inside(Path(folder)):
                for command in sorted(CALLS):
                    words = [*command.split(), *CALLS[command], "--gateway", address, "-o", "json"]
                    printed[f"{command}: {shape}"] = _output(words).replace(address, "GATEWAY")
    return printed


def _output(words: list[str]) -> str:
    """The exit code and the document of one command line; of an error its reason alone."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        code = run(words)
    printed = out.getvalue()
    refused = re.match(r'{\n  "error": {\n    "reason": "(\w+)"', printed)
    document = f"{refused[1]}\n" if refused else printed
    return f"exit code {code}\n{document}"


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> int:
    """Write the file."""
    write(FILE, sections())
    return 0


if __name__ == "__main__":
    sys.exit(main())
