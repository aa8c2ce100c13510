"""WatchVitals: what daggers do now, all of them or one; at first as it is, and then what has changed.

A step says how things are, so nobody needs one that was missed: a watch that is slow, or begins anew, misses
no more than what is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from daggers.v1 import gateway_pb2, vitals_pb2

from api_gateway.fold import Fold
from api_gateway.heard import Heard
from api_gateway.missing import no_dagger
from api_gateway.paging import fitting
from api_gateway.watching import damaged, shuts_down
from chassis.errors import invalid
from daggerspec import fields
from eventlog.follower import Follower
from fleet import Applied, Dagger
from fleet.watch import Watch

Response = gateway_pb2.WatchVitalsResponse

STEP_S: Final = 1.0
LOOK_S: Final = 5.0
"""A dagger that nothing is heard of is looked at so often: silence changes what there is to say."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a dagger."""

    dagger: Dagger
    watch: Watch
    time: float
    told: vitals_pb2.Vitals


async def watch(
    request: gateway_pb2.WatchVitalsRequest, heard: Heard, follower: Follower[Applied], fold: Fold
) -> AsyncGenerator[Response, None]:
    """The steps of one watch.

    Raises: ApiError, NOT_FOUND when the dagger is not there, UNAVAILABLE when the gateway drains,
    FAILED_PRECONDITION when the log is damaged.
    """
    name = request.name
    wrong = list(fields.name("name", name)) if name else []
    if wrong:
        raise invalid(wrong)
    if name and fold.fleet.living(name) is None:
        raise no_dagger(name, fold.fleet)
    looks: dict[str, _Look] = {}
    begun = False
    while not (follower.draining or follower.damage):
        told, step = _step(looks, name, heard, fold)
        if not begun:
            step.ClearField("changed")
        while told or step.gone or step.changed or not begun:
            page = fitting(told)
            step.vitals.extend(page)
            yield step
            told, step, begun = told[len(page) :], Response(sequence=step.sequence), True
        if name and not looks:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(STEP_S):
                await follower.until(lambda: bool(follower.draining or follower.damage))
    raise damaged(follower.damage, follower.sequence) if follower.damage else shuts_down()


def _step(
    looks: dict[str, _Look], name: str, heard: Heard, fold: Fold
) -> tuple[list[vitals_pb2.Vitals], Response]:
    """The vitals that have changed, and a step of all else that has; brings the looks up to date."""
    now = asyncio.get_running_loop().time()
    fleet = fold.fleet
    names = [name] if name else sorted(fleet.daggers)
    living = {name: dagger for name in names if (dagger := fleet.living(name)) is not None}
    gone = sorted(looks.keys() - living.keys())
    for removed in gone:
        del looks[removed]
    changed, told = [], []
    for removed, dagger in living.items():
        before, watched = looks.get(removed), heard.watch_of(dagger)
        same = before is not None and before.dagger is dagger
        if not same:
            changed.append(removed)
        if before is not None and same and before.watch is watched and now - before.time < LOOK_S:
            continue
        vital = heard.vitals(dagger)
        looks[removed] = _Look(dagger, watched, now, vital)
        if before is None or before.told != vital:
            told.append(vital)
    return told, Response(gone=gone, changed=changed, sequence=fleet.sequence)
