"""Distance(latitude1, longitude1, latitude2, longitude2): kilometres along a great circle.

Degrees in, on a sphere with R = 6371 km. NULL for NULL, for what is not finite, for a latitude beyond the
poles. Fast form: the same haversine in numpy over Arrow batches; not native, so that invalid data is counted.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.values.registration import Registration

RADIUS_KM = 6371.0

Floats = npt.NDArray[np.float64]


def reference(
    latitude1: float | None, longitude1: float | None, latitude2: float | None, longitude2: float | None
) -> float | None:
    """Compute the distance in kilometres of two points in degrees, by the haversine formula."""
    if latitude1 is None or longitude1 is None or latitude2 is None or longitude2 is None:
        return None
    if not (abs(latitude1) <= 90 and abs(latitude2) <= 90):
        return None
    if not (math.isfinite(longitude1) and math.isfinite(longitude2)):
        return None
    # Whole turns are taken off first: adding up degrees of very different size loses the small ones.
    lat1, lat2 = math.radians(latitude1), math.radians(latitude2)
    turn = math.radians(math.fmod(longitude2, 360) - math.fmod(longitude1, 360))
    half = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin(turn / 2) ** 2
    return 2 * RADIUS_KM * math.asin(math.sqrt(min(1.0, half)))


def compute(latitude1: pa.Array, longitude1: pa.Array, latitude2: pa.Array, longitude2: pa.Array) -> pa.Array:
    """Compute the distances of many pairs of points in kilometres: doubles in and out, all of one length."""
    lat1, lng1, lat2, lng2 = map(_floats, (latitude1, longitude1, latitude2, longitude2))
    # A NULL came as NaN, which is neither.
    valid = (np.abs(lat1) <= 90) & (np.abs(lat2) <= 90) & np.isfinite(lng1) & np.isfinite(lng2)
    with np.errstate(invalid="ignore"):  # invalid rows are computed all the same
        lat1, lat2 = np.radians(lat1), np.radians(lat2)
        turn = np.radians(np.fmod(lng2, 360) - np.fmod(lng1, 360))
        half = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin(turn / 2) ** 2
        kilometres = 2 * RADIUS_KM * np.arcsin(np.sqrt(np.minimum(1.0, half)))
    return pa.array(kilometres, mask=~valid)


def register(session: Registration) -> None:
    """Bring `distance(DOUBLE, DOUBLE, DOUBLE, DOUBLE) -> DOUBLE` to the session."""
    session.function("distance", compute, "double")


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
