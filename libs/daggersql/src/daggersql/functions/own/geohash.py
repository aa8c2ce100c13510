"""GeoHash(latitude, longitude, length)."""

from __future__ import annotations

from daggerspec.columns import Cell
from daggersql.functions.checks import check_whole
from daggersql.functions.signature import Doc, Function, row_function
from daggersql.ir.families import Family
from daggersql.ir.types import DOUBLE, INT, STRING

FUNCTION = Function(
    "GeoHash",
    (row_function("geohash", (Family.NUMBER, Family.NUMBER, Family.INTEGER), STRING, (DOUBLE, DOUBLE, INT)),),
    own=True,
    cells=Cell.GEOHASH,
    check=check_whole(2, 1, 12, "The length of a geohash", example="6"),
    doc=Doc(
        "The geohash of a point. Longitudes wrap around. NULL, and counted as bad data, for a latitude beyond"
        " the poles and for what is not finite.",
        (
            ("latitude", "degrees, from -90 to 90"),
            ("longitude", "degrees"),
            ("length", "number of letters, a constant from 1 to 12"),
        ),
        (
            ("GeoHash(-6.170024, 106.8243203, 6)", "qqguyu"),
            ("GeoHash(57.64911, 10.40744, 11)", "u4pruydqqvj"),
        ),
        dagger="ends the job on NULL, on a latitude beyond the poles and on another length.",
    ),
)
