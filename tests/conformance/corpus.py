"""A directory of conformance cases: `*.jsonl`, message types in `proto/`, `recipes.py` for large texts."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_tools import protoc

from daggersql import Table

HERE = Path(__file__).parent
_TIME = "event_timestamp"
# The streams that a refused text may name; a directory's accepted queries may say otherwise.
_STREAMS = {
    "bookings": "corpus.v1.BookingLog",
    "driver_pings": "corpus.v1.DriverPing",
    "api_logs": "corpus.v1.ApiLog",
    "payments": "corpus.v1.PaymentLog",
    "customer_events": "corpus.v1.CustomerEvent",
    "booking_history": "corpus.v1.BookingHistory",
}
STREAMS = {name: full.rpartition(".")[2] for name, full in _STREAMS.items()}


def compiled(*sources: Path, include: Path) -> FileDescriptorSet:
    """The descriptors of .proto files, with all they import, in dependency order."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "set.pb"
        google = resources.files("grpc_tools") / "_proto"
        command = [
            "protoc",
            f"-I{include}",
            f"-I{google}",
            f"--descriptor_set_out={out}",
            "--include_imports",
        ]
        if protoc.main([*command, *map(str, sources)]) != 0:
            raise SystemExit(f"{include} has a .proto file that does not compile")
        return FileDescriptorSet.FromString(out.read_bytes())


@dataclass(frozen=True)
class Corpus:
    """One directory of cases."""

    directory: Path

    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        """Every line of every file: its name, and the case; one that cannot be read has `$unread`."""
        found = []
        for file in sorted(self.directory.glob("*.jsonl")):
            for number, line in enumerate(_lines(file), 1):
                name = f"{file.name}:{number}"
                try:
                    case = self._expanded(json.loads(line))
                    found.append((str(case.get("id", name)), case))
                except (ValueError, AttributeError, KeyError, TypeError) as problem:
                    found.append((name, {"$unread": f"{type(problem).__name__}: {problem}"}))
        return found

    def cases(self, file: str) -> list[dict[str, Any]]:
        """The cases of one file; texts that are too large to write out are expanded."""
        return [self._expanded(json.loads(line)) for line in _lines(self.directory / f"{file}.jsonl")]

    def message(self, name: str) -> Descriptor:
        """One message type by its full name; raises `KeyError` when there is none."""
        return self.messages.FindMessageTypeByName(name)

    def tables(self, *names: str) -> tuple[Table, ...]:
        """These streams; all of them when none is named."""
        return tuple(self._table(name) for name in names or _STREAMS)

    def tables_of(self, case: Mapping[str, Any]) -> tuple[Table, ...]:
        """The streams of a query's case: by name, or with their message and event time."""
        streams = case["streams"]
        if isinstance(streams, Mapping):
            return tuple(
                Table(name, self.message(each["message"]), each.get("event_time", _TIME))
                for name, each in streams.items()
            )
        return self.tables(*streams)

    @cached_property
    def messages(self) -> DescriptorPool:
        """The message types of `proto/`."""
        pool = DescriptorPool()
        for file in self.files.file:
            pool.AddSerializedFile(file.SerializeToString())
        return pool

    @cached_property
    def files(self) -> FileDescriptorSet:
        """The files of `proto/`, with all they import."""
        folder = self.directory / "proto"
        return compiled(*sorted(folder.rglob("*.proto")), include=folder)

    @cached_property
    def _streams(self) -> dict[str, tuple[str, str]]:
        """Message and event time of each stream, as the accepted queries of this directory declare them."""
        found = {name: (message, _TIME) for name, message in _STREAMS.items()}
        for _, case in self.lines():
            streams = case.get("streams")
            for name, each in streams.items() if isinstance(streams, dict) else ():
                found[name] = (each["message"], each.get("event_time", _TIME))
        return found

    def _table(self, name: str) -> Table:
        message, time = self._streams[name]
        return Table(name, self.message(message), time)

    def _expanded(self, case: dict[str, Any]) -> dict[str, Any]:
        if "recipe" in case:
            case["sql"] = self._recipes.expand(case["recipe"])
        return case

    @cached_property
    def _recipes(self) -> Any:
        spec = importlib.util.spec_from_file_location("recipes", self.directory / "recipes.py")
        if spec is None or spec.loader is None:
            raise SystemExit(f"{self.directory} has no recipes.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _lines(file: Path) -> list[str]:
    """The lines of a file that are not empty; a line ends at a line feed, and not at what Unicode adds."""
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]


@cache
def public() -> Corpus:
    """The corpus that stands beside this file."""
    return Corpus(HERE)


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file of the public corpus."""
    return public().cases(name)


def message(name: str) -> Descriptor:
    """One message type of the public corpus by its full name."""
    return public().message(name)


def tables(*names: str) -> tuple[Table, ...]:
    """These streams of the public corpus; all of them when none is named."""
    return public().tables(*names)
