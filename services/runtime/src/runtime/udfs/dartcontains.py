"""DartContains(name, text[, pattern][, refresh hours]): does a reference table list a text, or match it?

The fast form matches a batch against all entries at once, by RE2, which takes time in proportion to the text
whatever the pattern. What RE2 does not know (it looks neither ahead nor behind) is left to Python's matcher.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from runtime.references import Tables, entries, worker


def reference(
    name: str,
    text: str | None,
    pattern: str | int | None = None,
    refresh: int | None = 1,
    *,
    tables: Tables,
) -> bool | None:
    """Whether one text is listed; the third argument may be the refresh time. Raises: InvalidContent."""
    if isinstance(pattern, int):
        pattern, refresh = None, pattern
    listed = entries(tables.get(name, 1 if refresh is None else refresh))
    if text is None:
        return None
    if pattern is None:
        return text in listed
    return any(re.fullmatch(one, text) is not None for one in patterns(pattern, listed))


def patterns(pattern: str, listed: tuple[str, ...]) -> list[str]:
    """The pattern with each entry put in, but for those that make none."""
    made = []
    for entry in listed:
        one = pattern.replace("%s", entry)
        try:
            re.compile(one)
        except (re.error, OverflowError, RecursionError):
            continue
        made.append(one)
    return made


def compute(names: pa.Array, texts: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether many texts are listed, in the tables of the running batch."""
    answers = pa.nulls(len(texts), pa.bool_())
    pairs = {*zip(names.to_pylist(), wanted.to_pylist(), strict=True)}
    for name, pattern in pairs:
        if name is None:
            continue
        listed = worker.table(name).entries
        if pattern is None:
            found = pc.is_in(texts, value_set=pa.array(listed, pa.string()))
            rows = pc.and_(pc.equal(names, name), wanted.is_null())
        else:
            found = matched(texts, pattern, listed)
            rows = pc.and_(pc.equal(names, name), pc.fill_null(pc.equal(wanted, pattern), False))
        answers = pc.if_else(pc.fill_null(rows, False), found, answers)
    return pc.if_else(texts.is_valid(), answers, pa.scalar(None, pa.bool_()))


def matched(texts: pa.Array, pattern: str, listed: tuple[str, ...]) -> pa.Array:
    """Whether each text as a whole matches the pattern for an entry."""
    made = _made(pattern, listed)
    if not made:
        return pa.repeat(False, len(texts))
    try:
        whole = "|".join(f"(?:{one})" for one in made)
        return pc.match_substring_regex(texts, f"\\A(?:{whole})\\z")
    except pa.ArrowInvalid:
        coded = texts.dictionary_encode()
        known = coded.dictionary.to_pylist()
        hits = [any(re.fullmatch(one, text) is not None for one in made) for text in known]
        return pa.array(hits, pa.bool_()).take(coded.indices)


@lru_cache(maxsize=32)
def _made(pattern: str, listed: tuple[str, ...]) -> list[str]:
    return patterns(pattern, listed)


def register(spark: SparkSession) -> None:
    """Bring `dartcontains(STRING, STRING, STRING) -> BOOLEAN` to the session."""
    # The stub wants the kind of UDF named; pyspark itself warns when it is, and goes by the annotations.
    spark.udf.register("dartcontains", arrow_udf(compute, "boolean"))  # type: ignore[call-overload]
