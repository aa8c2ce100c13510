"""The function reference, docs/functions.md, from what the functions say; `make functions-doc` writes it."""

from __future__ import annotations

import sys

from daggersql.functions import registry
from daggersql.functions.signature import Doc, Function
from daggersql.ir.types import Type

_HEAD = """# Functions of our own

Made by `make functions-doc` from `libs/daggersql/src/daggersql/functions/own/`; every example is a test.

Names may be written in any letter case. NULL gives NULL where nothing else is said. A value that a function
cannot use gives NULL and is counted, by function, in the dagger's heartbeat (`bad_values`); it never ends the
job. A constant that can never work (a zone, a pattern, a path, a level …) is refused when the query is
checked.
"""


def text() -> str:
    """The whole reference, as Markdown."""
    functions = sorted(registry.own(), key=lambda function: function.name.lower())
    listed = " · ".join(f"[{function.name}](#{function.name.lower()})" for function in functions)
    return "\n".join([_HEAD, listed, "", *(_section(function) for function in functions)])


def _section(function: Function) -> str:
    doc = function.doc
    if doc is None:
        return f"## {function.name}\n"
    lines = [f"## {function.name}", f"`{_call(function, doc)}`{_result(function)}", "", doc.about, ""]
    lines += [f"- `{name}`: {what}" for name, what in doc.parameters]
    if doc.examples:
        lines += ["", "```sql"]
        lines += [f"{call}  -- {answer}" for call, answer in doc.examples]
        lines.append("```")
    if doc.state:
        lines += ["", f"State for each group: {doc.state}"]
    if function.warning:
        lines += ["", f"Warning in the plan: {function.warning}"]
    if doc.dagger:
        lines += ["", f"Dagger's own: {doc.dagger[0].lower()}{doc.dagger[1:]}"]
    return "\n".join([*lines, ""])


def _call(function: Function, doc: Doc) -> str:
    more = ", …" if any(signature.variadic for signature in function.signatures) else ""
    return f"{function.name}({', '.join(name for name, _ in doc.parameters)}{more})"


def _result(function: Function) -> str:
    if function.rows is not None:
        return " → rows of " + ", ".join(f"{name} {kind.spark.upper()}" for name, kind in function.rows)
    results = list(
        dict.fromkeys(
            signature.result.spark.upper()
            for signature in function.signatures
            if isinstance(signature.result, Type)
        )
    )
    return f" → {' or '.join(results)}" if results else ""


if __name__ == "__main__":
    sys.stdout.write(text())
