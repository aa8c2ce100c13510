"""Topics that a specification writes to: whether its own streams read them, or other teams write there.

Topics are told apart by the Kafka that they are in, not by the name of its cluster: one Kafka may be
registered under several names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from daggers.v1 import spec_pb2

from daggerspec import sinks
from daggerspec.destination import servers_at
from daggerspec.kafka import is_same
from daggerspec.topics import INTERNAL
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold.ownership import read as destination
from fleet.fold.phases import DELETED

Place: TypeAlias = tuple[str, str]
"""A topic: the name of its cluster, and its own."""
_KAFKA: Final = "kafka://"
_ELSEWHERE: Final = "write elsewhere, or have an administrator give the topic to your team"
UNKNOWN = "KAFKA_UNKNOWN"
"""It could not be found out whether two clusters are one Kafka."""


def written(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> dict[str, Place]:
    """The topics that a specification writes to, by the fields that name them."""
    return {
        f"sinks[{number}].kafka.topic": (_cluster(sink, fleet) or spec.cluster, sink.kafka.topic)
        for number, sink in enumerate(spec.sinks)
        if sink.HasField("kafka")
    }


def _cluster(sink: spec_pb2.Sink, fleet: Fleet) -> str:
    """The cluster that a sink says, itself or by its registration."""
    # Of one for all teams: parts of a team's own are on the same server.
    entry = fleet.catalogue.sinks.get(sink.registered)
    return sink.kafka.cluster or (entry.value.sink.kafka.cluster if entry else "")


def read(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> set[Place]:
    """The topics of its streams."""
    streams = [entry.value for stream in spec.streams if (entry := fleet.streams.get(stream.stream))]
    return {(stream.cluster, topic) for stream in streams for topic in stream.topics}


def of_others(name: str, team: str, fleet: Fleet) -> dict[Place, str]:
    """The topics that other teams own, or daggers of them write to, and which team that is."""
    names = {
        servers_at(entry.value.kafka.bootstrap_servers): cluster
        for cluster, entry in sorted(fleet.clusters.items(), reverse=True)
    }
    owned = {
        (names[place.server], place.name): entry.value.team
        for text, entry in fleet.catalogue.destinations.items()
        if entry.value.team != team and text.startswith(_KAFKA)
        if (place := destination(text)) is not None and place.server in names
    }
    return owned | {
        place: dagger.spec.team
        for other, dagger in fleet.daggers.items()
        if other != name and dagger.phase != DELETED and dagger.spec.team != team
        for place in written(dagger.spec, fleet).values()
    }


def of_streams(team: str, fleet: Fleet) -> dict[Place, str]:
    """The topics that a team has not been given and no dagger of it writes to, of registered streams: which
    stream reads it.
    """
    own = {
        place
        for dagger in fleet.daggers.values()
        if dagger.phase != DELETED and dagger.spec.team == team
        for place in written(dagger.spec, fleet).values()
    }
    places = {
        (entry.value.cluster, topic): name
        for name, entry in fleet.streams.items()
        for topic in entry.value.topics
    }
    return {
        place: stream
        for place, stream in places.items()
        if place not in own and not _is_owned(place, team, fleet)
    }


def _is_owned(place: Place, team: str, fleet: Fleet) -> bool:
    cluster = fleet.clusters.get(place[0])
    address = cluster.value.kafka if cluster else None
    sink = spec_pb2.Sink(kafka=spec_pb2.KafkaSink(topic=place[1]))
    written_to = sinks.destination(spec_pb2.ResolvedSink(sink=sink, kafka=address))
    owned = fleet.catalogue.destinations.get(str(written_to))
    return owned is not None and owned.value.team == team


def hidden(path: str, new: Mapping[str, Place], team: str, fleet: Fleet) -> Iterator[Violation]:
    """Topics that programs hide from listings, as registries of schemas do, and that a team was not given."""
    for field, place in new.items():
        if place[1].startswith("_") and place[1] not in INTERNAL and not _is_owned(place, team, fleet):
            text = f"{place[1]} is some program's own, as topics are that begin with _: {_ELSEWHERE}"
            yield Violation(f"{path}.{field}", text, "FOREIGN_TOPIC")


def unclear(new: Mapping[str, Place], others: set[Place]) -> set[str]:
    """The clusters whose Kafkas have to be told apart: topics of one name are in them."""
    return {
        cluster
        for place in new.values()
        for other in others
        if place[1] == other[1] and place[0] != other[0]
        for cluster in (place[0], other[0])
    }


class Kafkas:
    """Which clusters are one Kafka."""

    def __init__(self, fleet: Fleet, ids: Mapping[str, str]) -> None:
        """`ids`: what Kafkas say that they are, by the names of clusters; empty where nobody answers."""
        self._fleet, self._ids = fleet, ids

    def same(self, one: str, other: str) -> bool | None:
        """Whether two clusters are; None when nobody knows."""
        ids = self._ids.get(one, ""), self._ids.get(other, "")
        if one == other or all(ids):
            return one == other or ids[0] == ids[1]
        servers = [entry.value.kafka for name in (one, other) if (entry := self._fleet.clusters.get(name))]
        return True if len(servers) == 2 and is_same(*servers) else None

    def come_back(self, path: str, new: Mapping[str, Place], inputs: set[Place]) -> Iterator[Violation]:
        """Topics that are inputs by another name of their cluster; by the same one the rule book says it."""
        for field, (cluster, topic) in new.items():
            for other in sorted(where for where, its in inputs if its == topic and where != cluster):
                if same := self.same(cluster, other):
                    text = (
                        f"{topic} is read by this dagger: cluster {cluster} is the Kafka of cluster {other}"
                    )
                    yield Violation(f"{path}.{field}", text, "LOOP")
                elif same is None:
                    yield _unknown(f"{path}.{field}", cluster, other, f"whose {topic} this dagger reads")

    def taken(self, path: str, new: Mapping[str, Place], others: Mapping[Place, str]) -> Iterator[Violation]:
        """Topics that daggers of other teams write to."""
        for field, topic, cluster, where, team in _alike(path, new, others):
            if same := self.same(cluster, where):
                text = f"{topic} is team {team}'s: {_ELSEWHERE}"
                yield Violation(field, text, "FOREIGN_TOPIC")
            elif same is None:
                yield _unknown(field, cluster, where, f"to whose {topic} team {team} writes")

    def read(self, path: str, new: Mapping[str, Place], streams: Mapping[Place, str]) -> Iterator[Violation]:
        """Topics of streams that a team was not given: who writes there makes records of that stream."""
        for field, topic, cluster, where, stream in _alike(path, new, streams):
            if same := self.same(cluster, where):
                yield Violation(field, f"{topic} is read as stream {stream}: {_ELSEWHERE}", "FOREIGN_TOPIC")
            elif same is None:
                yield _unknown(field, cluster, where, f"whose {topic} is stream {stream}'s")


def _alike(
    path: str, new: Mapping[str, Place], others: Mapping[Place, str]
) -> Iterator[tuple[str, str, str, str, str]]:
    """Topics of one name: the field, the name, the cluster it says, the other cluster, and whose that is."""
    for field, (cluster, topic) in new.items():
        for (where, its), whose in sorted(others.items()):
            if its == topic:
                yield f"{path}.{field}", topic, cluster, where, whose


def _unknown(field: str, cluster: str, other: str, why: str) -> Violation:
    text = f"nobody answers whether cluster {cluster} is the Kafka of cluster {other}, {why}"
    return Violation(field, text, UNKNOWN)
