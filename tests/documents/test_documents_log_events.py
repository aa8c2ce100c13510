"""Log events have one form, `area.verb_past`, and are written by structlog."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

import pytest
from tests.documents.name_counts import is_participle
from tests.documents.pages import ROOT, tracked

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = re.compile(r"^(self\.)?_?log(ger)?$|^(logging\.)?logger\(\)$", re.IGNORECASE)
SOURCES = sorted(file for file in tracked() if "/src/" in file and file.endswith(".py"))
# Participles that the ratchet for names does not know: none of these is a name anywhere.
ALSO = {"awaited", "delayed"}


def is_event(text: str) -> bool:
    """Tell whether a text is an area, a point, and words of which one is a past participle."""
    words = re.fullmatch(r"[a-z][a-z_]*\.([a-z][a-z_]*)", text)
    return words is not None and any(is_participle(word) or word in ALSO for word in words[1].split("_"))


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the first argument of each call of a logger that is given a text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=level), args=[ast.Constant(value=str(text)), *_]):
                if level in LEVELS and LOGGERS.match(ast.unparse(of)):
                    yield node.lineno, text


@lru_cache
def trees() -> dict[str, ast.Module]:
    """Parse every source file."""
    return {file: ast.parse((ROOT / file).read_text(encoding="utf-8")) for file in SOURCES}


def test_each_event_is_an_area_and_what_happened() -> None:
    events = {f"{file}:{line}": text for file, tree in trees().items() for line, text in texts(tree)}
    wrong = {place: text for place, text in events.items() if not is_event(text)}

    assert len(events) > 50
    assert wrong == {}, "an event is area.verb_past, as snapshot.ignored; what varies is a field of it"


def test_lines_are_written_by_structlog() -> None:
    ours = {
        file
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and node.value is not None
        and re.match(r"logging\.getLogger\((__name__|\"daggers|'daggers)", ast.unparse(node.value))
    }

    assert ours == set(), "take chassis.logging.logger()"


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("logger().info('snapshot.ignored', why=why)", []),
        ("logging.logger().info('snapshot.not_used')", []),
        ("logger().info('snapshot ignored')", ["snapshot ignored"]),
        ("self._log.warning('stopped')", ["stopped"]),
        ("log.error('kafka.away')", ["kafka.away"]),
        ("math.log('kafka away')", []),
        ("errors.error('no event')", []),
    ],
)
def test_another_form_is_found(source: str, wrong: list[str]) -> None:
    assert [text for _, text in texts(ast.parse(source)) if not is_event(text)] == wrong
