"""Those who ask for things and insist on an answer, and on-call, who looks where no scheduler can."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any

import grpc
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from tests.simulation.crew import Crew, Member
from tests.simulation.hosts import Host
from tests.simulation.replays import DB
from tests.simulation.witness import Violation

from chassis.errors import ApiError
from fleet import Answer
from fleet.fold.hosts import host_subject

NAMES = ("a", "b", "c")
SHARES = 0.0
"""Share of the lives in which most daggers share processes. 0 until 10,000 such lives were lived through."""
CALL_S = 5.0
"""How long a caller waits for one gateway."""
AWAY_S = 130.0
"""A host that nobody reached for so long is vouched for as dead: more than twice the patience of a lease."""
META = events_pb2.RequestMeta(actor="simulation")
SINK = spec_pb2.Sink(log={}, name=DB, on_outage={"then": spec_pb2.OnOutage.THEN_SKIP, "auto_replay": True})


def asked(
    name: str, sql: str, *, zone: str = "", is_critical: bool = False, is_shared: bool = False
) -> events_pb2.DaggerRequested:
    """A revision with this query. That of `run 2` has no state of its own, that of `run 3` no common end.

    zone: where it must run; empty: anywhere. is_shared: whether it shares a process.
    """
    query = events_pb2.QueryState(
        identity=sql.removesuffix(" 2"), no_cutover="sessions" if "3" in sql else ""
    )
    spec = spec_pb2.DaggerSpec(cluster="local", sql=sql, sinks=[SINK], needs={"zone": zone} if zone else {})
    if is_critical:
        spec.priority = spec_pb2.PRIORITY_CRITICAL
    if is_shared:
        spec.isolation = spec_pb2.ISOLATION_SHARED
    return events_pb2.DaggerRequested(meta=META, name=name, spec=spec, query=query)


class People:
    """Owners of daggers, and on-call."""

    def __init__(self, crew: Crew) -> None:
        self.waiting: dict[Hashable, asyncio.Task[None]] = {}
        """What they wait for."""
        self._crew, self._world, self._random = crew, crew.world, crew.random
        self._founded = False
        self._done: set[Hashable] = set()
        """Requests that were begun in the end."""
        self.drains = self._random.random() < 0.3
        """Whether an administrator drains one of two hosts in the end."""
        self._shares = bool(SHARES) and self._random.random() < SHARES
        """Whether most daggers share processes."""
        self._whole_hosts = self._random.random() < 0.5
        """Whether on-call vouches for the death of a host, rather than of each driver on it."""

    def begin(self) -> None:
        """Ask for the first daggers."""
        self._wait("the first daggers", self._found())

    async def _found(self) -> None:
        cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
        await self._insist(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")
        keeper = spec_pb2.Stream(name="keeper", cluster="local", topics=["t"], message="m.M")
        await self._insist(events_pb2.StreamRegistered(meta=META, stream=keeper), "keeper")
        self._founded = True  # from now on, something names the cluster
        for name in NAMES:
            await self._insist(asked(name, "run", is_shared=self._shares), name)

    def request(self, key: Hashable, message: Any, subject: str) -> None:
        """Let somebody ask for it, unless he who asks for `key` still waits."""
        if key not in self.waiting:
            self._wait(key, self._insist(message, subject))

    def _wait(self, key: Hashable, asking: Coroutine[Any, Any, None]) -> None:
        def answered(task: asyncio.Task[None]) -> None:
            del self.waiting[key]
            task.result()  # a violation ends this life

        self.waiting[key] = asyncio.create_task(asking)
        self.waiting[key].add_done_callback(answered)

    async def _insist(self, message: Any, subject: str) -> None:
        """Ask one gateway after the other, always under the same id, until there is an answer."""
        request_id = self._world.id()
        while True:
            serving = [each for each in self._crew.serving("gateway") if each.gateway and each.gateway.writer]
            if serving:
                outcome = await self._call(self._random.choice(serving), message, subject, request_id)
                if outcome is not None:
                    self._acknowledged(request_id, outcome)
                    return
            await asyncio.sleep(self._random.uniform(0.1, 2))

    async def _call(
        self, member: Member, message: Any, subject: str, request_id: str
    ) -> Answer | ApiError | None:
        """The answer of a gateway; None when it has none, or none in time."""
        answered: asyncio.Future[Answer | ApiError] = asyncio.get_running_loop().create_future()

        async def serve() -> None:
            assert member.gateway is not None
            writer = member.gateway.writer
            assert writer is not None
            outcome: Answer | ApiError | None
            try:
                outcome = writer.find_answer(request_id, (message,))
                outcome = outcome or await writer.write(subject, message, request_id, path="")
            except ApiError as error:
                outcome = error
            if not answered.done():
                answered.set_result(outcome)

        self._crew.loop.spawn(member.process, serve())
        await asyncio.wait([answered], timeout=CALL_S)
        if not answered.done():
            answered.cancel()
            return None
        outcome = answered.result()
        again = isinstance(outcome, ApiError) and outcome.code is grpc.StatusCode.UNAVAILABLE
        return None if again else outcome

    def _acknowledged(self, request_id: str, outcome: Answer | ApiError) -> None:
        """What was answered stands in the log, and is what the log says. Raises: Violation."""
        stands = self._world.control_witness.fleet.answers.get(request_id)
        if isinstance(outcome, Answer):
            same = outcome == stands
        else:
            same = (
                stands is not None and stands.refusal is not None and stands.refusal.reason == outcome.reason
            )
        if not same:
            raise Violation(f"request {request_id} was answered {outcome!r}, and the log says {stands}")

    def ask(self) -> None:
        """Now and then somebody asks for something, or for several things at once."""
        if self._random.random() > 0.25:
            return
        name = self._random.choice(NAMES)
        for _ in range(self._random.choice([1, 1, 2, 3])):
            kind = self._random.choice(
                ["start", "stop", "restart", "edit", "delete", "replay", "replay", "allow"]
            )
            self.request(self._world.id(), self._message(kind, name), name)
        if self._founded and self._random.random() < 0.2:
            self.request(self._world.id(), self._of_catalogue(name), name)

        if self._founded and self._random.random() < 0.1:
            host = self._random.choice(self._crew.hosts).name
            kind = self._random.choice(
                [
                    *(events_pb2.HostCordoned, events_pb2.HostDrainRequested, events_pb2.HostDrainRequested),
                    *(events_pb2.HostUncordoned, events_pb2.HostUncordoned),
                ]
            )
            self.request(("host", host), kind(meta=META, host=host), host_subject(host))

    def place(self) -> None:
        """Let hosts take launches again after the faults; drain one for good, where another can take all."""
        fleet = self._world.control_witness.fleet
        retired = self.retired
        for host in self._crew.hosts:
            cordon = fleet.standing(host.name).cordon
            if host is retired:
                # Whoever was stopped while no other host took it stays until somebody drains the host again.
                came_back = cordon is not None and any(move.to_host == host.name for move in cordon.moves)
                if cordon is None or came_back or ("drain", host.name) not in self._done:
                    self._done.add(("drain", host.name))
                    drained = events_pb2.HostDrainRequested(meta=META, host=host.name)
                    self.request(("drain", host.name), drained, host_subject(host.name))
            elif cordon is not None:
                ended = events_pb2.HostUncordoned(meta=META, host=host.name)
                self.request(("uncordon", host.name), ended, host_subject(host.name))

    @property
    def retired(self) -> Host | None:
        """The host that is to be empty in the end; None where every one is to be used."""
        hosts = self._crew.hosts
        able = self._crew.shared and all(host.agent and not host.gone for host in hosts)
        registered = all(host.name in self._world.control_witness.fleet.standings for host in hosts)
        return hosts[0] if self.drains and able and registered and len(hosts) > 1 else None

    def _of_catalogue(self, name: str) -> Any:
        """A stream with the name of a dagger comes and goes; somebody tries to remove the cluster of all."""
        match self._random.choice(["register", "remove", "remove cluster"]):
            case "register":
                stream = spec_pb2.Stream(name=name, cluster="local", topics=["t"], message="m.M")
                return events_pb2.StreamRegistered(meta=META, stream=stream)
            case "remove":
                return events_pb2.StreamRemoved(meta=META, name=name)
            case _:
                return events_pb2.ClusterRemoved(meta=META, name="local")

    def _message(self, kind: str, name: str) -> Any:
        match kind:
            case "stop":
                mode = self._random.choice([events_pb2.STOP_MODE_DRAIN, events_pb2.STOP_MODE_NOW])
                return events_pb2.StopRequested(meta=META, name=name, mode=mode)
            case "restart":
                return events_pb2.RestartRequested(meta=META, name=name)
            case "edit":
                zone = self._random.choice(["", "", *(host.zone for host in self._crew.hosts)])
                critical = self._random.random() < 0.3
                shared = self._shares and self._random.random() < 0.8
                sql = f"run {self._random.randrange(4)}"
                return asked(name, sql, zone=zone, is_critical=critical, is_shared=shared)
            case "replay":
                return self._replay(name)
            case "allow":
                until = {"seconds": self._random.randrange(2_000_000_000)}
                return events_pb2.AllowRefusalsRequested(meta=META, name=name, until=until)
            case "delete" if self._random.random() < 0.3:
                return events_pb2.DeleteRequested(meta=META, name=name)
            case _:
                return events_pb2.StartRequested(meta=META, name=name)

    def _replay(self, name: str) -> Any:
        """Everything that is open, or what was refused for one reason."""
        quarantine = self._crew.sinks.quarantine
        reasons = self._random.choice([[], [], ["CONSTRAINT"], ["MALFORMED"]])
        return events_pb2.QuarantineReplayRequested(
            meta=META,
            name=name,
            replay_id=self._world.id(),
            selection=events_pb2.QuarantineSelection(reasons=reasons),
            up_to={0: len(quarantine.records)},
            computes=reasons != ["CONSTRAINT"],
            recompute=self._random.random() < 0.5,
        )

    def encourage(self) -> None:
        """What was given up while things went wrong is begun once more."""
        for dagger in self._world.control_witness.fleet.daggers.values():
            if dagger.desired != gateway_pb2.DESIRED_RUNNING:
                continue
            if dagger.phase == gateway_pb2.FAILED:
                started = events_pb2.StartRequested(meta=META, name=dagger.name)
                self.request(("start", dagger.name), started, dagger.name)

    def _vouch(self, host: str) -> None:
        """Say once for each life of a host that it is gone."""
        standing = self._world.control_witness.fleet.standing(host)
        if not standing.is_gone:
            gone = events_pb2.HostGone(
                meta=META, host=host, epoch=standing.epoch, cause=events_pb2.HOST_GONE_CAUSE_PERSON
            )
            self.request(("gone", host, standing.epoch), gone, host_subject(host))

    def look_after(self) -> None:
        """Vouch for the death of what is dead, and end by hand what no scheduler of its host looks after."""
        fleet = self._world.control_witness.fleet
        for dagger in fleet.daggers.values():
            host, driver = self._crew.driver(dagger.name, dagger.generation)
            remote = host is not None and fleet.leader is not None and fleet.leader.host != host.name
            old = host is not None and not host.agent  # else its agent looks after it, whoever leads
            if (
                driver is not None
                and host is not None
                and remote
                and old
                and not host.cut
                and not self._world.faulty
            ):
                asked = dagger.desired == gateway_pb2.DESIRED_RUNNING and dagger.current
                if not asked or dagger.phase == gateway_pb2.UNREACHABLE:
                    driver.end(None)
            if dagger.phase != gateway_pb2.UNREACHABLE or dagger.confirmed_dead:
                continue
            if self._crew.shared and host is not None and host.agent:
                continue  # whoever leads finds out
            away = host is not None and host.cut and self._crew.loop.time() - host.cut_at > AWAY_S
            if host is not None and (away or host.gone) and self._whole_hosts:
                self._vouch(host.name)
            elif driver is None or not driver.alive or away:
                confirmed = events_pb2.DeathConfirmed(
                    meta=META, name=dagger.name, generation=dagger.generation
                )
                self.request(("dead", dagger.name, dagger.generation), confirmed, dagger.name)
