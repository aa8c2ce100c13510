"""ByteToString(bytes)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.types import STRING, Family

# As Java reads bytes. Arrow takes no text that is no UTF-8: it would end the job where it is written.
TEXT_OF_BYTES = "make_valid_utf8(CAST({0} AS STRING))"

FUNCTION = Function(
    "ByteToString",
    (Signature((Family.BINARY,), STRING, TEXT_OF_BYTES),),
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
