"""ByteToString(bytes)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.ops import Op
from daggersql.ir.types import STRING

FUNCTION = Function(
    "ByteToString",
    (Signature((Family.BINARY,), STRING, Op.TEXT_OF_BYTES),),
    own=True,
    doc=Doc(
        "Bytes as text, read as UTF-8. What is no UTF-8 becomes the replacement character U+FFFD; NULL"
        " for NULL.",
        (("bytes", "a bytes field"),),
        (
            ("ByteToString(X'7465737453747269')", "testStri"),
            ("ByteToString(X'6F6B806F6B')", "ok\ufffdok"),
        ),
    ),
)
