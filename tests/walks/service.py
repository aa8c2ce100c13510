"""What somebody else's service does; run in an environment that has the client and nothing else of ours.

    python -I service.py DIRECT FLAKY NAME TOKEN

DIRECT is the gateway, FLAKY the same behind a network that fails at times, TOKEN the
file with the token that it asks for. It prints a line for each step.
Where the network is to change it says so, and goes on when it is told on stdin that it has.
"""

import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from daggers.v1 import gateway_pb2 as api
from daggers.v1 import spec_pb2

from daggerclient import Client, OutcomeUnknownError, RefusedError, UnreachableError

Answer = TypeVar("Answer")
PATIENCE_S = 60.0
direct, flaky, name, token = sys.argv[1:]
spec = spec_pb2.DaggerSpec(
    team="first",
    cluster="local",
    streams=[spec_pb2.StreamInput(stream=name)],
    sql="SELECT order_number, rowtime AS window_timestamp FROM `data_stream`",
    sinks=[spec_pb2.Sink(log=spec_pb2.LogSink())],
)


def say(*words: object) -> None:
    """A line for whoever reads along."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def network(state: str) -> None:
    """Ask for it, and wait until it is so."""
    say("network", state)
    sys.stdin.readline()


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask until somebody answers."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except UnreachableError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


with (
    Client(direct, token_file=Path(token)) as client,
    Client(flaky, token_file=Path(token), patience_s=0) as far,
):
    # Create, over a network that brings the request there and no answer back.
    far.clusters()
    create = api.CreateDaggerRequest(name=name, spec=spec, request_id=uuid.uuid4().hex)
    network("deaf")
    try:
        far.call(far.daggers.CreateDagger, create)
    except OutcomeUnknownError as error:
        say("unknown, by its id:", error.request_id == create.request_id)
    network("well")

    # Retry, under the same id: it was taken, and counts once.
    created = patiently(lambda: far.call(far.daggers.CreateDagger, create))
    again = client.call(client.daggers.CreateDagger, create)
    say("version", created.dagger.version, "taken once:", again.sequence == created.sequence)

    # Conflict: two have read version 1, the second one is told and has changed nothing.
    ids = [create.request_id]
    for team in ("second", "third"):
        spec.team = team
        update = api.UpdateDaggerRequest(name=name, spec=spec, expected_version=1)
        try:
            updated = client.call(client.daggers.UpdateDagger, update)
            ids.append(update.request_id)
            say(team, "version", updated.dagger.version)
        except RefusedError as error:
            say(team, error.code.name, error.reason)

    # Watch, until the connection breaks; meanwhile others go on.
    seen: list[tuple[int, str]] = []
    token = created.sequence - 1
    try:
        for step in far.watch(api.WatchEventsRequest(name=name, since_sequence=token), deadline_s=None):
            token = step.sequence
            if step.HasField("event"):
                seen.append((step.event.sequence, step.event.id))
            if step.event.id == ids[-1]:
                network("cut")
    except UnreachableError:
        say("dropped")
    restart = api.RestartDaggerRequest(name=name)
    client.call(client.daggers.RestartDagger, restart)
    ids.append(restart.request_id)
    network("well")

    # It goes on behind its token: nothing missed, nothing twice.
    def rest() -> list[tuple[int, str]]:
        request = api.WatchEventsRequest(name=name, since_sequence=token, until_end=True)
        return [(step.event.sequence, step.event.id) for step in far.watch(request) if step.HasField("event")]

    whole = api.WatchEventsRequest(name=name, since_sequence=created.sequence - 1, until_end=True)
    every = [(step.event.sequence, step.event.id) for step in client.watch(whole) if step.HasField("event")]
    before = len(seen)
    seen += patiently(rest)
    asked = [id_ for _, id_ in seen if id_ in ids]
    say("resumed, nothing missed or twice:", seen[: len(every)] == every, "requests seen:", len(asked))
    say("went on:", len(seen) > before)
