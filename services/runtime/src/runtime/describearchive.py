"""Describe the archive of a table: `python -m runtime.describearchive --run-dir DIR`, for a scheduler.

It resolves the secrets of the sink; neither its arguments nor its output has one. The answer goes to its
standard output as one frame: D and a DescribeArchiveResponse, or E and a DaggerError.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import BinaryIO

from daggers.v1 import spec_pb2

from daggerspec.rundir import SPEC
from daggerspec.sinks import display_names
from runtime import framed, sinks
from runtime.errors import user
from runtime.framed import frame
from runtime.sinks import Source

DESCRIBED = b"D"


def main() -> int:
    """Write the frame; return 0."""
    parser = argparse.ArgumentParser(prog="python -m runtime.describearchive")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sink", default="")
    arguments = parser.parse_args()
    return framed.answer("archive", lambda out: _answer(out, arguments.run_dir, arguments.sink))


def _answer(out: BinaryIO, run_dir: Path, wanted: str) -> None:
    job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
    has = dict(zip(display_names([sink.sink for sink in job.sinks]), job.sinks, strict=True))
    archives = {name: sink for name, sink in has.items() if sink.sink.WhichOneof("kind") == "parquet"}
    name = wanted or next(iter(archives), "")
    if name not in archives:
        raise user("NO_ARCHIVE", f"{job.dagger} was launched without {wanted or 'a sink of kind parquet'}.")
    parquet = sinks.load("parquet")
    described = parquet.archive(Source(job.dagger, archives[name], job.descriptors, run_dir))
    described.sink = name
    frame(out, DESCRIBED, described.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
