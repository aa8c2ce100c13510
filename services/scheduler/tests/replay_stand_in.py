"""A small program that behaves as an attempt of a replay does.

What it does stands in the first reason of the request: "finish", "hang", or "crash" in the first attempt.
"""

import json
import signal
import sys
from pathlib import Path

from daggers.v1 import events_pb2
from google.protobuf.json_format import MessageToJson

home = Path.cwd()
asked = events_pb2.QuarantineReplayRequested.FromString((home / "replay.pb").read_bytes())
[verb] = asked.selection.reasons
if verb == "hang":
    signal.pause()
if verb == "crash" and len([path for path in home.parent.iterdir() if path.name.isdigit()]) == 1:
    error = events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="LOST", detail="it is away", retryable=True
    )
    (home / "exit.json").write_text(MessageToJson(error))
    sys.exit(69)
(home / "outcomes.json").write_text(json.dumps({"REPLAYED": 2}))
