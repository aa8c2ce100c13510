"""Runs a directory of conformance cases. Prints a line for each failure; the last line is the count.

make conformance CASES=DIR
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance import functions, queries, sinks
from tests.conformance.corpus import HERE, Corpus
from tests.conformance.engine import Engine, engine

from chassis import logging


def judge(case: Mapping[str, Any], corpus: Corpus, spark: Engine | None) -> str | None:
    """What is wrong with one case; None when it passes. Without Spark, only what needs none is looked at."""
    match case:
        case {"$unread": problem}:
            return f"cannot be read: {problem}"
        case {"udf": _}:
            wrong = functions.by_reference(case, corpus)
            if wrong is None and spark is not None:
                wrong = functions.by_spark(case, corpus, spark)
            return None if "optional" in case else wrong
        case {"expect_columns": _}:
            plan, wrong = queries.accepted(case, corpus)
            if wrong is None and plan is not None and spark is not None:
                wrong = queries.executed(plan, case, corpus, spark)
            # What a case says may be left out may be refused, but not answered wrongly.
            return None if plan is None and "optional" in case else wrong
        case {"class": _, "expect": _}:
            return queries.refused(case, corpus)
        case {"measurement": _, "expected": expected}:
            found = sinks.outcome(dict(case))
            return None if found == expected else f"gives {found!r}, not {expected!r}"
    return "is no kind of case that is known"


def safely(case: Mapping[str, Any], corpus: Corpus, spark: Engine | None) -> str | None:
    """The same; whatever is raised is a failure of that case alone."""
    try:
        return judge(case, corpus, spark)
    except Exception as problem:  # noqa: BLE001 - a runner tells of every failure and goes on
        return f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"


def main() -> int:
    """Run all; 1 when anything failed."""
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument(
        "directory", type=Path, nargs="?", default=HERE, help="holds *.jsonl, proto/, recipes.py"
    )
    parser.add_argument("--only", default="", help="only cases whose name begins so, such as ACC-01")
    options = parser.parse_args()
    if not sorted(options.directory.glob("*.jsonl")):
        parser.error(f"{options.directory} has no *.jsonl")
    logging.configure("conformance", level="ERROR", stream=sys.stderr)
    corpus = Corpus(options.directory.resolve())
    lines = [(name, case) for name, case in corpus.lines() if name.startswith(options.only)]
    failed = 0
    with engine(corpus.files) as spark:
        for number, (name, case) in enumerate(lines, 1):
            if sys.stderr.isatty():
                print(f"\r{number}/{len(lines)} ", end="", file=sys.stderr)
            wrong = safely(case, corpus, spark)
            if wrong is not None:
                failed += 1
                print(f"{name}: {' '.join(wrong.split())[:400]}", flush=True)
    print(f"{len(lines) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
