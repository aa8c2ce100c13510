"""S2AreaInKm2(id)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.types import DOUBLE

FUNCTION = Function(
    "S2AreaInKm2",
    (
        Signature((Family.TEXT,), DOUBLE, "s2areainkm2({0})"),
        Signature((Family.INTEGER,), DOUBLE, "s2areainkm2(CAST({0} AS STRING))"),
    ),
    own=True,
    doc=Doc(
        "The area of an S2 cell in square kilometres, on a globe of 510,072,000 km². NULL, and counted as bad"
        " data, for what is no cell id.",
        (("id", "a cell as S2Id gives it"),),
        (
            ("S2AreaInKm2('3458764513820540928')", "85011999.99999997"),
            ("S2AreaInKm2('0')", "NULL"),
        ),
        dagger="ends the job on NULL and on what is no number, and gives 0 for the cell id 0.",
    ),
)
