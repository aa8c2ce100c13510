"""Matchers of alerts in requests: what each says, and whether alerts have such a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation
from fleet.alerts.routing import labels
from fleet.alerts.routing.matching import Matcher, parse_matcher


def read_matchers(path: str, texts: Sequence[str]) -> tuple[list[Matcher], list[Violation]]:
    """Read matchers at a path, and what is wrong with each."""
    matchers, wrong = list[Matcher](), list[Violation]()
    for number, text in enumerate(texts):
        try:
            matchers.append(parse_matcher(text))
        except ValueError as error:
            wrong.append(Violation(f"{path}[{number}]", str(error), "INVALID_MATCHER"))
            continue
        wrong += check_label(f"{path}[{number}]", matchers[-1].label)
    return matchers, wrong


def check_label(path: str, label: str) -> Iterator[Violation]:
    """Check that alerts have a label: one that is misspelt would match nothing, or, negated, everything."""
    if label in labels.NAMES or label.startswith(labels.KEY):
        return
    near = nearest(label, labels.NAMES)
    names = f"{', '.join(labels.NAMES)} and {labels.KEY}COLUMN"
    text = f"has the label {label}, and alerts have {names}{hint(near, '')}"
    yield Violation(path, text, "UNKNOWN_LABEL", suggestion=near or "")
