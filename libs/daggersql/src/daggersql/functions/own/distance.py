"""Distance(latitude1, longitude1, latitude2, longitude2)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, row_function
from daggersql.ir.families import Family
from daggersql.ir.types import DOUBLE

FUNCTION = Function(
    "Distance",
    (row_function("distance", (Family.NUMBER,) * 4, DOUBLE, (DOUBLE,) * 4),),
    own=True,
    doc=Doc(
        "The length in kilometres of the shortest way between two points on a sphere with a radius of 6371"
        " km. NULL, and counted as bad data, for a latitude beyond the poles and for what is not finite.",
        (
            ("latitude1, longitude1", "the one point, in degrees"),
            ("latitude2, longitude2", "the other point, in degrees"),
        ),
        (
            ("Distance(0, 179.5, 0, -179.5)", "111.19492664455905"),
            ("Distance(90, 0, -90, 0)", "20015.086796020572"),
        ),
        dagger="ends the job on NULL, and gives NaN for some points that lie opposite each other.",
    ),
)
