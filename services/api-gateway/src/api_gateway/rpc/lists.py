"""Reads of what is registered, from the fold: one thing with its version, or a page of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from api_gateway.not_found import no_entry
from api_gateway.rpc import paging
from api_gateway.state.reader import Reader
from api_gateway.validate import request_fields
from chassis.errors import invalid
from chassis.interceptors import Context
from fleet import Fleet
from fleet.fold.catalogue import Entry


class Read(Protocol):
    """A request that may say how new its answer has to be."""

    min_sequence: int


class Listed(paging.Asking, Read, Protocol):
    """One for a page."""


def check_sequence(min_sequence: int) -> None:
    """Raises: ApiError for a min_sequence that cannot be."""
    if wrong := list(request_fields.sequence("min_sequence", min_sequence)):
        raise invalid(wrong)


def entry(fleet: Fleet, kind: str, name: str) -> Entry[Any]:
    """One thing that is registered. Raises: ApiError."""
    entries = fleet.catalogue.entries(kind)
    if name not in entries:
        raise no_entry(kind, name, entries)
    return entries[name]


async def one(
    reader: Reader, request: Read, context: Context, kind: str, name: str
) -> tuple[Entry[Any], int]:
    """One thing that is registered, and the sequence it is of. Raises: ApiError."""
    check_sequence(request.min_sequence)
    fleet = await reader.state(context, request.min_sequence)
    return entry(fleet, kind, name), fleet.sequence


async def page(
    reader: Reader,
    request: Listed,
    context: Context,
    kind: str,
    *,
    of: str = "",
    key: Callable[[Any], str] = paging.name,
    wanted: Callable[[Any], bool] = lambda _: True,
    names_only: bool = False,
    default: int = paging.PAGE,
) -> tuple[list[Any], str, int]:
    """A page of what is registered of a kind; the token of the next one; the sequence. Raises: ApiError.

    What has no name, the platform, is in none. `of` is what was asked of the list, `key` how it is sorted;
    `default`: how many who names no size is answered.
    """
    asked, wrong = paging.asked(request, of, default=default)
    wrong += request_fields.sequence("min_sequence", request.min_sequence)
    if wrong:
        raise invalid(wrong)
    fleet = await reader.state(context, request.min_sequence)
    entries = fleet.catalogue.entries(kind)
    names = sorted(name for name in entries if name > asked.after and wanted(entries[name].value))
    page_names = names[: asked.limit]
    values = page_names if names_only else [entries[name].value for name in page_names]
    listed, more = asked.cut(values, key)
    return list(listed), more, fleet.sequence
