"""The reference of sinks, docs/sinks.md, from what kinds say of themselves; `make sinks-doc` writes it."""

from __future__ import annotations

import sys

from daggerspec import sinks
from daggerspec.keys import Key, every
from daggerspec.registered import addresses
from daggerspec.sinks import Kind

_HEAD = """# Sinks

Made by `make sinks-doc` from `libs/spec/src/daggerspec/sinks/`. A dagger has up to 20, items of `sinks` in
its file: `{influx: {measurement: bookings}}`. A kind of which nothing has to be said may be the bare word:
`log`.

Beside its kind a sink may have a `name`, each once in a dagger, and `registered`: the name of a registered
sink of this kind, which says where it is (`daggers sink list`). Keys that it says are left out here. A secret
is the name of a registered one (`token: crm-token`), `{file: PATH}` or `{env: NAME}`; see
[secrets and sinks](access.md#secrets-and-sinks).
"""


def text() -> str:
    """The whole reference, as Markdown."""
    return "\n".join([_HEAD, *(_section(name, kind) for name, kind in sinks.kinds().items())])


def _section(title: str, kind: Kind) -> str:
    rows = [f"| `{name}` | {_needed(key)} | {key.about} |" for name, key in every(kind.KEYS)]
    address = [f"`{key.name}`" for key in addresses(kind.KEYS)]
    early = "yes: a row that is written again takes its place" if kind.UPSERTS else "no"
    lines = [
        f"## {title}",
        "",
        sinks.about(kind),
        "",
        f"* Guarantee: {kind.GUARANTEE}.",
        f"* `emit: early`: {early}.",
        f"* A registered one says: {', '.join(address) or 'nothing, it has no address'}.",
        "",
        "| key | needed | what it says |",
        "|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def _needed(key: Key) -> str:
    other, word = key.needed_with
    if other:
        return f"with `{other}: {word}`"
    return "yes" if key.required else "no"


if __name__ == "__main__":
    sys.stdout.write(text())
