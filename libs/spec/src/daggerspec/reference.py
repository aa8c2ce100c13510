"""The reference of sinks, docs/sinks.md, from what kinds say of themselves; `make sinks-doc` writes it."""

from __future__ import annotations

import sys

from daggerspec import sinks
from daggerspec.keys import Key, every
from daggerspec.kind import Kind
from daggerspec.registered import addresses

_HEAD = """# Sinks

Made by `make sinks-doc` from `libs/spec/src/daggerspec/sinks/`. A dagger has up to 20, items of `sinks` in
its file: `{influx: {measurement: bookings}}`. A kind of which nothing has to be said may be the bare word:
`log`.

Beside its kind a sink may have a `name`, each once in a dagger, and `registered`: the name of a registered
sink of this kind, which says where it is (`daggers sink list`). Keys that it says are left out here. A secret
is the name of a registered one (`token: crm-token`), `{file: PATH}` or `{env: NAME}`; see
[secrets and sinks](access.md#secrets-and-sinks).

A sink without a name is called by its kind. Rows in heartbeats, troubles and what is quarantined go by names,
and so does `daggers rows --sink NAME`. Two sinks of one kind without names are `kafka` and `kafka-2`,
whatever their order; name them, and an edit of one does not rename the other.

`daggers sink test -f FILE` tries the sinks of a file before it runs, from a host of drivers: secrets,
addresses, the connection, its certificates, and what the sink says. `--send-one` writes a row that is made up
as well. `daggers sink test NAME` tries a registered one.

`limit: {rows_per_second: 1000, requests_per_second: 20, max_in_flight: 4}`, beside the kind, is how much this
dagger writes there at most. Of a registered sink that has a limit a dagger gets its share, and what is less
holds. Which limits a kind keeps stands below; others are refused (LIMIT_NOT_KEPT). A dagger with a limit is
written by one task at a time. `max_rows_per_batch`, a key of the dagger, is about how many records a batch
reads at most: less is repeated after a crash, and a slow sink is done with it sooner.

`freshness: 10s`, a key of the dagger, is how long after the end of their windows its rows have to be in each
sink: an [objective](freshness.md#how-fresh-rows-are) that alerts.

`when: "orders > 10 AND tag_city <> 'x'"`, beside the kind, says which rows go there: a condition of the
[dialect](dialect.md) over the query's output columns. Rows of which it is false or NULL do not. An edit of
it keeps windows and offsets, and holds from the next batch on; a preview shows all rows. With `emit: early`
it must not turn false while a window is open.

## When a sink takes no rows

All sinks of a dagger share its batches: as long as one takes no rows, the next batch waits for it, and with
it the others. The driver asks a sink that is away now and then, computes nothing meanwhile, and heartbeats
say which it is. A fragile sink is best given a dagger of its own, or a rule, beside its kind:

* `on_outage: wait` is what happens when nothing is said: the others wait. With `{wait: 15m}`, `skip` and
  `fail` they go on when it takes no rows for 5 s, or is slow: when a batch waits longer than 5 s for it, and
  longer than for all else together. Its rows stand in a topic of the platform's Kafka,
  `daggers.spool.DAGGER.SINK`, over restarts, moves and edits; once it takes rows again they come to it in
  order and before all newer ones ([freshness](freshness.md#what-a-sink-has-not-taken)). `daggers sink pause
  NAME SINK` has the rows of any sink wait there, until `daggers sink resume`.
* The three differ in what happens once its oldest row has waited for 15 minutes (`{skip: 5m}` says another
  time; how long the dagger was stopped does not count), or 1 GiB waits. `wait`: the others wait, too. `skip`:
  the oldest of its rows are quarantined (SINK_UNAVAILABLE), at most 1 GiB a day, and the others go on; the
  sink gets the newest. `fail`: the driver ends, and is launched again at growing intervals.
* `{skip: 15m, auto_replay: true}`: once the sink has everything that waited, what was quarantined is replayed
  by itself, as `daggers quarantine replay` does it. Its rows come behind newer ones then; where they could
  take the place of one (`emit: early`, keys of your own) it is refused (NEWER_MAY_EXIST).
* `max_refused: 0.5` is the share of its rows that it may refuse. Where it refuses more, and at least 100,
  nothing more is quarantined and the batch waits (SINK_REFUSES_MOST), unless that is allowed for a while:
  `daggers quarantine allow NAME --for 1h`. When nothing is said all are quarantined, with a warning, unless
  there are 100 or more in a partition of a batch and the sink takes none of them.

A sink that is reached and says no (SINK_DENIED, SINK_MISSING, SINK_SCHEMA) is waited for as well, and its
dagger is DEGRADED: somebody has to act. Only at the start of a driver that ends it.

## When a sink refuses rows

A batch that is refused is divided until the row is found: halves of it are tried, in their order, so one bad
row among n costs at most 2 log2(n) + 8 further tries. A row that is refused alone while others pass is
quarantined, in whatever words the server says so; the others are written. Where none passes the sink is the
reason: the batch waits, and the dagger says why. `daggers quarantine allow NAME --for 1h` quarantines such
rows.

What a server says of its own state is no row's fault, and rows wait: no connection, no disk, no memory, no
shard left, read-only, recovering, too many sessions or requests, no right. A row of which some value cannot
be written at all (a year above 9999 in `${t:%Y-%m-%d}`, a text that is no UTF-8) is quarantined
(OUT_OF_RANGE, UNWRITABLE). One that is too large for the quarantine is kept there by its key, its place and
its SHA-256.

What no row can pass is said before the first one, by the launch, by `daggers sink test -f FILE` and by
`daggers plan`, with the statement that helps: types of columns, rights, row-level security, a mapping that
lacks a field. `sink test` does what a batch does, and takes it back; a plan has that done where sinks or
columns are others.
"""


def text() -> str:
    """Render the whole reference as Markdown."""
    return "\n".join([_HEAD, *(_section(name, kind) for name, kind in sinks.kinds().items())])


def _section(title: str, kind: Kind) -> str:
    rows = [f"| `{name}` | {describe_requirement(key)} | {key.about} |" for name, key in every(kind.KEYS)]
    address = [f"`{key.name}`" for key in addresses(kind.KEYS)]
    early = "yes: a row that is written again takes its place" if kind.CAPABILITIES.upserts else "no"
    records = "yes" if kind.CAPABILITIES.records else "no"
    limits = ", ".join(f"`{limit}`" for limit in kind.CAPABILITIES.limits)
    lines = [
        f"## {title}",
        "",
        sinks.about(kind),
        "",
        *([sinks.more_about(kind), ""] if sinks.more_about(kind) else []),
        f"* Guarantee: {kind.CAPABILITIES.promise}.",
        f"* `emit: early`: {early}.",
        f"* Records as they are (`payload: record`): {records}.",
        f"* Late records (`late: {{keep: NAME}}`): {'yes' if kind.CAPABILITIES.late else 'no'}.",
        f"* A registered one says: {', '.join(address) or 'nothing, it has no address'}.",
        f"* Limits that it keeps: {limits or 'none'}.",
        "",
        "| key | needed | what it says |",
        "|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def describe_requirement(key: Key) -> str:
    """Format whether a key is required: yes, no, or with which word of another."""
    other, word = key.needed_with
    if other:
        return f"with `{other}: {word}`"
    return "yes" if key.required else "no"


if __name__ == "__main__":
    sys.stdout.write(text())
