"""The same bot on Faust: tells who runs, stops what FAILED three times.

    .venv/bin/python examples/bots/faust_bot.py 127.0.0.1:9092 127.0.0.1:50051 administrator.token

An agent resumes at its committed offset and cannot fold from zero, so each start has a group of its own, and
an event whose agent raises is lost, so what may fail is caught. The web server would listen on 0.0.0.0: off.
"""

import asyncio
import sys
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import faust
from daggers.v1 import events_pb2, gateway_pb2

from daggerclient import Client, ClientError
from eventlog import read_record
from fleet import Dagger, Fleet

(KAFKA, GATEWAY, TOKEN_FILE), STARTED = sys.argv[1:], datetime.now(UTC)
fleet, failures = Fleet(), Counter[str]()
app = faust.App(f"example-bot-{uuid.uuid4().hex}", broker=f"kafka://{KAFKA}", web_enabled=False,
                consumer_auto_offset_reset="earliest", topic_allow_declare=False,
                topic_disable_leader=True, worker_redirect_stdouts=False)  # fmt: skip


@app.agent(app.topic("daggers.control", value_type=bytes, value_serializer="raw"))
async def follow(stream: faust.StreamT[bytes]) -> None:
    """Each record of the control topic, in order, from the first on."""
    async for event in stream.events():
        record = read_record(event.message.offset, event.message.headers or (), event.message.value)
        applied = fleet.apply(record)
        dagger = fleet.daggers.get(applied.subject)
        match record.message:
            case events_pb2.Running() if dagger and applied.changed and record.time > STARTED:
                print(f"{dagger.name} is RUNNING", flush=True)  # noqa: T201 - what it is for
            case events_pb2.DaggerRequested() if dagger and applied.changed:
                failures.pop(dagger.name, None)  # a new revision begins anew
            case events_pb2.Failed() if dagger and applied.changed:
                failures[dagger.name] += 1
                if failures[dagger.name] == 3:
                    await asyncio.to_thread(stop, dagger, because=record.id)


def stop(dagger: Dagger, because: str) -> None:
    """Ask the gateway, as in plain_bot.py."""
    request = gateway_pb2.StopDaggerRequest(name=dagger.name, expected_version=dagger.version)
    request.request_id = f"three-failures-{because}"
    try:
        with Client(GATEWAY, token_file=Path(TOKEN_FILE)) as client:
            client.call(client.daggers.StopDagger, request)
        print(f"{dagger.name} FAILED three times: stopped", flush=True)  # noqa: T201
    except ClientError as error:
        print(f"{dagger.name} FAILED three times: {error.message}", flush=True)  # noqa: T201


if __name__ == "__main__":
    faust.Worker(app, loglevel="error", quiet=True).execute_from_commandline()
