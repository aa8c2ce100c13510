"""What is said of a dagger that is not there: whether another was meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

import grpc

from chassis.errors import ApiError
from fleet import Fleet

_MOST: Final = 128


def no_dagger(name: str, fleet: Fleet) -> ApiError:
    """NOT_FOUND; `suggestion` in its metadata is the name that looks most like it, where one does."""
    living = [each for each in fleet.daggers if fleet.living(each) is not None]
    near = get_close_matches(name[:_MOST], living, n=1)
    text = f"there is no dagger {name}" + (f"; did you mean {near[0]}?" if near else "")
    metadata = {"suggestion": near[0]} if near else {}
    return ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", text, metadata=metadata)
