"""A fleet of simulated hosts: the records that it has in the control topic, and the beats of its drivers.

Nothing of it runs. Each host has an agent by its registration and its beats alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagger
import workload
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from google.protobuf.message import Message

from eventlog import Draft
from fleet.decide.requirements import USERS
from fleet.fold.hosts import AGENT, host_subject

TEAMS, STREAMS, CRITICAL = 50, 200, 50
"""Numbers of teams and streams; each so manyth dagger is critical."""
_CATALOGUE = 2 + TEAMS + STREAMS
"""Number of records before those of hosts: of the cluster, the schema, teams and streams."""
_CORES, _MIB = 32, 2304
_META = events_pb2.RequestMeta(actor="bench")


@dataclass(frozen=True, slots=True)
class Model:
    """A fleet of `daggers` that run, as many on each of the `hosts`.

    first: sequence of its first record.
    """

    daggers: int
    hosts: int
    first: int = 0

    @property
    def names(self) -> Sequence[str]:
        """Names of the daggers."""
        return [f"dagger-{number:05}" for number in range(self.daggers)]

    @property
    def host_names(self) -> Sequence[str]:
        """Names of the hosts."""
        return [f"host-{number:02}" for number in range(self.hosts)]

    @property
    def host_epochs(self) -> Sequence[int]:
        """Epochs of the hosts, in the order of their names: sequences of their registrations."""
        return range(self.first + _CATALOGUE, self.first + _CATALOGUE + self.hosts)

    def host_of(self, number: int) -> str:
        """Return the host of a dagger by its number."""
        return f"host-{number % self.hosts:02}"

    def drafts(self) -> Iterator[Draft]:
        """Yield the records by which the fleet came to run."""
        now = datetime.now(UTC)
        for offset, (subject, message) in enumerate(self._messages()):
            yield Draft(f"bench-{self.first + offset}", "/bench", subject, now, message)

    def _messages(self) -> Iterator[tuple[str, Message]]:
        cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
        cluster.kafka.bootstrap_servers = "127.0.0.1:9092"
        yield "local", events_pb2.ClusterRegistered(meta=_META, cluster=cluster)
        schema = spec_pb2.Schema(files=workload.compile_files(), messages=[workload.MESSAGE])
        yield workload.MESSAGE, events_pb2.SchemaRegistered(meta=_META, schema=schema)
        for number in range(TEAMS):
            yield "", events_pb2.TeamRegistered(meta=_META, team={"name": f"team-{number}"})
        for number in range(STREAMS):
            stream = spec_pb2.Stream(
                name=f"stream-{number}",
                cluster="local",
                topics=[f"topic-{number}"],
                message=workload.MESSAGE,
                time_field=workload.TIME_FIELD,
            )
            yield stream.name, events_pb2.StreamRegistered(meta=_META, stream=stream)
        for host in self.host_names:
            yield host_subject(host), register(host)
        yield "scheduler", events_pb2.SchedulerStarted(scheduler_id="bench", host=self.host_names[0])
        epoch = self.first + _CATALOGUE + self.hosts
        for number, name in enumerate(self.names):
            yield name, events_pb2.DaggerRequested(meta=_META, name=name, spec=specify(number))
        for number, name in enumerate(self.names):
            generation = self._generation(number)
            meta = events_pb2.FactMeta(epoch=epoch, name=name)
            host = self.host_of(number)
            yield (
                name,
                events_pb2.LaunchIntended(
                    meta=meta, version=1, host=host, submission_id=f"LaunchIntended/{name}"
                ),
            )
            meta.generation = generation
            driver = events_pb2.DriverHandle(
                host=host, boot_id="bench", pid=1 + number, start_ticks=1, run_dir=f"/runs/{name}"
            )
            yield name, events_pb2.Launched(meta=meta, driver=driver)
            yield name, events_pb2.Running(meta=meta)

    def _generation(self, number: int) -> int:
        """Return the generation of a dagger: the sequence of its intent."""
        before = _CATALOGUE + self.hosts + 1 + self.daggers
        return self.first + before + 3 * number

    @property
    def last(self) -> int:
        """Sequence of the last record."""
        return self._generation(self.daggers) - 1

    def heartbeat(self, number: int, began: float) -> telemetry_pb2.Heartbeat:
        """Build what the driver of a dagger says now, which has run since `began` (`time.time()`)."""
        now, age = time.time(), time.time() - began
        beat = telemetry_pb2.Heartbeat(
            dagger=f"dagger-{number:05}",
            generation=self._generation(number),
            state=telemetry_pb2.Heartbeat.STATE_RUNNING,
            batch_id=int(age / 20),
            batch_duration_ms=420,
            rows_in=int(age * 10),
            rows_out=[int(age / 6)],
            lag={f"topic-{number % STREAMS}/{partition}": 3 for partition in range(4)},
            state_rows=1_200,
            host=self.host_of(number),
            pid=1 + number,
            memory_bytes=650 << 20,
            cpu_seconds=age * 0.01,
            age_ms=int(age * 1000),
            state_bytes=400_000,
            sink_rows={"kafka": int(age / 6)},
            taking=["kafka"],
            late_windows=0,
            completed={f"topic-{number % STREAMS}/{partition}": int(age * 10) for partition in range(4)},
        )
        beat.freshness["kafka"].rows = int(age / 6)
        beat.freshness["kafka"].p95_ms = 6_000
        for field, instant in ("time", now), ("last_progress", now - 2), ("last_commit", now - 12):
            getattr(beat, field).FromMilliseconds(int(instant * 1000))
        beat.watermark.FromMilliseconds(int((now - 9) * 1000))
        return beat


def register(host: str) -> events_pb2.HostRegistered:
    """Build the registration of a simulated host."""
    return events_pb2.HostRegistered(
        scheduler_id=f"bench-{host}",
        host=host,
        boot_id="bench",
        version="bench",
        cores=_CORES,
        memory_mib=400 * _MIB,
        shared_checkpoints=True,
        agent=AGENT,
        lacks=[USERS],
    )


def specify(number: int) -> spec_pb2.DaggerSpec:
    """Build the specification of a dagger by its number."""
    stream = spec_pb2.StreamInput(stream=f"stream-{number % STREAMS}", table="data_stream")
    sink = spec_pb2.Sink()
    sink.kafka.topic, sink.name = f"rows-{number}", "kafka"
    return spec_pb2.DaggerSpec(
        team=f"team-{number % TEAMS}",
        cluster="local",
        sql=dagger.SQL,
        streams=[stream],
        sinks=[sink],
        priority=spec_pb2.PRIORITY_CRITICAL if number % CRITICAL == 0 else spec_pb2.PRIORITY_UNSPECIFIED,
    )
