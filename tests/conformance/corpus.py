"""The corpus as tests want it: cases, and the streams of `proto/corpus.proto`."""

import json
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc
from tests.conformance.recipes import expand

from daggersql import Table

HERE = Path(__file__).parent
STREAMS = {
    "bookings": "BookingLog",
    "driver_pings": "DriverPing",
    "api_logs": "ApiLog",
    "payments": "PaymentLog",
    "customer_events": "CustomerEvent",
    "booking_history": "BookingHistory",
}


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file; texts that are too large to write out are expanded."""
    with (HERE / f"{name}.jsonl").open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    for case in found:
        if "recipe" in case:
            case["sql"] = expand(case["recipe"])
    return found


def compiled(*sources: Path, include: Path) -> FileDescriptorSet:
    """The descriptors of .proto files, with all they import."""
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
        assert protoc.main([*command, *map(str, sources)]) == 0
        return FileDescriptorSet.FromString(out.read_bytes())


@cache
def messages() -> descriptor_pool.DescriptorPool:
    """The corpus's message types."""
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(HERE / "proto" / "corpus.proto", include=HERE / "proto").file:
        pool.Add(file)  # type: ignore[no-untyped-call]  # protobuf's own stub lacks it
    return pool


def message(name: str) -> Descriptor:
    """One message type by its full name."""
    return messages().FindMessageTypeByName(name)


def tables(*names: str) -> tuple[Table, ...]:
    """These streams; all of them when none is named."""
    return tuple(
        Table(name, message(f"corpus.v1.{STREAMS[name]}"), "event_timestamp") for name in names or STREAMS
    )
