"""A sink `dummy` dropped into a copy of the tree: one module for each member, a member of the oneof, a case.

Nothing else of the copy is changed, so whoever knows the kind has found it by itself.
"""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Final

from grpc_tools import protoc

TREE: Final = Path(__file__).parents[2]
# What knows kinds of sinks, and what its tests need.
COPIED: Final = (
    "libs/spec/src/daggerspec", "services/runtime/src/runtime", "services/runtime/tests", "tests/integration",
    "conftest.py", "pyproject.toml",
)  # fmt: skip
MESSAGE: Final = """
// Appends each row to a file.
message DummySink {
  // Absolute path of the file.
  string place = 1;
}
"""
RULES: Final = '''"""Each row is one line of a file."""

from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.keys import Key
from daggerspec.violation import Violation

CAPABILITIES = Capabilities(
    guarantee=Guarantee.AT_LEAST_ONCE, because="it appends", upserts=False, repeats_tellable=True
)
TIME_SERIES = False
KEYS = (Key("place", "Absolute path of the file.", required=True),)


def fill(sink, dagger, spec):
    sink.place = sink.place or f"/tmp/{dagger}"


def resolve(path, resolved, asked):
    yield from ()


def violations(path, sink, asked):
    if not sink.place.startswith("/"):
        yield Violation(f"{path}.place", "must be an absolute path", "INVALID_PLACE")


def messages(sink):
    return {}
'''
WRITER: Final = '''"""The sink `dummy`: each row is one line of a file.

Guarantee: at least once.
"""

import json
from pathlib import Path

from runtime.sinks import Outcome


def check(target):
    open(target)


def open(target):
    return Writer(Path(target.resolved.sink.dummy.place))


class Writer:
    def __init__(self, place):
        self._place = place

    def write(self, batch, batch_id):
        with self._place.open("a") as file:
            for row in batch.select(["tag_city", "n", "window_timestamp"]).to_pylist():
                row["window_timestamp"] = row["window_timestamp"].isoformat().replace("+00:00", "Z")
                file.write(json.dumps(row) + "\\n")
        return Outcome()

    def finish(self):
        return Outcome()
'''
CASE: Final = '''"""The sink `dummy` in a file."""

import json

from daggers.v1 import spec_pb2


def case(dagger, request, printed):
    place = request.getfixturevalue("tmp_path") / "rows"
    place.touch()
    sink = spec_pb2.ResolvedSink()
    sink.sink.dummy.place = str(place)

    def read():
        rows = [json.loads(line) for line in place.read_text().splitlines()]
        return {(row["window_timestamp"], row["tag_city"]): row["n"] for row in rows}

    return sink, read
'''


def drop(folder: Path) -> list[Path]:
    """Make the copy; the folders that Python looks into before all others."""
    for name in COPIED:
        source, target = TREE / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (folder / "libs/spec/src/daggerspec/sinks/dummy.py").write_text(RULES)
    (folder / "services/runtime/src/runtime/sinks/dummy.py").write_text(WRITER)
    (folder / "services/runtime/tests/sink_cases/dummy.py").write_text(CASE)
    return [_protocol(folder), folder / "libs/spec/src", folder / "services/runtime/src", folder]


def _protocol(folder: Path) -> Path:
    """The protocol with one member more of the oneof `Sink.kind`, compiled."""
    sources, out = folder / "proto", folder / "gen"
    shutil.copytree(TREE / "proto" / "daggers", sources / "daggers")
    out.mkdir()
    spec = sources / "daggers/v1/spec.proto"
    text = spec.read_text()
    kinds = "    LogSink log = 3;\n"
    assert text.count(kinds) == 1
    spec.write_text(text.replace(kinds, f"{kinds}    // A file.\n    DummySink dummy = 999;\n") + MESSAGE)
    shipped = resources.files("grpc_tools") / "_proto"
    outputs = [f"--python_out={out}", f"--grpc_python_out={out}"]
    files = map(str, sorted(sources.rglob("*.proto")))
    assert protoc.main(["protoc", f"-I{sources}", f"-I{shipped}", *outputs, *files]) == 0
    (out / "daggers/v1/__init__.py").touch()
    return out
