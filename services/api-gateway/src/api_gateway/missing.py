"""What is said of a name that stands for nothing: whether another was meant."""

from __future__ import annotations

from collections.abc import Iterable

import grpc

from chassis.errors import ApiError
from daggerspec.nearest import hint, nearest
from fleet import Fleet
from fleet.answers import about


def no_dagger(name: str, fleet: Fleet) -> ApiError:
    """NOT_FOUND; `suggestion` in its metadata is the name that looks most like it, where one does."""
    living = [each for each in fleet.daggers if fleet.living(each) is not None]
    return _not_found("dagger", name, f"there is no dagger {name}", living)


def no_entry(kind: str, name: str, known: Iterable[str]) -> ApiError:
    """NOT_FOUND of what is registered in the catalogue: a stream, a message. As `no_dagger`."""
    return _not_found(kind, name, f"{kind} {name} is not registered", known)


def _not_found(kind: str, name: str, text: str, known: Iterable[str]) -> ApiError:
    near = nearest(name, known)
    metadata = {**about(kind, name), **({"suggestion": near} if near else {})}
    return ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text + hint(near, ""), metadata)
