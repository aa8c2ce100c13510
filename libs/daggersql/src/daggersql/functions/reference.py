"""The function reference, docs/functions.md, from what the functions say; `make functions-doc` writes it."""

from __future__ import annotations

import sys
from itertools import zip_longest

from daggersql.functions import registry
from daggersql.functions.signature import Function
from daggersql.ir.families import WORDS, Family
from daggersql.ir.types import Type

_HEAD = """# Functions of our own

Made by `make functions-doc` from `libs/daggersql/src/daggersql/functions/own/`; every example is a test.

Names may be written in any letter case. NULL gives NULL where nothing else is said. A value that a function
cannot use gives NULL and is counted, by function, in the dagger's heartbeat (`bad_values`); it never ends the
job. A constant that can never work (a zone, a pattern, a path, a level …) is refused when the query is
checked.
"""


def text() -> str:
    """Build the whole reference, as Markdown."""
    functions = sorted(registry.own(), key=lambda function: function.name.lower())
    listed = " · ".join(f"[{function.name}](#{function.name.lower()})" for function in functions)
    return "\n".join([_HEAD, listed, "", *(_section(function) for function in functions)])


def _section(function: Function) -> str:
    doc = function.doc
    if doc is None:
        return f"## {function.name}\n"
    lines = [f"## {function.name}", f"`{_call(function)}`{_result(function)}", "", doc.about, ""]
    lines += [f"- `{name}`: {description}" for name, description in doc.parameters]
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


def usage(function: Function) -> str:
    """Write a call of a function with its result: `upper(text) → STRING`."""
    return _call(function) + _result(function)


def _call(function: Function) -> str:
    more = ", …" if any(signature.variadic for signature in function.signatures) else ""
    return f"{function.name}({', '.join(_parameters(function))}{more})"


def _parameters(function: Function) -> list[str]:
    """List the names of the parameters, or their families if they have none; optional ones [in brackets]."""
    if function.doc is not None:
        return [name for name, _ in function.doc.parameters]
    needed = min(len(signature.parameters) for signature in function.signatures)
    places = zip_longest(*(signature.parameters for signature in function.signatures))
    words = [_describe_families({family for family in place if family is not None}) for place in places]
    return [*words[:needed], *(f"[{word}]" for word in words[needed:])]


def _describe_families(families: set[Family]) -> str:
    """Describe the families that a parameter accepts in all signatures together."""
    if Family.NUMBER in families:
        families -= {Family.INTEGER, Family.DECIMAL}
    return " or ".join(WORDS[family] for family in Family if family in families)


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
