"""`python -m runtime.describearchive --run-dir DIR`: how much of a table there is, for a scheduler.

It resolves the secrets of the sink; neither its arguments nor what it says has one. What it finds goes to its
standard output as one frame: D and a DescribeArchiveResponse, or E and a DaggerError.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import BinaryIO

from daggers.v1 import spec_pb2

from daggerspec.rundir import SPEC
from daggerspec.sinks import called
from runtime import framed, sinks
from runtime.errors import user
from runtime.framed import frame
from runtime.sinks import Source

DESCRIBED = b"D"


def main() -> int:
    """Write the frame; 0 when it is said."""
    parser = argparse.ArgumentParser(prog="python -m runtime.describearchive")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sink", default="")
    told = parser.parse_args()
    return framed.answer("archive", lambda out: _answer(out, told.run_dir, told.sink))


def _answer(out: BinaryIO, run_dir: Path, wanted: str) -> None:
    job = spec_pb2.JobSpec.FromString((run_dir / SPEC).read_bytes())
    has = dict(zip(called([sink.sink for sink in job.sinks]), job.sinks, strict=True))
    kept = {name: sink for name, sink in has.items() if sink.sink.WhichOneof("kind") == "parquet"}
    name = wanted or next(iter(kept), "")
    if name not in kept:
        raise user("NO_ARCHIVE", f"{job.dagger} was launched without {wanted or 'a sink of kind parquet'}.")
    parquet = sinks.load("parquet")
    described = parquet.archive(Source(job.dagger, kept[name], job.descriptors, run_dir))
    described.sink = name
    frame(out, DESCRIBED, described.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
