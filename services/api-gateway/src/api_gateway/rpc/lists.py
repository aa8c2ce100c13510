"""Read the catalogue from the fold: one resource with its version, or a page of a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from api_gateway.not_found import no_entry
from api_gateway.rpc import paging
from api_gateway.state.reader import StateReader
from api_gateway.validate import request_fields
from chassis.errors import invalid
from chassis.interceptors import Context
from fleet import Fleet
from fleet.fold.catalogue import Entry


class ReadRequest(Protocol):
    """A request that may require a minimum sequence."""

    min_sequence: int


class ListRequest(paging.PageRequest, ReadRequest, Protocol):
    """A request for a page."""


def check_sequence(min_sequence: int) -> None:
    """Check a minimum sequence. Raises: ApiError."""
    if wrong := list(request_fields.sequence("min_sequence", min_sequence)):
        raise invalid(wrong)


def entry(fleet: Fleet, kind: str, name: str) -> Entry[Any]:
    """Return the entry of a registered resource. Raises: ApiError."""
    entries = fleet.catalogue.entries(kind)
    if name not in entries:
        raise no_entry(kind, name, entries)
    return entries[name]


async def one(
    reader: StateReader, request: ReadRequest, context: Context, kind: str, name: str
) -> tuple[Entry[Any], int]:
    """Return the entry of a registered resource, and the sequence of the state. Raises: ApiError."""
    check_sequence(request.min_sequence)
    fleet = await reader.state(context, request.min_sequence)
    return entry(fleet, kind, name), fleet.sequence


async def page(
    reader: StateReader,
    request: ListRequest,
    context: Context,
    kind: str,
    *,
    of: str = "",
    key: Callable[[Any], str] = paging.name,
    wanted: Callable[[Any], bool] = lambda _: True,
    names_only: bool = False,
    default: int = paging.PAGE,
) -> tuple[list[Any], str, int]:
    """Return a page of a kind's resources, the token of the next page, and the sequence. Raises: ApiError.

    The platform, which has no name, is in none. `of`: scope of the page token. `key`: the name by which
    resources are sorted. `default`: size of a page for requests without one.
    """
    requested, wrong = paging.read_page(request, of, default=default)
    wrong += request_fields.sequence("min_sequence", request.min_sequence)
    if wrong:
        raise invalid(wrong)
    fleet = await reader.state(context, request.min_sequence)
    entries = fleet.catalogue.entries(kind)
    names = sorted(name for name in entries if name > requested.after and wanted(entries[name].value))
    page_names = names[: requested.limit]
    values = page_names if names_only else [entries[name].value for name in page_names]
    listed, more = requested.cut(values, key)
    return list(listed), more, fleet.sequence
