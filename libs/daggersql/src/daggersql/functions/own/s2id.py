"""S2Id(latitude, longitude, level)."""

from __future__ import annotations

from daggerspec.columns import Cell
from daggersql.functions.checks import check_whole
from daggersql.functions.signature import Doc, Function, row_function
from daggersql.ir.families import Family
from daggersql.ir.types import DOUBLE, INT, STRING

FUNCTION = Function(
    "S2Id",
    (row_function("s2id", (Family.NUMBER, Family.NUMBER, Family.INTEGER), STRING, (DOUBLE, DOUBLE, INT)),),
    own=True,
    cells=Cell.S2,
    check=check_whole(2, 0, 30, "The level of an S2 cell", example="13"),
    doc=Doc(
        "The S2 cell that holds a point, as a signed decimal number in text. Longitudes wrap around. NULL,"
        " and counted as bad data, for a latitude beyond the poles and for what is not finite.",
        (
            ("latitude", "degrees, from -90 to 90"),
            ("longitude", "degrees"),
            (
                "level",
                "a constant from 0, a sixth of the earth, to 30, a square centimetre",
            ),
        ),
        (
            ("S2Id(-6.170024, 106.8243203, 13)", "3344474489181175808"),
            ("S2Id(12.5, 190.0, 13)", "8865059287764828160"),
        ),
        dagger="ends the job on NULL and takes any level and any number for a coordinate.",
    ),
)
