"""Requirements of a launch on its host beside room: labels, files, a Spark master, and a user. Pure.

A host registers what it lacks, in the words that are made here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Set
from typing import Final

from daggers.v1 import spec_pb2
from google.protobuf.message import Message

from daggerspec import master, secrets
from fleet.fold.dagger import Dagger
from fleet.fold.fleet import Fleet
from fleet.fold.hosts import Standing
from fleet.fold.resolve import find_references

USERS: Final = "users"
"""Word of a host whose drivers all run as its scheduler does."""
READER: Final = "reader"
"""Word of a host without the C reader: drivers there read more slowly, and no launch needs more."""
FILE: Final = "file "
"""Begin of the word for a file."""
MASTER: Final = "master "
"""Begin of the word for a Spark master."""


def format_file(path: str) -> str:
    """Format the word for a file."""
    return f"{FILE}{path}"


def format_user(team: str) -> str:
    """Format the word for the user that a team's drivers run as."""
    return f"user of {team}"


def format_master(url: str) -> str:
    """Format the word for a Spark master that is reached over the network."""
    return f"{MASTER}{url}"


def list_words(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> list[str]:
    """List the words for the files and the standalone Spark master that a launch needs."""
    words = [*map(format_file, sorted(find_files(fleet, spec)))]
    cluster = fleet.clusters.get(spec.cluster)
    parsed = master.parse(cluster.value.spark_master) if cluster is not None else None
    if parsed is not None and parsed.manager is master.Manager.STANDALONE:
        words.append(format_master(parsed.url))
    return words


def list_registered_words(fleet: Fleet) -> list[str]:
    """List the words for the files of all that is registered, whether a dagger needs it or not: samples,
    previews and tests of sinks read them, too.
    """
    kinds = fleet.clusters, fleet.catalogue.sinks, fleet.catalogue.secrets
    messages = (entry.value for entries in kinds for entry in entries.values())
    tables = (entry.value for entry in fleet.references.values())
    return [*map(format_file, sorted(_find_secret_files(fleet, messages) | _find_table_files(tables)))]


def find_files(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> frozenset[str]:
    """Find the absolute paths that a driver reads on its host: of secrets and of reference tables."""
    tables = _find_table_files(find_references(fleet, spec))
    return _find_secret_files(fleet, _list_messages(fleet, spec)) | tables


def _find_secret_files(fleet: Fleet, messages: Iterable[Message]) -> frozenset[str]:
    """Find the paths of the secrets that messages name."""
    references = (reference for message in messages for reference in secrets.references(message))
    return frozenset(place.file for one in references if (place := _find_place(fleet, one)).file)


def _find_table_files(tables: Iterable[spec_pb2.ReferenceTable]) -> frozenset[str]:
    """Find the paths of reference tables that are files of a host."""
    return frozenset(table.location for table in tables if table.location.startswith("/"))


def takes_environment(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> bool:
    """Tell whether a launch takes a secret from the environment of its process."""
    return any(
        _find_place(fleet, reference).env
        for message in _list_messages(fleet, spec)
        for reference in secrets.references(message)
    )


def find_unmet(
    fleet: Fleet, dagger: Dagger, *, labels: Mapping[str, str], lacks: Set[str], needs_user: bool
) -> Iterator[str]:
    """Yield what a host has not that a dagger needs, each as the rest of "it has no …".

    labels, lacks: as the host registered them. needs_user: as `needs_user` has it for the dagger's team.
    """
    for key, value in sorted(dagger.spec.needs.items()):
        if labels.get(key) != value:
            yield f"label {key}={value}"
    # a host that lacks no file and no master is the rule, and each launch asks for each host
    if any(word.startswith((FILE, MASTER)) for word in lacks):
        yield from (word for word in list_words(fleet, dagger.spec) if word in lacks)
    if needs_user and not _has_user(lacks, dagger.spec.team):
        yield format_user(dagger.spec.team)


def needs_user(fleet: Fleet, team: str) -> bool:
    """Tell whether any host runs a team's drivers as a user of their own, so that all have to."""
    return any(_registers_user(standing, team) for standing in fleet.standings.values())


def _registers_user(standing: Standing, team: str) -> bool:
    """Tell whether a host runs a team's drivers as a user of their own; an older one does not say."""
    registered = standing.registered
    return registered is not None and standing.launches_beside and _has_user(registered.lacks, team)


def _has_user(lacks: Container[str], team: str) -> bool:
    return USERS not in lacks and format_user(team) not in lacks


def _list_messages(fleet: Fleet, spec: spec_pb2.DaggerSpec) -> Iterator[Message]:
    """Yield what may name secrets of a dagger: its sinks, those registered that they name, and what of its
    clusters it reads and writes.
    """
    sinks = [*spec.sinks]
    for sink in spec.sinks:
        if (registered := fleet.catalogue.sinks.get(sink.registered)) is not None:
            yield registered.value
            sinks.append(registered.value.sink)
    yield from spec.sinks
    streams = (fleet.streams.get(read.stream) for read in spec.streams)
    clusters = {spec.cluster, *(entry.value.cluster for entry in streams if entry is not None)}
    clusters |= {sink.kafka.cluster for sink in sinks if sink.HasField("kafka")}
    for name in sorted(clusters):
        if (cluster := fleet.clusters.get(name)) is not None:
            yield cluster.value.kafka
    own = fleet.clusters.get(spec.cluster)
    if own is not None and any(sink.HasField("influx") for sink in sinks):
        yield own.value.influx


def _find_place(fleet: Fleet, reference: spec_pb2.SecretRef) -> spec_pb2.SecretRef:
    entry = fleet.catalogue.secrets.get(reference.name) if reference.name else None
    return reference if entry is None else entry.value.place
