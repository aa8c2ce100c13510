"""Runs benches, and puts what they print, word for word, into docs/performance.md.

    .venv/bin/python bench/publish.py run [NAME …]    # each once, one after another; all when unsaid
    .venv/bin/python bench/publish.py write           # what they printed last into the page

What a bench prints is also in .cache/bench/NAME.txt; one that fails leaves what was there, and the others
run. One that has measured all and misses a bar has not failed so. In the page it stands behind a line
`<!-- bench NAME -->`. The table of targets is made of these blocks, so no number in it is another than the
bench's.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, KEPT = ROOT / "docs" / "performance.md", ROOT / ".cache" / "bench"
LIMIT_S = 1500
_BLOCK = "(?s)(<!-- bench {name} -->\n```\n).*?(```\n)"
_TABLE = re.compile(r"(<!-- targets -->\n)(?:\|.*\n)*")

RUNS = {
    "seed": "seed.py --flink --runs 3",
    "coldstart": "coldstart.py --runs 10",
    "idle": "idle.py",
    "live": "live.py",
    "freshness": "freshness.py final early forward --flink",
    "preview": "preview.py --seconds 240",
    "sinks": "sinks.py",
    "sinktrouble": "sinktrouble.py",
    "forward": "forward.py",
    "decoding": "decoding.py",
    "maps": "maps.py",
    "threads": "threads.py",
    "reader": "reader.py",
    "log": "log.py",
    "fleetsize": "fleetsize.py",
    "reboot": "reboot.py",
    "commands": "commands.py",
    "screens": "screens.py",
    "state": "state.py --state disk",
    "functions": "functions.py S2Id GeoHash Distance DistinctCount",
    "replay": "replay.py",
    "alerts": "alerts.py",
}
"""Benches by the name of their block, the most important first."""
MORE = ("validate", "bombs", "pages", "cluster")
"""Benches that are run, too, and have no block."""

Found = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Target:
    """A target, the lines of a bench's output that say how far it is met, and what they say.

    `tell` gets the numbers that the groups of `pattern` hold.
    """

    what: str
    bench: str
    pattern: str
    tell: Callable[..., Found]


TARGETS = (
    Target(
        "the seed query's exact 23,932 rows, by us and by Flink",
        "seed",
        r"^Flink, cold .* (\d+) rows$[\s\S]*?^cold .* (\d+) rows([\s\S]*)",
        lambda theirs, ours, rest: (
            f"{theirs:,}, {ours:,}",
            (theirs, ours, "WRONG" in rest) == (23932, 23932, False),
        ),
    ),
    Target(
        "warm: 680,000 records for a CPU-second where Flink does 340,000, and twice Flink",
        "seed",
        r"^Flink, median +(\d+) k[\s\S]*?^warm, median +(\d+) k",
        lambda flink, warm: (f"{warm} k to {flink} k: {warm / flink:.2f} times", warm >= 2 * flink),
    ),
    Target(
        "a light dagger at most 0.02 cores",
        "idle",
        r"^light dagger,.*: ([\d.]+) cores",
        lambda cores: (f"{cores:.3f} cores", cores <= 0.02),
    ),
    Target(
        "end of window to row: the watermark's delay of 5 s + 2 s at p95",
        "idle",
        r"end of window to row in the sink.* p95 ([\d.]+) s",
        lambda late: (f"{late:.1f} s", late <= 7.0),
    ),
    Target(
        "an idle dagger at most 660 MiB",
        "idle",
        r"^idle dagger,.*: (\d+) MiB",
        lambda mib: (f"{mib} MiB", mib <= 660),
    ),
    Target(
        "a cold start at most 6 s",
        "coldstart",
        r"^cold start,.* median ([\d.]+) s",
        lambda took: (f"{took:.2f} s to the first commit", took <= 6.0),
    ),
    Target(
        "a start by the spare at most 1.5 s and 2.5 CPU-s, 0.28 of a cold one",
        "coldstart",
        r"^cold start,.* median ([\d.]+) s[\s\S]*?^start by the spare,.* ([\d.]+) CPU-s; median ([\d.]+) s",
        lambda cold, cpu, took: (
            f"{took:.2f} s, {cpu:.1f} CPU-s, {took / cold:.2f}",
            took <= 1.5 and cpu <= 2.5 and took <= 0.28 * cold,
        ),
    ),
    Target(
        "41,667 records/s at a 2 s trigger, lag does not grow",
        "live",
        r"^live, 41667 .*: ([\d.]+) cores.* p50 (\d+) ms.*: (does not grow|grows)",
        lambda cores, took, lag: (
            f"{cores:.2f} cores, batches of {took} ms, lag {lag}",
            lag == "does not grow",
        ),
    ),
    Target(
        "rows of closed windows within 2 s beyond the watermark's delay, at p95",
        "freshness",
        r"^final, .* p95 ([\d.]+) s, .* ([\d.]+) cores"
        r"[\s\S]*?^Flink, final, .* p95 ([\d.]+) s, .* ([\d.]+) cores",
        lambda late, cores, theirs, flink: (
            f"{late:.2f} s at {cores:.2f} cores; Flink {theirs:.2f} s at {flink:.2f}",
            late <= 2,
        ),
    ),
    Target(
        "updates of open windows within 0.5 s of Kafka's time, forwarded records within 0.3 s, at p95",
        "freshness",
        r"^early, .* p95 ([\d.]+) s[\s\S]*?^forward, .* p95 ([\d.]+) s",
        lambda early, forward: (f"{early:.2f} s, {forward:.2f} s", early <= 0.5 and forward <= 0.3),
    ),
    Target(
        "a preview warm: columns within 300 ms, first row within 2 s at p95; cold: within 8 s",
        "preview",
        r"^\d+ warm: columns p50 [\d.]+ s, p95 ([\d.]+) s[\s\S]*?"
        r"^preview: first row p95 ([\d.]+) s warm, ([\d.]+) s cold",
        lambda columns, warm, cold: (
            f"{columns:.2f} s, {warm:.2f} s; {cold:.2f} s",
            columns <= 0.3 and warm <= 2 and cold <= 8,
        ),
    ),
    Target(
        "a forwarding from Kafka to Parquet: 150,000 records for a CPU-second, warm",
        "forward",
        r"^fields: (\d+) k [\s\S]*?^record: (\d+) k ",
        lambda fields, record: (
            f"{fields} k of fields, {record} k as they are",
            min(fields, record) >= 150,
        ),
    ),
    Target(
        "upserts: 400,000 rows for a CPU-second, 100,000 with PostgreSQL's own",
        "sinks",
        r"^postgres, upsert: (\d+)\.\d k .*\n  with the server's: (\d+)",
        lambda own, whole: (f"{own} k, {whole} k", own >= 400 and whole >= 100),
    ),
    Target(
        "documents for Elasticsearch: 150,000 for a CPU-second",
        "sinks",
        r"^elasticsearch: (\d+)\.",
        lambda own: (f"{own} k", own >= 150),
    ),
    Target(
        "requests for a CPU-second: 8,000 by HTTP, 3,500 by gRPC",
        "sinks",
        r"^grpc: ([\d.]+) k[\s\S]*?^http, 1 row a request: ([\d.]+) k",
        lambda grpc, http: (f"{http:.1f} k, {grpc:.1f} k", http >= 8 and grpc >= 3.5),
    ),
    Target(
        "rows of HTTP, 100 a request: 400,000 for a CPU-second",
        "sinks",
        r"^http, 100 rows a request: (\d+)\.",
        lambda own: (f"{own} k", own >= 400),
    ),
    Target(
        "rows of Parquet, without the way there: 5,000,000 for a CPU-second",
        "sinks",
        r"^parquet: (\d+),(\d+)\.",
        lambda millions, thousands: (f"{millions}.{thousands // 100} M", millions >= 5),
    ),
    Target(
        "a server that takes 15 requests at once: at most 10 % refused, at least 75 % of the best rate",
        "sinktrouble",
        r"^throttled: ([\d.]+)% .* (\d+)% of the best rate",
        lambda refused, rate: (f"{refused:.1f} %, {rate} %", refused <= 10 and rate >= 75),
    ),
    Target(
        "3 rows of 5,000 that PostgreSQL refuses: at most 1 s more",
        "sinktrouble",
        r"^poison: 3 of 5,000 rows refused, (-?[\d.]+) s more",
        lambda more: (f"{more:.2f} s", more <= 1),
    ),
    Target(
        "a query is judged within 100 ms of a key at p95, 1,000 daggers are searched within 50 ms",
        "screens",
        r"^a text is judged, .*: ([\d.]+) ms[\s\S]*?^search of 1,000 daggers, .*: ([\d.]+) ms",
        lambda text, search: (f"{text:.0f} ms, {search:.0f} ms", text <= 100 and search <= 50),
    ),
    Target(
        "a list of 1,000 daggers within 1 s, and at most 16 ms of work for a frame that scrolls, at p95",
        "screens",
        r"^list of 1,000 daggers, first load, .*: ([\d.]+) s"
        r"[\s\S]*?^list of 1,000 daggers, script.*: ([\d.]+) ms",
        lambda load, frame: (f"{load:.2f} s, {frame:.1f} ms", load <= 1 and frame <= 16),
    ),
    Target(
        "a dagger's first screen within 1.5 s at p95",
        "screens",
        r"^first screen of a dagger, first load, .*: ([\d.]+) s",
        lambda load: (f"{load:.2f} s", load <= 1.5),
    ),
    Target(
        "10,000,000 keys in one window of a default driver",
        "state",
        r"^a default driver may have (\d+) MiB[\s\S]*?^disk: .* ([\d,]+) rows written, at most (\d+) MiB",
        lambda may, rows, most: (
            f"on disk {rows} rows, {most} of {may} MiB",
            rows == "10,000,000" and most <= may,
        ),
    ),
    Target(
        "CreateDagger at least 1,500/s on 2 cores",
        "log",
        r"^CreateDagger, median.*: (\d+) calls/s",
        lambda calls: (f"{calls:,}", calls >= 1500),
    ),
    Target(
        "a fold of 1,000,000 events in at most 20 s",
        "log",
        r"^fold of 1000000 .*: ([\d.]+) s",
        lambda took: (f"{took:.1f} s", took <= 20),
    ),
    Target(
        "10,000 daggers over 40 hosts: scheduler, monitor and gateway at most 0.3 cores each",
        "fleetsize",
        r"^together: [\d.]+ cores \(gateway ([\d.]+) \+ scheduler ([\d.]+) \+ monitor ([\d.]+)\)",
        lambda gateway, scheduler, monitor: (
            f"{scheduler:.2f}, {monitor:.2f}, {gateway:.2f}",
            max(gateway, scheduler, monitor) <= 0.3,
        ),
    ),
    Target(
        "a placement round at most 1 s, a list at most 200 ms, a gateway's start at most 5 s",
        "fleetsize",
        r"^ListDaggers, a page of 100: .* p95 (\d+) ms[\s\S]*?^placement round,.*: (\d+) ms"
        r"[\s\S]*?^start of a gateway, on its snapshot: ([\d.]+) s",
        lambda page, place, start: (
            f"{place} ms, {page} ms, {start:.1f} s",
            place <= 1_000 and page <= 200 and start <= 5,
        ),
    ),
    Target(
        "30 daggers after their machine lost its power: none tried twice, at most 1.1 times their starts",
        "reboot",
        r"^reboot: (\d+) daggers in .*, ([\d.]+) times the .*, (\d+) launched more than once",
        lambda daggers, times, failed: (
            f"{daggers}, {times:.2f} times, {failed} tried twice",
            (daggers, times <= 1.1, failed) == (30, True, 0),
        ),
    ),
    Target(
        "a replay of 100,000 rows begins within 2 s, takes at most 30 s and 200 MiB",
        "replay",
        r"start ([\d.]+) s .* in all ([\d.]+) s .* (\d+) MiB",
        lambda start, whole, mib: (
            f"{start:.2f} s, {whole:.1f} s, {mib} MiB",
            (start <= 2, whole <= 30, mib <= 200) == (True, True, True),
        ),
    ),
    Target(
        "100,000 (rule × key) judged each window: at most 10 % more CPU than without rules",
        "alerts",
        r"^judging .*: ([+-][\d.]+)%",
        lambda more: (f"{more:+.1f} %", more <= 10),
    ),
    Target(
        "end of window to receiver within 2 s above the watermark's delay, at p95",
        "alerts",
        r"^end of window to receiver.* p95 ([\d.]+) s",
        lambda late: (f"{late:.2f} s", late <= 2),
    ),
    Target(
        "10,000 incidents at once in the messages that routes say, and none lost",
        "alerts",
        r"^10,000 incidents at once: ([\d,]+) in the log .*, ([\d,]+) told in (\d+) messages",
        lambda written, alerts, messages: (
            f"{alerts} in {messages} messages",
            (written, alerts, messages) == ("10,000", "10,000", 10),
        ),
    ),
    Target(
        "a start on 1,000,000 events of alerts within 30 s, a simulation of seven days within 10 s",
        "alerts",
        r"^start of a monitor on .*: ([\d.]+) s,[\s\S]*?^simulation of .* records: ([\d.]+) s",
        lambda start, simulated: (f"{start:.1f} s, {simulated:.1f} s", start <= 30 and simulated <= 10),
    ),
    *(
        Target(
            f"{name} at least {least:.1f} M rows/s per core",
            "functions",
            rf"^{name} +([\d.]+) M rows",
            lambda rate, least=least: (f"{rate:.2f} M", rate >= least),
        )
        for name, least in (("S2Id", 1.5), ("GeoHash", 1.0), ("Distance", 1.0))
    ),
)


def main() -> None:
    """Run what is asked for, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "write"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*RUNS, *MORE)))
    told = parser.parse_args()
    if unknown := set(told.names) - {*RUNS, *MORE}:
        parser.error(f"no such bench: {', '.join(sorted(unknown))}")
    if told.what == "run":
        failed = [name for name in told.names or RUNS if not run(name)]
        sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
    text = PAGE.read_text("utf-8")
    for file in sorted(KEPT.glob("*.txt")):
        text = placed(text, file.stem, file.read_text("utf-8"))
    PAGE.write_text(with_targets(text), "utf-8")


def run(name: str) -> bool:
    """Run a bench, print what it prints, and keep that; whether it has ended well."""
    KEPT.mkdir(parents=True, exist_ok=True)
    words = shlex.split(RUNS.get(name, f"{name}.py"))
    commit = ["git", "-C", str(ROOT), "log", "-1", "--format=%h, %cs"]
    said = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    print(f"== bench/{' '.join(words)}", flush=True)
    begin, lines = time.monotonic(), [f"$ bench/{' '.join(words)}    # at {said}\n"]
    # Interrupted, not killed, so that it takes its stack down.
    limited = ["timeout", "--signal=INT", "--kill-after=90", str(LIMIT_S)]
    command = [*limited, sys.executable, str(ROOT / "bench" / words[0]), *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as bench:
        assert bench.stdout is not None
        for line in bench.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    print(f"-- {time.monotonic() - begin:.0f} s, ended with {bench.returncode}", flush=True)
    text = "".join(lines)
    if bench.returncode == 0 or _has_measured_all(name, text):
        (KEPT / f"{name}.txt").write_text(text, "utf-8")
    return bench.returncode == 0


def _has_measured_all(name: str, text: str) -> bool:
    """Tell whether a bench that has ended otherwise than with 0 says what all of its targets need."""
    patterns = [target.pattern for target in TARGETS if target.bench == name]
    return bool(patterns) and all(re.search(pattern, text, re.MULTILINE) for pattern in patterns)


def placed(page: str, name: str, output: str) -> str:
    """The page with this output in its block; the same where it has none."""
    return re.sub(_BLOCK.format(name=name), lambda block: f"{block[1]}{output}{block[2]}", page)


def with_targets(page: str) -> str:
    """The page with the table that its blocks make."""
    rows = ["| target | found | | bench |", "|---|---|---|---|"]
    for target in TARGETS:
        found, met = judged(target, page)
        rows.append(f"| {target.what} | {found} | {met} | `{target.bench}` |")
    return _TABLE.sub(lambda table: table[1] + "".join(f"{row}\n" for row in rows), page)


def judged(target: Target, page: str) -> tuple[str, str]:
    """What the page's block says of a target, and whether that is enough."""
    block = re.search(_BLOCK.format(name=target.bench), page)
    lines = re.search(target.pattern, block[0], re.MULTILINE) if block else None
    if lines is None:
        return "", "not measured"
    found, met = target.tell(*map(_number, lines.groups()))
    return found, "met" if met else "**not met**"


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


if __name__ == "__main__":
    main()
