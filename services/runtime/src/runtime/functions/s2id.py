"""S2Id(latitude, longitude, level): the S2 cell that holds a point, as a signed decimal number in text.

Degrees in, any longitude (it wraps), latitudes from -90 to 90, levels 0 to 30. NULL for NULL, for what is not
finite, for a latitude beyond the poles. Fast form: numpy over Arrow batches. The Hilbert curve is walked four
bits at a time through a table, as S2's own libraries do (https://s2geometry.io/devguide/s2cell_hierarchy).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import s2sphere

from runtime.values.registration import Registration

MAX_LEVEL = 30
_SWAP, _INVERT = 1, 2
_BITS = 4
"""Bits of each coordinate that one look-up takes."""
_MASK = (1 << _BITS) - 1
_SIZE = 1 << MAX_LEVEL
# The curve through the four quarters of a square, for each of its four orientations (swap, invert).
_QUARTERS = ((0, 1, 3, 2), (0, 2, 3, 1), (3, 2, 0, 1), (3, 1, 0, 2))
_TURNS = (_SWAP, 0, 0, _SWAP | _INVERT)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def reference(latitude: float | None, longitude: float | None, level: int | None) -> str | None:
    """Return the cell of one point in degrees, by s2sphere."""
    if latitude is None or longitude is None or level is None or not 0 <= level <= MAX_LEVEL:
        return None
    if not (abs(latitude) <= 90 and math.isfinite(longitude)):
        return None
    leaf = s2sphere.CellId.from_lat_lng(s2sphere.LatLng.from_degrees(latitude, longitude))
    cell: int = leaf.parent(level).id()
    return str(cell - (1 << 64) if cell >> 63 else cell)


def compute(latitude: pa.Array, longitude: pa.Array, level: pa.Array) -> pa.Array:
    """Find the cells of many points in degrees: doubles and integers in, text out, all of one length."""
    return text(codes(latitude, longitude, level))


def codes(latitude: pa.Array, longitude: pa.Array, level: pa.Array) -> pa.Array:
    """Find cells as numbers of 64 bits, one for each text: to group by them costs half."""
    lat, lng = _floats(latitude), _floats(longitude)
    levels = np.asarray(pc.fill_null(level, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    # A NULL came as NaN, which is neither.
    valid = (np.abs(lat) <= 90) & np.isfinite(lng) & (levels >= 0) & (levels <= MAX_LEVEL)
    if valid.all():  # nearly always, and three copies less
        return pa.array(cell_ids(lat, lng, levels))
    cells = cell_ids(np.where(valid, lat, 0.0), np.where(valid, lng, 0.0), np.where(valid, levels, 0))
    return pa.array(cells, mask=~valid)


def text(codes: pa.Array) -> pa.Array:
    """Make the texts of numbers that `codes` made; NULL for NULL."""
    return codes.cast(pa.string())


def cell_ids(latitude: Floats, longitude: Floats, level: Ints) -> Ints:
    """Return signed cell ids of points in degrees, all of them finite; all of one length."""
    face, u, v = _project(np.radians(latitude), np.radians(longitude))
    return _at_level(_leaves(face, _square(u), _square(v), int(level.max(initial=0))), level)


def register(session: Registration) -> None:
    """Bring `s2id(DOUBLE, DOUBLE, INT) -> STRING` to the session."""
    session.function("s2id", compute, "string")


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _project(lat: Floats, lng: Floats) -> tuple[Ints, Floats, Floats]:
    """Project points to the cube: the face that each falls on, and its place on it, each from -1 to 1."""
    flat = np.cos(lat)
    x, y, z = flat * np.cos(lng), flat * np.sin(lng), np.sin(lat)
    ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
    on_x = (ax > ay) & (ax > az)
    on_y = ~on_x & (ay > az)
    depth = np.where(on_x, x, np.where(on_y, y, z))
    u = np.where(on_x, y, -x) / depth
    v = np.where(on_x | on_y, z, -y) / depth
    behind = depth < 0
    face = np.where(on_x, 0, np.where(on_y, 1, 2)) + np.where(behind, 3, 0)
    return face, np.where(behind, v, u), np.where(behind, u, v)


def _square(coordinate: Floats) -> Ints:
    """Number rows or columns of a face, 2^30 of them, by S2's quadratic projection."""
    root = 0.5 * np.sqrt(1 + 3 * np.abs(coordinate))
    # From the middle to either side: the same doubles as `root` and `1 - root`, which are from 0 to 1.
    part = 0.5 + np.copysign(root - 0.5, coordinate)
    numbers: Ints = np.minimum((part * _SIZE).astype(np.int64), _SIZE - 1)
    return numbers


def _leaves(face: Ints, i: Ints, j: Ints, level: int) -> npt.NDArray[np.uint64]:
    """Make leaf cell ids: the face, the position along the Hilbert curve down to this level, then a one."""
    table = hilbert()
    cells = face.astype(np.uint64) << np.uint64(60)
    state = face & _SWAP
    # Of the 32 bits that eight steps take a coordinate has 30.
    for step in range(7, 7 - (level + 5) // _BITS, -1):
        state = (
            state | (((i >> (step * _BITS)) & _MASK) << (_BITS + 2)) | (((j >> (step * _BITS)) & _MASK) << 2)
        )
        state = table[state]
        cells |= (state >> 2).astype(np.uint64) << np.uint64(2 * step * _BITS)
        state &= _SWAP | _INVERT
    return cells * np.uint64(2) + np.uint64(1)


def _at_level(leaves: npt.NDArray[np.uint64], level: Ints) -> Ints:
    """Find the cells of that level around the leaves: the lowest one moves up, all below it is zero."""
    lowest = np.uint64(1) << (2 * (MAX_LEVEL - level)).astype(np.uint64)
    cells: Ints = ((leaves & ~(lowest - np.uint64(1))) | lowest).view(np.int64)
    return cells


@cache
def hilbert() -> Ints:
    """Tabulate the curve: four bits of i, four of j and an orientation give eight bits of position and the
    next orientation.
    """
    table = np.zeros(1 << (2 * _BITS + 2), dtype=np.int64)
    for start in range(4):
        for cell in range(1 << (2 * _BITS)):
            i, j = cell >> _BITS, cell & _MASK
            position, orientation = 0, start
            for bit in range(_BITS - 1, -1, -1):
                corner = ((i >> bit & 1) << 1) | (j >> bit & 1)
                quarter = _QUARTERS[orientation].index(corner)
                position = position << 2 | quarter
                orientation ^= _TURNS[quarter]
            table[cell << 2 | start] = position << 2 | orientation
    return table
