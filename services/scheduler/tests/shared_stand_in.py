"""A small program that behaves as the process of a driver with members does, for tests of the process side.

What each launch does stands in its job's SQL: "run", "exit CODE", "compute" until it is asked to stop, "hang"
for ever.
"""

import argparse
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from daggers.v1 import spec_pb2

from chassis.lastword import StepRecorder, create
from chassis.processes import start_ticks
from daggerspec import rundir

parser = argparse.ArgumentParser()
parser.add_argument("--spec", type=Path)
parser.add_argument("--generation", type=int)
arguments = parser.parse_args()
create(Path.cwd())
recorder = StepRecorder(Path.cwd())
wake, stopping = {signal.SIGUSR1}, []
signal.pthread_sigmask(signal.SIG_BLOCK, wake)
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
launches: dict[Path, ExitStack] = {}
verbs: dict[Path, list[str]] = {}


def begin(run_dir: Path) -> None:
    job = spec_pb2.JobSpec.FromString((run_dir / rundir.SPEC).read_bytes())
    verbs[run_dir], launches[run_dir] = job.spec.sql.split(), ExitStack()
    if verbs[run_dir][0] in ("compute", "hang"):
        launches[run_dir].enter_context(recorder.step(job.dagger, job.generation, "sink rows"))
    facts = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
    (run_dir / "new.json").write_text(json.dumps(facts))
    (run_dir / "new.json").rename(run_dir / rundir.DRIVER)


def end(run_dir: Path, code: int) -> None:
    launches.pop(run_dir).close()
    (run_dir / "new-code").write_text(f"{code}\n")
    (run_dir / "new-code").rename(run_dir / rundir.EXIT_CODE)


begin(Path.cwd())
joined = set[str]()
while launches:
    for link in sorted(Path(rundir.MEMBERS).glob("*")):
        if link.name not in joined:
            joined.add(link.name)
            begin(link.resolve())
    for run_dir in list(launches):
        verb, *words = verbs[run_dir]
        if verb == "exit":
            end(run_dir, int(words[0]))
        elif verb != "hang" and (stopping or (run_dir / rundir.STOP).exists()):
            end(run_dir, 0)
    if launches:
        signal.sigtimedwait(wake, 0.02)
