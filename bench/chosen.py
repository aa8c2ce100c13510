"""Names on a bench's command line: what is to be measured of all that there is."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence


def chosen(parser: argparse.ArgumentParser, named: Sequence[str], known: Collection[str]) -> list[str]:
    """What is named, or all that is known where nothing is. Ends with 2 and every name that is not known."""
    if unknown := [name for name in named if name not in known]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return [*named] or [*known]
