"""S2AreaInKm2(id): the area of an S2 cell in km², on a globe of 510,072,000 km².

The id is decimal text, signed or not. NULL for NULL and for what is no cell id. Fast form: numpy over Arrow
batches, in the very steps of S2's `exactArea` (two spherical triangles by l'Huilier), so that both forms
agree down to leaf cells, where the rounding of those steps shows in the eighth digit.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import s2sphere

from runtime.functions import s2id
from runtime.values.registration import Registration

GLOBE_KM2 = 510_072_000.0
_PER_STERADIAN = GLOBE_KM2 / (4 * math.pi)
_LARGEST = str((1 << 63) - 1)
_BITS = 4
_MASK = (1 << _BITS) - 1

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Points = tuple[Floats, Floats, Floats]


def reference(cell: str | None) -> float | None:
    """Return the area of one cell in square kilometres, by s2sphere."""
    if cell is None:
        return None
    digits = cell[1:] if cell[:1] in ("+", "-") else cell
    if not (digits.isascii() and digits.isdigit()) or not -(1 << 63) <= int(cell) < 1 << 63:
        return None
    cell_id = s2sphere.CellId(int(cell) & ((1 << 64) - 1))
    if not cell_id.is_valid():
        return None
    return float(s2sphere.Cell(cell_id).exact_area()) * _PER_STERADIAN


def compute(cell: pa.Array) -> pa.Array:
    """Compute the areas of many cells in square kilometres: text in, doubles out, both of one length."""
    numbers = _parse_numbers(cell)
    ids = np.asarray(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    words = ids.view(np.uint64)
    lowest = words & (~words + np.uint64(1))
    valid = (words >> np.uint64(61) < 6) & (lowest & np.uint64(0x1555555555555555) != 0)
    words = np.where(valid, words, np.uint64(1 << 60))
    lowest = np.where(valid, lowest, np.uint64(1 << 60))
    return pa.array(_steradians(words, lowest) * _PER_STERADIAN, mask=~valid)


def register(session: Registration) -> None:
    """Bring `s2areainkm2(STRING) -> DOUBLE` to the session."""
    session.function("s2areainkm2", compute, "double")


def _parse_numbers(cell: pa.Array) -> pa.Array:
    """Parse texts to 64-bit numbers; NULL for what is none."""
    signs = pc.starts_with(cell, "-")
    digits = pc.utf8_ltrim(pc.replace_substring_regex(cell, r"^[+-]([0-9])", r"\1"), characters="0")
    # What was all zeros is empty now, and so was what was empty: neither is a cell.
    whole = pc.match_substring_regex(digits, r"^[0-9]{1,19}$")
    # Texts of equal length compare as their numbers. The smallest number, one beyond, is no cell.
    fits = pc.or_(pc.less(pc.binary_length(digits), len(_LARGEST)), pc.less_equal(digits, _LARGEST))
    numbers = pc.if_else(pc.and_(whole, fits), digits, None).cast(pa.int64())
    smallest = pc.and_(signs, pc.equal(digits, str(1 << 63)))
    return pc.if_else(smallest, -(1 << 63), pc.if_else(signs, pc.negate(numbers), numbers))


def _steradians(words: npt.NDArray[np.uint64], lowest: npt.NDArray[np.uint64]) -> Floats:
    """Compute areas of valid cells; `lowest` is the lowest bit of each."""
    face = (words >> np.uint64(61)).astype(np.int64)
    i, j = _square(words, face)
    size = np.sqrt(lowest.astype(np.float64)).astype(np.int64)  # a power of four
    i, j = i & -size, j & -size
    u0, u1, v0, v1 = _edge(i), _edge(i + size), _edge(j), _edge(j + size)
    corners = [_corner(face, u, v) for u, v in ((u0, v0), (u1, v0), (u1, v1), (u0, v1))]
    return _triangle(corners[0], corners[1], corners[2]) + _triangle(corners[0], corners[2], corners[3])


def _square(words: npt.NDArray[np.uint64], face: Ints) -> tuple[Ints, Ints]:
    """Find row and column of the cell's middle: walk the Hilbert curve back, four bits at a time."""
    table = _walk_back()
    i, j = np.zeros_like(face), np.zeros_like(face)
    state = face & 1
    for step in range(7, -1, -1):
        bits = 2 if step == 7 else _BITS
        position = (words >> np.uint64(2 * _BITS * step + 1)).astype(np.int64) & ((1 << 2 * bits) - 1)
        entry = table[position << 2 | state]
        i |= (entry >> (_BITS + 2)) << (step * _BITS)
        j |= (entry >> 2 & _MASK) << (step * _BITS)
        state = entry & 3
    return i, j


@cache
def _walk_back() -> Ints:
    """Invert `s2id.hilbert`: eight bits of position and an orientation give four bits of i, four of j and
    the next orientation.
    """
    forth = s2id.hilbert()
    back = np.zeros_like(forth)
    for key, entry in enumerate(forth):
        back[(int(entry) >> 2) << 2 | key & 3] = (key >> 2) << 2 | int(entry) & 3
    return back


def _edge(line: Ints) -> Floats:
    """Project the first edge of rows or columns to -1 … 1 on their face, by S2's quadratic projection."""
    part = (1.0 / (1 << 30)) * line
    return np.where(
        part >= 0.5, (1.0 / 3.0) * (4 * part * part - 1), (1.0 / 3.0) * (1 - 4 * (1 - part) * (1 - part))
    )


def _corner(face: Ints, u: Floats, v: Floats) -> Points:
    """Project points of the cube's faces to the sphere."""
    one = np.ones_like(u)
    x = np.choose(face, [one, -u, -u, -one, v, v])
    y = np.choose(face, [u, one, -v, -v, -one, u])
    z = np.choose(face, [v, v, one, -u, -u, -one])
    scale = 1.0 / np.sqrt(x * x + y * y + z * z)
    return x * scale, y * scale, z * scale


def _angle(a: Points, b: Points) -> Floats:
    x, y, z = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    return np.arctan2(np.sqrt(x * x + y * y + z * z), a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def _triangle(a: Points, b: Points, c: Points) -> Floats:
    sides = _angle(b, c), _angle(c, a), _angle(a, b)
    half = 0.5 * (sides[0] + sides[1] + sides[2])
    product = np.tan(0.5 * half)
    for side in sides:
        product = product * np.tan(0.5 * (half - side))
    area: Floats = 4 * np.arctan(np.sqrt(np.maximum(0.0, product)))
    return area
