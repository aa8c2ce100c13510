"""What the compiler makes of every accepted query; `python -m tests.golden.plans` writes it down anew."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.descriptor_pool import DescriptorPool
from tests.conformance.corpus import compiled, public
from tests.conformance.functions import asked
from tests.conformance.recounts.own import QUERIES

from daggersql import Plan, Table, check

ROOT = Path(__file__).parents[2]
PLANS, CALLS = (Path(__file__).with_name(name) for name in ("plans.json", "calls.json"))
# Findings are for people: their words may change. What values are made of, what a table knows rows by, and
# which rows a sink wants, is in no state. Stages give the same rows as the whole.
_NOT_KEPT = (
    *("warnings", "origins", "copies", "places", "influences"),
    *("key", "conditions", "rules", "staged", "lookahead", "finds_late_where_read"),
)
# What readers may leave out, as the SQL asks for it again, is in no state: it may change, too.
_NOT_KEPT_OF_READS = ("conditions",)
# Of which grid a column's cells are is for maps.
_NOT_KEPT_OF_COLUMNS = ("cell",)
# The files never change: what was renamed has its first name there.
_KEPT_AS = {"partial_aggregation": "sums"}
_SQL = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DAGGER = re.compile(r"^```yaml\n(name: .*?)^```", re.MULTILINE | re.DOTALL)


def plans() -> dict[str, Any]:
    """The plan of each query: emitted SQL, reads, hidden columns, fingerprint and the rest."""
    checked = {name: check(sql, tables).plan for name, sql, tables in queries()}
    return {name: kept(plan) for name, plan in checked.items() if plan is not None}


def calls() -> dict[str, Any]:
    """The same of each call of a function."""
    found = {}
    for case in public().cases("udf_cases"):
        for number, question in enumerate(asked(case, public())):
            if question.checked.plan is not None:
                found[f"{case['id']}/{number}" if number else case["id"]] = kept(question.checked.plan)
    return found


def queries() -> Iterator[tuple[str, str, Sequence[Table]]]:
    """Name, text and streams of every query that may be accepted: corpus, recounts, pages, examples."""
    corpus = public()
    for case in corpus.cases("sql_accept"):
        yield case["id"], case["sql"], corpus.tables_of(case)
    for case in corpus.cases("sql_reject"):
        yield case["id"], case["sql"], corpus.tables()
    for name, query in QUERIES.items():
        yield f"recount: {name}", query.sql, corpus.tables(*query.streams)
    for page in sorted((ROOT / "docs").glob("*.md")):
        for sql in _SQL.findall(page.read_text(encoding="utf-8")):
            yield f"{page.name}: {' '.join(sql.split())}", sql, corpus.tables()
    for file in sorted((ROOT / "examples" / "daggers").iterdir()):
        yield f"examples: {file.name}", *_dagger(file.read_text(encoding="utf-8"))
    for text in _DAGGER.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        yield "README.md", *_dagger(text)


def _dagger(file: str) -> tuple[str, Sequence[Table]]:
    """The query of a dagger file and the streams of the examples that it reads."""
    schemas, pool = ROOT / "examples" / "schemas", DescriptorPool()
    for descriptors in compiled(*schemas.iterdir(), include=schemas).file:
        pool.AddSerializedFile(descriptors.SerializeToString())
    messages = {"bookings": "examples.v1.Booking", "driver_pings": "examples.v1.DriverPing"}
    spec = yaml.safe_load(file)
    streams = {each["table"]: messages[each["stream"]] for each in spec["streams"]}
    tables = [
        Table(name, pool.FindMessageTypeByName(full), "event_timestamp") for name, full in streams.items()
    ]
    return spec["sql"], tables


def kept(plan: Plan) -> Any:
    """A plan as a document."""
    document = {
        _KEPT_AS.get(name, name): value for name, value in asdict(plan).items() if name not in _NOT_KEPT
    }
    if document["sums"] is not None:
        del document["sums"]["staged"]
    closing = [window for windows in document["closing"].values() for window in windows]
    for window in filter(None, [document["window"], *closing]):
        del window["gates"]  # no query of the files has any
    for parts, names in (("reads", _NOT_KEPT_OF_READS), ("columns", _NOT_KEPT_OF_COLUMNS)):
        for part in document[parts]:
            for name in names:
                del part[name]
    return json.loads(json.dumps(document, default=str))


def spread(documents: Mapping[str, Any]) -> str:
    """A line for each value."""
    return json.dumps(documents, indent=1, sort_keys=True)


def lines(documents: Mapping[str, Any]) -> str:
    """A line for each document: there are hundreds, and each is small."""
    each = (
        f"{json.dumps(name)}: {json.dumps(documents[name], sort_keys=True)}" for name in sorted(documents)
    )
    return "{\n" + ",\n".join(each) + "\n}"


FILES: dict[Path, tuple[Callable[[], dict[str, Any]], Callable[[Mapping[str, Any]], str]]] = {
    PLANS: (plans, spread),
    CALLS: (calls, lines),
}


def main() -> int:
    """Write the files."""
    for file, (make, shown) in FILES.items():
        file.write_text(shown(make()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
