"""Other hosts as a leader knows them: whose agents it may count on, and the room that they have."""

from __future__ import annotations

from fleet import Fleet
from fleet.decide.placement import Candidate, describe_candidate, room_of
from fleet.fold.quotas import Room
from scheduler.leader.host_watch import HostWatch


class Peers:
    """The hosts beside that of one scheduler, by the log and by their beats."""

    def __init__(self, fleet: Fleet, watch: HostWatch, *, host: str, shared: bool) -> None:
        """host: of this scheduler. shared: whether all hosts have one checkpoint root."""
        self._fleet, self._watch, self._host, self._shared = fleet, watch, host, shared

    def hears(self, host: str) -> bool:
        """Tell whether the agent of a host is heard, and launches what a leader elsewhere intends."""
        standing = self._fleet.standing(host)
        return standing.has_agent and self._watch.hears_agent(host, standing.epoch)

    def looks_after(self, host: str, generation: int) -> bool:
        """Tell whether the agent of another host looks after a shadow or an attempt of a replay there, or
        will: it is silent for a moment when it is started anew.

        generation: sequence of its intent.
        """
        standing = self._fleet.standing(host)
        return (
            host != self._host
            and standing.launches_beside
            and not standing.has_lost(generation)
            and not self._watch.misses_agent(host)
        )

    def takes(self, host: str) -> bool:
        """Tell whether a shadow or an attempt of a replay may be given to the agent of another host now."""
        return host != self._host and self._fleet.standing(host).launches_beside and self.hears(host)

    def room(self, host: str, driver_memory_mib: int) -> Room:
        """Return what another host has for drivers: as it measured last, else as it registered.

        driver_memory_mib: heap in MiB of a driver whose dagger does not say.
        """
        return room_of(self._fleet.standing(host), driver_memory_mib, self._watch.memory_mib(host))

    def candidates(self, own: Room, ran_on: str) -> list[Candidate]:
        """List the hosts that can launch a dagger, this one first.

        own: room of this one. ran_on: where its last driver was RUNNING. Where each host has checkpoints of
        its own, one that has the dagger's is the only one.
        """
        here, others = self._list_hosts(own)
        if self._shared:
            return [here, *(others[host] for host in others if self._shares(host))]
        if ran_on in others:
            return [others[ran_on]]
        is_new = not ran_on or self._fleet.standing(ran_on).is_gone
        return [here, *others.values()] if is_new else [here]

    def list_refuges(self, own: Room, host: str) -> list[Candidate]:
        """List the hosts that can go on with what runs on a host: those that reach its checkpoints.

        own: room of this one, which is the first.
        """
        here, others = self._list_hosts(own)
        if not self._shared or not (host == self._host or self._shares(host)):
            return []
        return [here, *(others[other] for other in others if self._shares(other))]

    def list_replay_hosts(self, home: str) -> list[str]:
        """List the hosts where an attempt of a replay may be started: where its dagger is, if an agent takes
        it there, else this one; then, where hosts have one checkpoint root, every other one that shares it.

        home: host of the dagger.
        """
        first = home if self.takes(home) else self._host
        if not self._shared:
            return [first]
        sharing = filter(self._shares, sorted(self._fleet.standings))
        return [*dict.fromkeys((first, self._host, *filter(self.takes, sharing)))]

    def _shares(self, host: str) -> bool:
        """Tell whether a host registered the checkpoint root that hosts share."""
        return self._fleet.standing(host).shares_checkpoints

    def _list_hosts(self, own: Room) -> tuple[Candidate, dict[str, Candidate]]:
        """List this host, and all others that can launch, by name."""
        here = self.candidate(self._host, own)
        others = {
            host: self.candidate(host, self.room(host, own.driver_memory_mib))
            for host in sorted(self._fleet.standings)
            if host != self._host and self.hears(host)
        }
        return here, others

    def candidate(self, host: str, room: Room) -> Candidate:
        """Describe a host with so much room as it registered it, and by its last beat."""
        return describe_candidate(host, self._fleet.standing(host), room, self._watch.busy_cores(host))
