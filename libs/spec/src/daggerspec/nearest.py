"""Suggestions for misspelt names, and their form in a sentence. Needs the standard library alone."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(wrong: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the name that was probably meant, whatever its letter case; None if none is near.

    A name without dots may be the last part of one with dots: `Booking` of acme.v1.Booking. `cutoff` is how
    alike they must be, from 0 to 1.
    """
    names = sorted(names)
    spelt = {name.lower(): name for name in names}
    if "." not in wrong:
        for name in names:
            spelt.setdefault(name.rpartition(".")[2].lower(), name)
    # Comparing long texts costs more than their suggestion is worth; names are at most 128 characters.
    close = get_close_matches(wrong[:128].lower(), spelt, n=1, cutoff=cutoff)
    if close:
        return spelt[close[0]]
    # An abbreviation: lat for latitude.
    start = wrong.lower()
    begun = [name for spelling, name in spelt.items() if len(start) > 1 and spelling.startswith(start)]
    return min(begun, key=len) if begun else None


def hint(near: str | None, otherwise: str = ".") -> str:
    """Return the end of a sentence about a misspelt name: with the name that was meant, if one is near."""
    return f": did you mean {near}?" if near else otherwise
