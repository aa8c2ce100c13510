"""What is said of a name that stands for nothing: whether another was meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import grpc

from chassis.errors import ApiError
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold.answers import about

_NAMED: Final = frozenset({"cluster", "stream", "message", "sink", "secret"})
"""What specifications name of the catalogue."""


def no_dagger(name: str, fleet: Fleet) -> ApiError:
    """NOT_FOUND; `suggestion` in its metadata is the name that looks most like it, where one does."""
    living = [dagger for dagger in fleet.daggers if fleet.living(dagger) is not None]
    return _not_found("dagger", name, f"there is no dagger {name}", living)


def no_host(name: str, fleet: Fleet) -> ApiError:
    """NOT_FOUND of a host of drivers. As `no_dagger`."""
    return _not_found("host", name, f"there is no host {name}", fleet.host_names())


def no_entry(kind: str, name: str, known: Iterable[str]) -> ApiError:
    """NOT_FOUND of what is registered in the catalogue: a stream, a message. As `no_dagger`."""
    # Nobody registers a destination: it is a team's, or nobody's.
    text = f"no team owns {name}" if kind == "destination" else f"{kind} {name} is not registered"
    # What has no name is the platform, which nobody means.
    return _not_found(kind, name, text, filter(None, known))


def meant(violation: Violation, fleet: Fleet) -> Violation:
    """A violation; one about a name that is not registered also says which name looks most like it."""
    kind, name = violation.metadata.get("kind", ""), violation.metadata.get("name", "")
    known = fleet.catalogue.entries(kind) if kind in _NAMED else {}
    near = None if name in known else nearest(name, known)
    if near is None:
        return violation
    return replace(
        violation,
        message=violation.message + hint(near, ""),
        suggestion=near,
        metadata={**violation.metadata, "suggestion": near},
    )


def _not_found(kind: str, name: str, text: str, known: Iterable[str]) -> ApiError:
    near = nearest(name, known)
    metadata = {**about(kind, name), **({"suggestion": near} if near else {})}
    return ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text + hint(near, ""), metadata)
