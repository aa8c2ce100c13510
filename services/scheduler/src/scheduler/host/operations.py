"""Host operations, which a process of the runtime answers for a caller, and their runner.

An operation is one entry of `operation_table`. The runner does the rest: it limits the processes that run
at once, waits until this host has read far enough, starts the process with its secrets, and kills it when the
call ends.
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
from fleet import ApplyResult, Fleet
from scheduler.host import reader_process
from scheduler.host.reader_process import Places

_METHODS: Final = host_pb2.DESCRIPTOR.services_by_name["HostService"].methods_by_name
Request = TypeVar("Request", bound=Message)


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit on the processes that run at once, over all operations that share it."""

    most: int
    processes: str
    """Name of the processes in a refusal: samples of streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKnowledge:
    """State and settings of a host that jobs are built from, beside the request."""

    fleet: Fleet
    egress: spec_pb2.Egress = field(default_factory=spec_pb2.Egress)
    """Limits on connections to addresses that no administrator registered."""
    checkpoints: str = ""
    """Root of all daggers' checkpoints, a path or URI."""
    platform: spec_pb2.KafkaAddress = field(default_factory=spec_pb2.KafkaAddress)
    """The Kafka of the quarantine."""


@dataclass(frozen=True, slots=True)
class ProcessInput:
    """Input of an operation's process: job, secrets and arguments."""

    job: Message
    """Written to its stdin, serialised."""
    secrets_of: Sequence[Message]
    """Its environment has the variables that the SecretRefs in these name, and no others."""
    arguments: Sequence[str] = ()
    """Further arguments. None may be secret: all users of the host can see them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOperation(Generic[Request]):
    """Method of HostService that a process of its own answers; each answer is a frame of that process."""

    method: str
    """Name in host.proto; its request has `host` and `min_sequence`."""
    module: str
    """Module of the runtime that the process runs; it answers by `runtime.framed`."""
    reads: str
    """Noun for reasons and messages of failures: records."""
    limit: Limit
    patience_s: float
    """Seconds that each frame may take."""
    prepare: Callable[[Request, HostKnowledge], ProcessInput]
    """Builds the input. Raises: ApiError."""
    violations: Callable[[Request], Iterator[Violation]] = lambda _: iter(())
    """Yields the violations of a request."""

    @property
    def answer(self) -> type[Message]:
        """Message class of the answers."""
        return GetMessageClass(_METHODS[self.method].output_type)


class OperationRunner:
    """Runs the operations of a table, each in a process of its own that dies with its call."""

    def __init__(
        self,
        python: str,
        inherited: Mapping[str, str],
        folder: Path,
        follower: Follower[ApplyResult],
        knowledge: HostKnowledge,
        table: Sequence[HostOperation[Any]],
    ) -> None:
        """Take a table, and what its processes need.

        inherited: the environment that secrets are read from. folder: the working folder of processes.
        """
        self._python, self._inherited, self._folder = python, inherited, folder
        self._follower, self._knowledge = follower, knowledge
        self._table = {operation.method: operation for operation in table}
        limits = {operation.limit for operation in table}
        self._places = {limit: Places(limit.most, limit.processes) for limit in limits}

    def find_violations(self, method: str, request: Any) -> list[Violation]:
        """Return all violations of a request."""
        return [*self._table[method].violations(request)]

    async def run(self, method: str, request: Any) -> AsyncGenerator[Message, None]:
        """Run an operation on a request without violations; yield its answers. Raises: ApiError."""
        operation = self._table[method]
        with self._places[operation.limit].one():
            await reader_process.wait_until_read(self._follower, request.min_sequence)
            prepared = operation.prepare(request, self._knowledge)
            command = reader_process.command(self._python, operation.module, *prepared.arguments)
            environment = reader_process.environment(self._inherited, *prepared.secrets_of)
            async with reader_process.running(command, self._folder, environment) as process:
                await reader_process.say(process, prepared.job.SerializeToString())
                while frame := await reader_process.frame(process, operation.reads, operation.patience_s):
                    yield operation.answer.FromString(frame[1])
