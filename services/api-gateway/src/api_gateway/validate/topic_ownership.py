"""Judge the topics that a specification writes to: whether its own streams read them, or other teams own
them.

Topics are compared by their Kafka, not by the name of its cluster: one Kafka may be registered under several
names. Pure.
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
"""A topic: the name of its cluster, and its own name."""
_KAFKA: Final = "kafka://"
_ELSEWHERE: Final = "write elsewhere, or have an administrator give the topic to your team"
UNKNOWN = "KAFKA_UNKNOWN"
"""Reason for two clusters of which it is unknown whether they are one Kafka."""


def written_topics(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> dict[str, Place]:
    """Return the topics that a specification writes to, by the fields that name them."""
    return {
        f"sinks[{number}].kafka.topic": (_cluster(sink, fleet) or spec.cluster, sink.kafka.topic)
        for number, sink in enumerate(spec.sinks)
        if sink.HasField("kafka")
    }


def _cluster(sink: spec_pb2.Sink, fleet: Fleet) -> str:
    """Return the cluster of a sink, by its own field or its registration."""
    # the registration's common part: parts of single teams are on the same server
    entry = fleet.catalogue.sinks.get(sink.registered)
    return sink.kafka.cluster or (entry.value.sink.kafka.cluster if entry else "")


def read(spec: spec_pb2.DaggerSpec, fleet: Fleet) -> set[Place]:
    """Return the topics that its streams read."""
    streams = [entry.value for stream in spec.streams if (entry := fleet.streams.get(stream.stream))]
    return {(stream.cluster, topic) for stream in streams for topic in stream.topics}


def of_others(name: str, team: str, fleet: Fleet) -> dict[Place, str]:
    """Return the topics that other teams own, or that their daggers write to, each with its team."""
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
        for place in written_topics(dagger.spec, fleet).values()
    }


def of_streams(team: str, fleet: Fleet) -> dict[Place, str]:
    """Return the topics of registered streams that a team neither owns nor writes to, each
    with its stream.
    """
    own = {
        place
        for dagger in fleet.daggers.values()
        if dagger.phase != DELETED and dagger.spec.team == team
        for place in written_topics(dagger.spec, fleet).values()
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


def hidden_topics(path: str, new: Mapping[str, Place], team: str, fleet: Fleet) -> Iterator[Violation]:
    """Yield violations for topics that programs hide from listings, as schema registries do, unless the team
    owns them.
    """
    for field, place in new.items():
        if place[1].startswith("_") and place[1] not in INTERNAL and not _is_owned(place, team, fleet):
            text = f"{place[1]} is some program's own, as topics are that begin with _: {_ELSEWHERE}"
            yield Violation(f"{path}.{field}", text, "FOREIGN_TOPIC")


def unclear(new: Mapping[str, Place], others: set[Place]) -> set[str]:
    """Return the clusters that must be compared, since topics of one name are in several."""
    return {
        cluster
        for place in new.values()
        for other in others
        if place[1] == other[1] and place[0] != other[0]
        for cluster in (place[0], other[0])
    }


class Kafkas:
    """Compares clusters by their Kafkas."""

    def __init__(self, fleet: Fleet, ids: Mapping[str, str]) -> None:
        """Remember the ids of Kafkas by the names of clusters; empty where no host answers."""
        self._fleet, self._ids = fleet, ids

    def same(self, one: str, other: str) -> bool | None:
        """Return whether two clusters are one Kafka; None where it is unknown."""
        ids = self._ids.get(one, ""), self._ids.get(other, "")
        if one == other or all(ids):
            return one == other or ids[0] == ids[1]
        servers = [entry.value.kafka for name in (one, other) if (entry := self._fleet.clusters.get(name))]
        return True if len(servers) == 2 and is_same(*servers) else None

    def come_back(self, path: str, new: Mapping[str, Place], inputs: set[Place]) -> Iterator[Violation]:
        """Yield violations for topics that are inputs under another name of their cluster; the rule book
        finds those of the same name.
        """
        for field, (cluster, topic) in new.items():
            for other in sorted(where for where, its in inputs if its == topic and where != cluster):
                if same := self.same(cluster, other):
                    text = (
                        f"{topic} is read by this dagger: cluster {cluster} is the Kafka of cluster {other}"
                    )
                    yield Violation(f"{path}.{field}", text, "LOOP")
                elif same is None:
                    yield _unknown(f"{path}.{field}", cluster, other, f"whose {topic} this dagger reads")

    def foreign_topics(
        self, path: str, new: Mapping[str, Place], others: Mapping[Place, str]
    ) -> Iterator[Violation]:
        """Yield violations for topics that other teams write to."""
        for field, topic, cluster, where, team in _alike(path, new, others):
            if same := self.same(cluster, where):
                text = f"{topic} is team {team}'s: {_ELSEWHERE}"
                yield Violation(field, text, "FOREIGN_TOPIC")
            elif same is None:
                yield _unknown(field, cluster, where, f"to whose {topic} team {team} writes")

    def read(self, path: str, new: Mapping[str, Place], streams: Mapping[Place, str]) -> Iterator[Violation]:
        """Yield violations for topics of streams that the team does not own: writing there adds records to
        the stream.
        """
        for field, topic, cluster, where, stream in _alike(path, new, streams):
            if same := self.same(cluster, where):
                yield Violation(field, f"{topic} is read as stream {stream}: {_ELSEWHERE}", "FOREIGN_TOPIC")
            elif same is None:
                yield _unknown(field, cluster, where, f"whose {topic} is stream {stream}'s")


def _alike(
    path: str, new: Mapping[str, Place], others: Mapping[Place, str]
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield topics of one name as (field, topic, its cluster, the other cluster, the other owner)."""
    for field, (cluster, topic) in new.items():
        for (where, its), whose in sorted(others.items()):
            if its == topic:
                yield f"{path}.{field}", topic, cluster, where, whose


def _unknown(field: str, cluster: str, other: str, why: str) -> Violation:
    text = f"nobody answers whether cluster {cluster} is the Kafka of cluster {other}, {why}"
    return Violation(field, text, UNKNOWN)
