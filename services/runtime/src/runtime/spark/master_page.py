"""Read what a standalone master's page says: who has its cores.

Format: that of Spark's `JsonProtocol.writeMasterState`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

_TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Application:
    """An application that a master knows."""

    id: str
    name: str
    cores: int
    """Cores that it was given."""


@dataclass(frozen=True, slots=True)
class MasterState:
    """State of a standalone master."""

    workers: int
    """Workers that live."""
    cores: int
    """Cores of these."""
    free: int
    """Those of them that no application has."""
    applications: Sequence[Application]

    def application(self, id_: str) -> Application | None:
        """Return an application; None for one that the master does not know."""
        return next((application for application in self.applications if application.id == id_), None)


def read(url: str) -> MasterState | None:
    """Read the state from the pages at a URL, within seconds; None where they do not answer it, or their
    master stands by.
    """
    opener = build_opener(
        ProxyHandler({})
    )  # as the driver's own connection to its master, which no proxy sees
    try:
        with opener.open(f"{url}/json/", timeout=_TIMEOUT_S) as answer:
            return parse(json.loads(answer.read(_MOST_BYTES)))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def parse(document: Mapping[str, Any]) -> MasterState:
    """Parse the document of a master's page. Raises: KeyError, TypeError, ValueError; where it stands by, and
    knows no application.
    """
    if document["status"] != "ALIVE":
        raise ValueError(f"the master is {document['status']}")
    living = [worker for worker in document["workers"] if worker["state"] == "ALIVE"]
    return MasterState(
        workers=len(living),
        cores=sum(int(worker["cores"]) for worker in living),
        free=sum(int(worker["coresfree"]) for worker in living),
        applications=[
            Application(str(active["id"]), str(active["name"]), int(active["cores"]))
            for active in document["activeapps"]
        ],
    )
