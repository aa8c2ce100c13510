"""Routes to the hosts of daggers, and errors of hosts as callers see them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import grpc
from daggers.v1 import spec_pb2

from api_gateway.not_found import no_dagger
from chassis.errors import ApiError
from fleet import Dagger, Fleet
from fleet.decide.drain import build_cordoned, takes_new
from fleet.decide.requirements import find_files, format_file
from fleet.fold.answers import about
from fleet.fold.hosts import Endpoint


@dataclass(frozen=True, slots=True)
class HostRoute:
    """The endpoints of a host."""

    host: str
    endpoints: tuple[Endpoint, ...]
    """Endpoints in the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class Route(HostRoute):
    """The endpoints of the host of a dagger's newest launch."""

    dagger: Dagger


def living(fleet: Fleet, name: str, create_sequence: int = 0) -> Dagger:
    """Return the living dagger of a name; of this creation, if given. Raises: ApiError where
    there is none.
    """
    dagger = fleet.living(name)
    if create_sequence and (dagger is None or create_sequence != dagger.create_sequence):
        text = f"there is no dagger {name} of sequence {create_sequence}"
        metadata = {**about("dagger", name), "create_sequence": str(create_sequence)}
        raise ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text, metadata)
    if dagger is None:
        raise no_dagger(name, fleet)
    return dagger


def find_remembered(fleet: Fleet, name: str, create_sequence: int = 0) -> Dagger:
    """Return the living dagger of a name, or a deleted one until its name is used again: its logs outlive it.

    Raises: ApiError where there is none.
    """
    dagger = fleet.daggers.get(name)
    if dagger is not None and create_sequence in (0, dagger.create_sequence):
        return dagger
    return living(fleet, name, create_sequence)


def route(fleet: Fleet, dagger: Dagger) -> Route | None:
    """Return the route to a dagger's host; None where it was never launched. Raises: ApiError."""
    host = fleet.host_of(dagger)
    if not host:
        return None
    endpoints = fleet.hosts.get(host, ())
    if not endpoints:
        raise unreachable(host, "no scheduler there has said where it serves")
    return Route(host, endpoints, dagger)


def of_replay(fleet: Fleet, dagger: Dagger) -> Route | None:
    """Return the route for a dagger's newest replay: to the host where it ran last, or else to the leader's.

    None where there was none. Raises: ApiError.
    """
    if dagger.replay is None:
        return None
    host = dagger.replay.host or everywhere(fleet)[0].host
    if host not in fleet.hosts:
        raise unreachable(host, "no scheduler there has said where it serves")
    return Route(host, fleet.hosts[host], dagger)


def everywhere(fleet: Fleet) -> list[HostRoute]:
    """Return the routes to all hosts, the leading scheduler's first: it launches drivers, so it has their
    secrets.

    Raises: ApiError where no scheduler has registered an endpoint.
    """
    leading = fleet.leader.host if fleet.leader else ""
    names = sorted(fleet.hosts, key=lambda name: (name != leading, name))
    if not names:
        raise ApiError(
            grpc.StatusCode.UNAVAILABLE,
            "NO_HOST",
            "no scheduler has said where it serves: streams and sinks are reached from the hosts of drivers",
            {"hosts": "0"},
        )
    return [HostRoute(name, fleet.hosts[name]) for name in names]


def find_uncordoned(fleet: Fleet) -> list[HostRoute]:
    """Return the routes to the hosts that take new work, in the order of `everywhere`.

    Raises: ApiError where every host that is not gone is cordoned, or none is known.
    """
    routes = [there for there in everywhere(fleet) if not fleet.standing(there.host).is_gone]
    free = [there for there in routes if takes_new(fleet, there.host)]
    if routes and not free:
        cordoned = build_cordoned(there.host for there in routes)
        metadata = {"hosts": str(len(routes))}
        raise ApiError(grpc.StatusCode.FAILED_PRECONDITION, cordoned.reason, cordoned.detail, metadata)
    return free or everywhere(fleet)


def order_by_files(fleet: Fleet, routes: Sequence[HostRoute], spec: spec_pb2.DaggerSpec) -> list[HostRoute]:
    """Put hosts that registered that they lack a file which `spec` reads behind all others."""
    words = frozenset(map(format_file, find_files(fleet, spec)))

    def lacks_file(there: HostRoute) -> bool:
        registered = fleet.standing(there.host).registered
        return registered is not None and not words.isdisjoint(registered.lacks)

    return sorted(routes, key=lacks_file)


ELSEWHERE: Final = frozenset(
    {
        *("HOST_UNREACHABLE", "HOST_REFUSED", "HOST_TOO_OLD", "HOST_BUSY", "HOST_DRAINING"),
        "SECRET_MISSING",  # hosts say which files they lack, but neither at once, nor which variables
    }
)
"""Errors of a host, not of the request: another host may answer."""


def refusal(error: ApiError, host: str, endpoint: Endpoint) -> ApiError:
    """Convert a host's error for the caller; a reason that the host gave stays."""
    silent = error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    if silent and error.reason == error.code.name:
        return unreachable(host, f"its scheduler at {endpoint.address} does not answer")
    if error.reason == "WRONG_HOST":
        other = error.metadata.get("host", "another one")
        return unreachable(host, f"at {endpoint.address}, where its scheduler was, host {other} answers")
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        return ApiError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "HOST_REFUSED",
            f"host {host} does not accept this gateway's token: DAGGERS_HOST_TOKEN_FILE of both must"
            " name files with the same token",
            metadata={"host": host},
        )
    if error.code is grpc.StatusCode.UNIMPLEMENTED:
        return ApiError(
            grpc.StatusCode.UNIMPLEMENTED,
            "HOST_TOO_OLD",
            f"the scheduler of host {host} is older than this gateway and does not know this call",
            metadata={"host": host},
        )
    return replace(error, metadata={"host": host, **error.metadata})


def ignores_selection(host: str) -> ApiError:
    """Build the error for a host that ignores a request's selection of rows."""
    return ApiError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "HOST_TOO_OLD",
        f"the scheduler of host {host} is older than this gateway and ignores since, where and order_by:"
        " upgrade it, or read all rows",
        metadata={"host": host},
    )


def unreachable(host: str, why: str) -> ApiError:
    """Build the error for a host that cannot be reached."""
    return ApiError(
        grpc.StatusCode.UNAVAILABLE,
        "HOST_UNREACHABLE",
        f"host {host} cannot be reached: {why}",
        metadata={"host": host},
    )
