"""DartContains(name, text[, pattern][, refresh hours]): does a reference table list a text, or match it?

Patterns are Java's, spelt out for Python (`daggersql.functions.javaregexes`). The fast form matches a batch
against all entries at once, by RE2, which takes time in proportion to the text whatever the pattern. What RE2
does not know (it looks neither ahead nor behind) or reads otherwise is left to Python's matcher.
"""

from __future__ import annotations

import re
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from daggersql.functions import formats
from daggersql.functions.javaregexes import compile_pattern
from runtime.recent import cache_in_use
from runtime.references import Tables, entries, worker
from runtime.values.registration import Registration


def reference(
    name: str,
    text: str | None,
    pattern: str | int | None = None,
    refresh: int | None = 1,
    *,
    tables: Tables,
) -> bool | None:
    """Tell whether one text is listed; the third argument may be the refresh time. Raises: InvalidContent."""
    if isinstance(pattern, int):
        pattern, refresh = None, pattern
    listed = entries(tables.get(name, 1 if refresh is None else refresh))
    if text is None:
        return None
    if pattern is None:
        return text in listed
    return any(one.fullmatch(text) is not None for one in patterns(pattern, listed))


def patterns(pattern: str, listed: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Compile the pattern with each entry put in; entries that make no pattern are left out."""
    parts, _ = formats.parse(pattern)
    compiled_patterns = []
    for entry in listed:
        with suppress(re.error, OverflowError, RecursionError):
            compiled_patterns.append(compile_pattern(formats.fill(parts, entry)))
    return compiled_patterns


def compute(names: pa.Array, texts: pa.Array, wanted: pa.Array) -> pa.Array:
    """Tell whether many texts are listed, in the tables of the running batch.

    Three text arrays of one length in, booleans out; NULL where the text is.
    """
    answers = pa.nulls(len(texts), pa.bool_())
    pairs = {*zip(names.to_pylist(), wanted.to_pylist(), strict=True)}
    for name, pattern in pairs:
        if name is None:
            continue
        listed = worker.table(name).entries
        if pattern is None:
            matches = pc.is_in(texts, value_set=pa.array(listed, pa.string()))
            rows = pc.and_(pc.equal(names, name), wanted.is_null())
        else:
            matches = match_entries(texts, pattern, listed)
            rows = pc.and_(pc.equal(names, name), pc.fill_null(pc.equal(wanted, pattern), False))
        answers = pc.if_else(pc.fill_null(rows, False), matches, answers)
    return pc.if_else(texts.is_valid(), answers, pa.scalar(None, pa.bool_()))


def match_entries(texts: pa.Array, pattern: str, listed: tuple[str, ...]) -> pa.Array:
    """Match each whole text against the pattern of any entry: texts in, booleans out, both of one length."""
    alternatives = _patterns(pattern, listed)
    if not alternatives:
        return pa.repeat(False, len(texts))
    whole = "|".join(f"(?:{one.pattern})" for one in alternatives)
    # RE2 ignores the case of every letter, Java only that of ASCII.
    if "(?i" not in whole:
        with suppress(pa.ArrowInvalid):
            return pc.match_substring_regex(texts, f"\\A(?:{whole})\\z")
    coded = texts.dictionary_encode()
    hits = [
        any(one.fullmatch(text) is not None for one in alternatives) for text in coded.dictionary.to_pylist()
    ]
    return pa.array(hits, pa.bool_()).take(coded.indices)


@cache_in_use
def _patterns(pattern: str, listed: tuple[str, ...]) -> list[re.Pattern[str]]:
    return patterns(pattern, listed)


def register(session: Registration) -> None:
    """Bring `dartcontains(STRING, STRING, STRING) -> BOOLEAN` to the session."""
    session.register_uncounted("dartcontains", compute, "boolean")
