"""Errors and violations for unknown names, with a similar name as a suggestion."""

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
"""Kinds of the catalogue that specifications refer to."""


def no_dagger(name: str, fleet: Fleet) -> ApiError:
    """Build the NOT_FOUND error of a dagger; `suggestion` in its metadata is the most similar name, where
    there is one.
    """
    living = [dagger for dagger in fleet.daggers if fleet.living(dagger) is not None]
    return _not_found("dagger", name, f"there is no dagger {name}", living)


def no_host(name: str, fleet: Fleet) -> ApiError:
    """Build the NOT_FOUND error of a host of drivers, with a suggestion."""
    return _not_found("host", name, f"there is no host {name}", fleet.host_names())


def no_entry(kind: str, name: str, names: Iterable[str]) -> ApiError:
    """Build the NOT_FOUND error of a resource of the catalogue, with a suggestion."""
    # destinations are not registered: they are owned by a team, or by nobody
    text = f"no team owns {name}" if kind == "destination" else f"{kind} {name} is not registered"
    # the empty name is the platform's, which is no suggestion
    return _not_found(kind, name, text, filter(None, names))


def no_silence(id_: str, ids: Iterable[str]) -> ApiError:
    """Build the NOT_FOUND error of a silence, with a suggestion of the same team."""
    team = id_.rpartition("/")[0]
    own = [name for name in ids if name.rpartition("/")[0] == team]
    return _not_found("silence", id_, f"there is no silence {id_}, or it ended more than 30 days ago", own)


def no_open_alert(dagger: str, condition: str, opened: Iterable[str]) -> ApiError:
    """Build the NOT_FOUND error of an alert that is not open; `opened`: conditions and rules of the dagger
    that are.
    """
    names = sorted(set(opened))
    text = f"no alert {condition} of {dagger} is open: {', '.join(names) or 'none is'}"
    return _not_found("alert", condition, text, names)


def add_suggestion(violation: Violation, fleet: Fleet) -> Violation:
    """Add the most similar name to a violation about an unregistered name."""
    kind, name = violation.metadata.get("kind", ""), violation.metadata.get("name", "")
    entries = fleet.catalogue.entries(kind) if kind in _NAMED else {}
    near = None if name in entries else nearest(name, entries)
    if near is None:
        return violation
    return replace(
        violation,
        message=violation.message + hint(near, ""),
        suggestion=near,
        metadata={**violation.metadata, "suggestion": near},
    )


def _not_found(kind: str, name: str, text: str, names: Iterable[str]) -> ApiError:
    near = nearest(name, names)
    metadata = {**about(kind, name), **({"suggestion": near} if near else {})}
    return ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text + hint(near, ""), metadata)
