"""Whether sinks can be written to from this host: a process of the runtime tries them, with their secrets.

A caller names a registered sink, or gives a specification; addresses of registered sinks and places of
secrets are those of the control topic.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import grpc
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, spec_pb2

from chassis.errors import ApiError
from daggerspec import sinks
from daggerspec.catalogue import Unresolved
from daggerspec.defaults import SINKS_TESTED
from eventlog.follower import Follower
from fleet import Applied, Fleet
from fleet.fold import resolve
from fleet.fold.answers import missing
from fleet.fold.dagger import created
from fleet.fold.resolve import Registered
from scheduler.host import reader_process
from scheduler.host.reader_process import Places, Readers

MODULE: Final = "runtime.testsinks"
"""Of a dagger that has none."""
_SINKS: Final = "sinks"


class SinkTester:
    """Starts processes that try sinks; at most `most` at once."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        folder: Path,
        follower: Follower[Applied],
        fleet: Fleet,
        egress: spec_pb2.Egress,
        *,
        most: int = 4,
        patience_s: float = 60.0,
        module: str = MODULE,
    ) -> None:
        """`inherited` is the environment that secrets are found in, `folder` where processes run, `egress`
        holds the connections to addresses that no administrator registered, and a step may take `patience_s`.
        """
        self._readers = Readers(python, inherited, folder, patience_s)
        self._follower, self._fleet, self._egress = follower, fleet, egress
        self._places = Places(most, "tests of sinks")
        self._module = module

    async def frames(self, request: host_pb2.TestHostSinkRequest) -> AsyncGenerator[bytes, None]:
        """What is found: serialised TestSinkResponses. Raises: ApiError."""
        asked = request.request
        with self._places.one():
            await reader_process.reached(self._follower, request.min_sequence)
            try:
                job = self._specified(asked) if asked.HasField("spec") else self._registered(asked.sink)
            except Unresolved as error:
                code = grpc.StatusCode.FAILED_PRECONDITION
                raise ApiError(code, error.reason, error.detail, {}) from error
            words = ["--send-one"] if asked.send_one else []
            async with aclosing(
                self._readers.frames(self._module, job, _SINKS, *words, secrets_of=job.sinks)
            ) as frames:
                async for frame in frames:
                    yield frame

    def _specified(self, asked: gateway_pb2.TestSinkRequest) -> spec_pb2.JobSpec:
        """The launch whose sinks are tried. Raises: Unresolved."""
        asked_for = events_pb2.DaggerRequested(name=asked.name or SINKS_TESTED, spec=asked.spec)
        return resolve.job(
            self._fleet,
            created(asked_for, self._fleet.sequence, datetime.now(UTC)),
            1,
            platform=spec_pb2.KafkaAddress(),
            checkpoint_root="",
            run_dir="",
            egress=self._egress,
        )

    def _registered(self, name: str) -> spec_pb2.JobSpec:
        """A job with nothing but the registered sink. Raises: ApiError, Unresolved."""
        held = Registered(self._fleet).sink(name)
        kind = sinks.kind_of(held.sink) if held else None
        if held is None or kind is None:
            refusal = missing("sink", name)
            raise ApiError(grpc.StatusCode.NOT_FOUND, refusal.reason, refusal.detail, refusal.metadata)
        job = spec_pb2.JobSpec(dagger=SINKS_TESTED, spec=spec_pb2.DaggerSpec(team=next(iter(held.teams), "")))
        own = [address.team for address in held.by_team]
        shared = [team for team in held.teams if team not in own] or [""] * (not held.teams)
        for team in (*shared[:1], *own):  # all others write where the first of them does
            spec = spec_pb2.DaggerSpec(team=team)
            sink = spec_pb2.Sink(registered=name, name=f"{name} for {team}" if team in own else name)
            getattr(sink, kind).SetInParent()
            resolved = resolve.sink(self._fleet, SINKS_TESTED, spec, sink)
            if resolved.HasField("egress"):
                resolved.egress.CopyFrom(self._egress)
            resolve.place_secrets(resolved, self._fleet)
            job.spec.sinks.append(sink)
            job.sinks.append(resolved)
        return job
