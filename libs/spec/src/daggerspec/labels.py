"""Labels of hosts, and what of them a dagger needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from daggerspec.violation import Violation

MAX_LABELS: Final = 20
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")
_FORM: Final = "1 to 63 of A-Z, a-z, 0-9, '.', '_', '/' and '-', and begin and end with a letter or digit"


def violations(path: str, labels: Mapping[str, str]) -> Iterator[Violation]:
    """Yield the violations of labels that a dagger needs."""
    if len(labels) > MAX_LABELS:
        yield Violation(path, f"must not be more than {MAX_LABELS}", "TOO_MANY")
    for key, value in sorted(labels.items()):
        if not _WORD.fullmatch(key) or not _WORD.fullmatch(value):
            yield Violation(f'{path}["{key}"]', f"key and value must be {_FORM}", "INVALID_LABEL")


def parse_labels(words: Iterable[str]) -> dict[str, str]:
    """Parse labels: KEY=VALUE each. Raises: ValueError."""
    labels: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not _WORD.fullmatch(key) or not _WORD.fullmatch(value):
            raise ValueError(f"{word} must be KEY=VALUE, each {_FORM}")
        if key in labels:
            raise ValueError(f"label {key} is named twice")
        labels[key] = value
    if len(labels) > MAX_LABELS:
        raise ValueError(f"must not be more than {MAX_LABELS}")
    return labels
