"""A small program that behaves as a driver does, for tests of the process side.

What it does stands in its job's SQL: "run", "exit CODE", "stubborn", "linger". A spare waits for that first.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.json_format import MessageToJson

from chassis.processes import start_ticks

parser = argparse.ArgumentParser()
parser.add_argument("--spec", type=Path)
parser.add_argument("--generation", type=int)
parser.add_argument("--spare", action="store_true")
arguments = parser.parse_args()
if arguments.spare:
    home, wake = Path.cwd(), {signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, wake)
    (home / "new.json").write_text(json.dumps({"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}))
    (home / "new.json").rename(home / "driver.json")
    while Path.cwd() == home:
        signal.sigtimedwait(wake, 0.05)
    home.symlink_to(Path.cwd())
    arguments.spec = Path("spec.pb")
job = spec_pb2.JobSpec.FromString(arguments.spec.read_bytes())
run_dir = Path(job.run_dir)
verb, *words = job.spec.sql.split()

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
if verb != "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: None)  # until now it is ignored, as it was for our parent
if verb == "linger":  # a child in a process group of its own, as pyspark's worker daemon is
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], process_group=0)
    (run_dir / "child").write_text(str(child.pid))
if verb == "exit":
    error = events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER, reason="BAD_SQL", detail="the query is wrong"
    )
    (run_dir / "exit.json").write_text(MessageToJson(error))
    sys.exit(int(words[0]))
(run_dir / "new.json").write_text(json.dumps({"pid": os.getpid()}))
(run_dir / "new.json").rename(run_dir / "driver.json")
assert verb in {"run", "stubborn", "linger"}
if not (run_dir / "stop").exists():
    signal.sigwait({signal.SIGTERM})
