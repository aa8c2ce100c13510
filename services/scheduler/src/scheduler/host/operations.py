"""Host operations, what a process of the runtime looks at for a caller by the control topic; their runner.

An operation is one entry of `operation_table`. The runner has the rest: how many run at once, how far this
host has read, the process with its secrets and its patience, and its end with the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from daggers.v1 import host_pb2, spec_pb2
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from daggerspec.violation import Violation
from eventlog.follower import Follower
from fleet import Applied, Fleet
from scheduler.host import reader_process
from scheduler.host.reader_process import Places

_METHODS: Final = host_pb2.DESCRIPTOR.services_by_name["HostService"].methods_by_name
Request = TypeVar("Request", bound=Message)


@dataclass(frozen=True, slots=True)
class Limit:
    """How many processes run at once, over all operations that share it."""

    most: int
    counted: str
    """What they are, for a refusal: samples of streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKnowledge:
    """What a host goes by beside a request."""

    fleet: Fleet
    egress: spec_pb2.Egress = field(default_factory=spec_pb2.Egress)
    """Holds the connections to addresses that no administrator registered."""
    checkpoints: str = ""
    """The root of all daggers' checkpoints."""
    platform: spec_pb2.KafkaAddress = field(default_factory=spec_pb2.KafkaAddress)
    """The Kafka of the quarantine."""


@dataclass(frozen=True, slots=True)
class ProcessInput:
    """What the process of an operation is given."""

    job: Message
    """Goes to its stdin."""
    secrets_of: Sequence[Message]
    """Its environment has the variables that the SecretRefs in these name, and no others."""
    words: Sequence[str] = ()
    """Further arguments. None is secret: arguments can be seen by all users of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOperation(Generic[Request]):
    """One method of HostService that a process of its own answers; its answers are the frames of `module`."""

    method: str
    """As host.proto has it; the request has `host` and `min_sequence`."""
    module: str
    """Of the runtime, which writes frames as `runtime.framed` does."""
    reads: str
    """What it reads, for the reasons and sentences of failures: records."""
    limit: Limit
    patience_s: float
    """How long a frame may take."""
    prepare: Callable[[Request, HostKnowledge], ProcessInput]
    """Raises: ApiError."""
    violations: Callable[[Request], Iterator[Violation]] = lambda _: iter(())

    @property
    def answer(self) -> type[Message]:
        """The class of its answers."""
        return GetMessageClass(_METHODS[self.method].output_type)


class OperationRunner:
    """Runs the operations of a table, each in a process of its own that dies with its call."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        folder: Path,
        follower: Follower[Applied],
        knowledge: HostKnowledge,
        table: Sequence[HostOperation[Any]],
    ) -> None:
        """`inherited` is the environment that secrets are found in, `folder` where processes run."""
        self._python, self._inherited, self._folder = python, inherited, folder
        self._follower, self._knowledge = follower, knowledge
        self._table = {operation.method: operation for operation in table}
        limits = {operation.limit for operation in table}
        self._places = {limit: Places(limit.most, limit.counted) for limit in limits}

    def violations(self, method: str, request: Any) -> list[Violation]:
        """Find what is wrong with a request."""
        return [*self._table[method].violations(request)]

    async def answers(self, method: str, request: Any) -> AsyncGenerator[Message, None]:
        """Run an operation on a request that has no violations. Raises: ApiError."""
        operation = self._table[method]
        with self._places[operation.limit].one():
            await reader_process.reached(self._follower, request.min_sequence)
            given = operation.prepare(request, self._knowledge)
            command = reader_process.command(self._python, operation.module, *given.words)
            environment = reader_process.environment(self._inherited, *given.secrets_of)
            async with reader_process.running(command, self._folder, environment) as process:
                await reader_process.say(process, given.job.SerializeToString())
                while frame := await reader_process.frame(process, operation.reads, operation.patience_s):
                    yield operation.answer.FromString(frame[1])
