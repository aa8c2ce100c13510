"""GeoHash(latitude, longitude, length): a point's geohash (https://en.wikipedia.org/wiki/Geohash).

Degrees in, any longitude (it wraps), latitudes from -90 to 90, 1 to 12 letters. A point on a line belongs to
the cell above and to the right of it. NULL for NULL, for what is not finite, for a latitude beyond the poles.
Fast form: numpy over Arrow batches, every point to 12 letters, then cut.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.values.registration import Registration

LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz"
MAX_LENGTH = 12
_BITS = 30
"""Bits of each coordinate in 12 letters."""
_CELLS = 1 << _BITS
_LENGTH_BITS = np.uint64(4)
"""Bits that the length of a text takes in its number."""
_LETTERS = np.frombuffer(LETTERS.encode(), dtype=np.uint8)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


def reference(latitude: float | None, longitude: float | None, length: int | None) -> str | None:
    """Return the geohash of one point in degrees, by halving the map; `length` characters."""
    if latitude is None or longitude is None or length is None or not 1 <= length <= MAX_LENGTH:
        return None
    if not (abs(latitude) <= 90 and math.isfinite(longitude)):
        return None
    sides = [(_wrap(longitude), -180.0, 180.0), (latitude, -90.0, 90.0)]
    code = 0
    for bit in range(5 * length):
        value, low, high = sides[bit % 2]
        middle = (low + high) / 2
        code = code << 1 | (value >= middle)
        sides[bit % 2] = (value, middle, high) if value >= middle else (value, low, middle)
    return "".join(LETTERS[code >> 5 * index & 31] for index in reversed(range(length)))


def _wrap(longitude: float) -> float:
    """Wrap a longitude to -180 … 180; both edges of the map stay as they are."""
    if abs(longitude) <= 180:
        return longitude
    rest = math.fmod(longitude, 360)
    return rest - 360 if rest >= 180 else rest + 360 if rest <= -180 else rest


def compute(latitude: pa.Array, longitude: pa.Array, length: pa.Array) -> pa.Array:
    """Compute the geohashes of many points in degrees: doubles and integers in, text out, of one length."""
    return text(codes(latitude, longitude, length))


def codes(latitude: pa.Array, longitude: pa.Array, length: pa.Array) -> pa.Array:
    """Compute geohashes as numbers of 64 bits: five bits for each of twelve letters, then how many count."""
    lat, lng = _floats(latitude), _floats(longitude)
    lengths = np.asarray(pc.fill_null(length, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
    # A NULL came as NaN, which is neither.
    valid = (np.abs(lat) <= 90) & np.isfinite(lng) & (lengths >= 1) & (lengths <= MAX_LENGTH)
    lat, lng = np.where(valid, lat, 0.0), np.where(valid, lng, 0.0)
    beyond = np.abs(lng) > 180
    if beyond.any():
        lng[beyond] = _wrap_all(lng[beyond])
    letters = _spread(_cell(lng, 360.0)) << np.uint64(1) | _spread(_cell(lat, 180.0))
    used = np.where(valid, lengths, 0).astype(np.uint64)
    cut = (np.uint64(MAX_LENGTH) - used) * np.uint64(5)
    return pa.array((letters >> cut << cut << _LENGTH_BITS | used).view(np.int64), mask=~valid)


def text(codes: pa.Array) -> pa.Array:
    """Make the texts of numbers that `codes` made; NULL for NULL."""
    numbers = np.asarray(codes.fill_null(0)).view(np.uint64)
    lengths = (numbers & ((np.uint64(1) << _LENGTH_BITS) - np.uint64(1))).astype(np.int64)
    letters = np.empty((len(numbers), MAX_LENGTH), dtype=np.uint8)
    for index in range(MAX_LENGTH):
        shift = np.uint64(5 * (MAX_LENGTH - 1 - index)) + _LENGTH_BITS
        letters[:, index] = _LETTERS[numbers >> shift & np.uint64(31)]
    used = letters[np.arange(MAX_LENGTH) < lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    valid = np.asarray(codes.is_valid())
    missing = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.StringArray.from_buffers(
        len(codes), pa.py_buffer(offsets), pa.py_buffer(used), missing, codes.null_count
    )


def register(session: Registration) -> None:
    """Bring `geohash(DOUBLE, DOUBLE, INT) -> STRING` to the session."""
    session.function("geohash", compute, "string")


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _wrap_all(longitude: Floats) -> Floats:
    """Wrap longitudes that lie beyond the edges to -180 … 180."""
    rest = np.fmod(longitude, 360)
    return np.where(rest >= 180, rest - 360, np.where(rest <= -180, rest + 360, rest))


def _cell(value: Floats, span: float) -> Words:
    """Number the cell of each value: of 2^30 equal parts of -span/2 … span/2 the one that holds it."""
    step, low = span / _CELLS, -span / 2
    guess = np.clip(np.floor((value - low) / step), 0, _CELLS - 1)
    # The difference may have been rounded up or down over a line; the lines themselves are exact numbers.
    guess -= value < low + guess * step
    guess += (value >= low + (guess + 1) * step) & (guess < _CELLS - 1)
    cells: Words = guess.astype(np.uint64)
    return cells


def _spread(bits: Words) -> Words:
    """Spread the 30 lowest bits: a gap of one bit follows each."""
    for shift, mask in (
        (16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333), (1, 0x5555555555555555),
    ):  # fmt: skip
        bits = (bits | bits << np.uint64(shift)) & np.uint64(mask)
    return bits
