"""Rules of the alert rules of a specification, as they show without its columns: names, times, counts, forms.

What the columns say of them is `daggersql.rules`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeAlias

from daggers.v1 import rules_pb2, spec_pb2

from daggerspec import fields, limits
from daggerspec.violation import Violation

SEVERITIES: Final = frozenset(rules_pb2.RuleSeverity.values())
MAX_TEXT: Final = 4_096
"""Characters of a condition."""
MAX_SUMMARY: Final = 500
MOST_KEYS: Final = 100_000
"""Keys of all rules of a dagger that are remembered; further ones are not judged until there is room."""
_MAX_URL: Final = 1_024
_REMEMBERED: Final = 16_384
"""Digests of keys that are remembered: a fold of a log meets the same incidents again and again."""

MOST_LIMIT_COLUMNS: Final = 20
"""Columns of a reference table that a rule reads."""

Key: TypeAlias = tuple[str | None, ...]
"""Values of the columns that a rule goes by, as texts; None for NULL."""


def key_text(value: float | str | None) -> str | None:
    """Write a value of a key; NULL stays None."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def digest(rule: rules_pb2.AlertRule) -> str:
    """Return a digest of all that a rule says: one that was edited is another rule."""
    return blake2b(rule.SerializeToString(deterministic=True), digest_size=8).hexdigest()


def digest_of_all(rules: Iterable[rules_pb2.AlertRule]) -> str:
    """Return a digest of all rules of a dagger, in their order."""
    return digest_texts(map(digest, rules))


def key_digest(key: Mapping[str, str]) -> str:
    """Return a digest of the values that an incident is of, by column; empty for no values."""
    if not key:
        return ""
    return _digest_items(tuple(sorted(key.items())))


@lru_cache(maxsize=_REMEMBERED)
def _digest_items(items: tuple[tuple[str, str], ...]) -> str:
    return digest_texts(part for item in items for part in item)


def digest_texts(texts: Iterable[str]) -> str:
    """Return a digest of texts in their order."""
    return blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def format_key(key: Mapping[str, str]) -> str:
    """Return the values that an incident is of for a person: `tag_api=search tag_city=7`, by column."""
    return " ".join(f"{name}={key[name]}" for name in sorted(key))


def severity(rule: rules_pb2.AlertRule) -> rules_pb2.RuleSeverity.ValueType:
    """Return the severity of a rule; where it says none, that is a warning."""
    return rule.severity or rules_pb2.RULE_SEVERITY_WARNING


def absence(rule: rules_pb2.AlertRule) -> timedelta | None:
    """Return for how long a key has no row that the rule is on; None for a rule on rows. What `violations`
    refuses comes as the nearest time that it takes.
    """
    if not rule.HasField("absent"):
        return None
    seconds = min(max(rule.absent.seconds, 0), fields.MAX_DURATION.total_seconds())
    return timedelta(seconds=seconds, microseconds=max(rule.absent.nanos, 0) // 1_000)


def read_tables(rules: rules_pb2.AlertRules) -> list[spec_pb2.ReferenceTable]:
    """Read the reference tables of rules. Raises: DecodeError."""
    return [spec_pb2.ReferenceTable.FromString(one) for one in rules.references]


def limit_columns(of_rule: rules_pb2.RuleLimits) -> tuple[str, ...]:
    """Return the columns of its reference table that a rule reads; where it names none, that is `limit`."""
    return tuple(of_rule.columns) or ("limit",)


def violations(path: str, spec: spec_pb2.DaggerSpec) -> Iterator[Violation]:
    """Yield every violation of the rules of a specification, whose list is at `path`."""
    if len(spec.alerts) > limits.ALERT_RULES:
        problem = f"must not be more than {limits.ALERT_RULES}, and are {len(spec.alerts)}"
        yield Violation(path, problem, "TOO_MANY")
    names = Counter(rule.name for rule in spec.alerts)
    for number, rule in enumerate(spec.alerts):
        inner = f"{path}[{number}]"
        yield from fields.name(f"{inner}.name", rule.name)
        if names[rule.name] > 1:
            problem = f"{rule.name} is the name of {names[rule.name]} rules"
            yield Violation(f"{inner}.name", problem, "DUPLICATE")
        yield from _of_rule(inner, rule)


def _of_rule(path: str, rule: rules_pb2.AlertRule) -> Iterator[Violation]:
    if rule.HasField("absent"):
        yield from _of_absence(path, rule)
    elif not rule.when.strip():
        problem = "is required: a condition over the query's columns, or absent in its place"
        yield Violation(f"{path}.when", problem, "REQUIRED")
    for part in ("when", "resolve_when"):
        if len(getattr(rule, part)) > MAX_TEXT:
            yield Violation(f"{path}.{part}", f"must not be longer than {MAX_TEXT:,} characters", "TOO_LARGE")
    yield from _of_times(path, rule)
    if rule.HasField("limits"):
        yield from _of_limits(f"{path}.limits", rule)
    if rule.severity not in SEVERITIES:
        yield Violation(f"{path}.severity", f"{rule.severity} is no severity", "UNKNOWN_ENUM_VALUE")
    yield from _find_duplicates(f"{path}.key", rule.key)
    if len(rule.summary) > MAX_SUMMARY or not rule.summary.isprintable():
        problem = f"must be one line of up to {MAX_SUMMARY} characters"
        yield Violation(f"{path}.summary", problem, "INVALID_SUMMARY")
    if rule.runbook and not _is_url(rule.runbook):
        problem = f"must be an http(s) URL of up to {_MAX_URL:,} characters, without credentials"
        yield Violation(f"{path}.runbook", problem, "INVALID_URL")


def _find_duplicates(path: str, names: Sequence[str]) -> Iterator[Violation]:
    for place, name in enumerate(names):
        if name in names[:place]:
            yield Violation(f"{path}[{place}]", f"{name} stands there twice", "DUPLICATE")


def _of_limits(path: str, rule: rules_pb2.AlertRule) -> Iterator[Violation]:
    """Yield what is wrong with the limits that a rule reads."""
    yield from fields.reference(f"{path}.reference", rule.limits.reference)
    if not rule.limits.key:
        yield Violation(f"{path}.key", "is required: columns of the query, a key of the table", "REQUIRED")
    yield from _find_duplicates(f"{path}.key", rule.limits.key)
    yield from _find_duplicates(f"{path}.columns", rule.limits.columns)
    if len(rule.limits.columns) > MOST_LIMIT_COLUMNS:
        yield Violation(f"{path}.columns", f"must not be more than {MOST_LIMIT_COLUMNS}", "TOO_MANY")
    for place, name in enumerate(rule.limits.columns):
        yield from fields.table(f"{path}.columns[{place}]", name)


def _of_absence(path: str, rule: rules_pb2.AlertRule) -> Iterator[Violation]:
    """Yield what is wrong with a rule on absent rows."""
    yield from fields.duration(f"{path}.absent", rule.absent, positive=True)
    given = {field.name for field, _ in rule.ListFields()}
    for part in ("when", "for_windows", "for_time", "resolve_when", "clear", "limits"):
        if part in given:
            text = "is of a rule with rows, and absent of one without: say one of both"
            yield Violation(f"{path}.{part}", text, "CONFLICT")


def _of_times(path: str, rule: rules_pb2.AlertRule) -> Iterator[Violation]:
    """Yield what is wrong with when an incident begins and ends."""
    if rule.HasField("for_time"):
        yield from fields.duration(f"{path}.for_time", rule.for_time, positive=True)
        if rule.for_windows:
            yield Violation(f"{path}.for_time", "is said as windows already: say one of both", "CONFLICT")
    if rule.for_windows > limits.RULE_WINDOWS:
        problem = f"must not be more than {limits.RULE_WINDOWS:,} windows"
        yield Violation(f"{path}.for_windows", problem, "OUT_OF_RANGE")
    if rule.clear:
        if not (math.isfinite(rule.clear) and 0 < rule.clear <= 1):
            yield Violation(f"{path}.clear", "must be a share above 0, and at most 100 %", "OUT_OF_RANGE")
        elif rule.resolve_when:
            yield Violation(f"{path}.clear", "says what resolve_when says: say one of both", "CONFLICT")


def _is_url(text: str) -> bool:
    parts = fields.parse_http(text)
    return len(text) <= _MAX_URL and parts is not None and parts.username is None and parts.password is None
