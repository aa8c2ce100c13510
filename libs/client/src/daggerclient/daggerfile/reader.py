"""Reads YAML nodes strictly, and collects what is wrong with its place instead of stopping at the first."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from daggerclient.times import UNITS
from daggerspec.nearest import hint, nearest

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
LONGEST = timedelta(days=366)
STRINGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp")
INTEGER = "tag:yaml.org,2002:int"
BOOLEAN = "tag:yaml.org,2002:bool"
NULL = "tag:yaml.org,2002:null"
KINDS = {yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}


@dataclass
class Reader:
    """Findings so far; each has code, severity, field, message, line and column (both from 1) and suggestion.

    places: line and column of everything read since `begin`, by its path; that of the whole by "".
    first_lines: the line on which the first line of each text stands, where its lines are lines of the file.
    """

    file: str
    findings: list[dict[str, Any]] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    first_lines: dict[str, int] = field(default_factory=dict)

    def begin(self, node: yaml.Node) -> None:
        """Begin another document: forget the places of the one before."""
        self.places, self.first_lines = {"": _place(node)}, {}

    def fail(
        self, node: yaml.Node, path: str, code: str, message: str, suggestion: str | None = None
    ) -> None:
        """Note what is wrong with the value at `node`."""
        line, column = _place(node)
        self.findings.append(
            {
                "code": code,
                "severity": "error",
                "field": path,
                "message": message,
                "file": self.file,
                "line": line,
                "column": column,
                "suggestion": suggestion,
            }
        )

    def mapping(
        self, node: yaml.Node, path: str, keys: Sequence[str], required: Sequence[str] = ()
    ) -> dict[str, yaml.Node]:
        """Read the values of a mapping by key; notes unknown, repeated and missing keys."""
        if not isinstance(node, yaml.MappingNode):
            self._wrong_kind(node, path, "a mapping")
            return {}
        values: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            where = f"{path}.{name}" if path else name
            if name in values:
                self.fail(key, where, "DUPLICATE_KEY", f"{name} stands here twice")
            elif name not in keys:
                near = nearest(name, keys)
                text = f"there is no key {name}" + hint(near, f": known are {', '.join(keys)}")
                self.fail(key, where, "UNKNOWN_KEY", text, near)
            elif value.tag != NULL:
                values[name] = value
                self.places[where] = _place(value)
            elif name not in required:
                self.fail(value, where, "MISSING_VALUE", f"{name} has no value: give it one or leave it out")
        for name in required:
            if name not in values:
                where = f"{path}.{name}" if path else name
                self.fail(node, where, "MISSING_KEY", f"{name} is missing")
        return values

    def entries(self, node: yaml.Node, path: str) -> dict[str, yaml.Node]:
        """Read the values of a mapping of any keys."""
        keys = [key.value for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        return self.mapping(node, path, [key for key in keys if isinstance(key, str)])

    def texts(self, node: yaml.Node, path: str) -> dict[str, str]:
        """Read a mapping of any keys to strings."""
        return {key: self.text(value, f"{path}.{key}") for key, value in self.entries(node, path).items()}

    def items(self, node: yaml.Node, path: str, *, of: str) -> Iterator[tuple[str, yaml.Node]]:
        """Yield path and node of each item of a list; notes one that is empty."""
        if not isinstance(node, yaml.SequenceNode):
            self._wrong_kind(node, path, f"a list of {of}")
            return
        if not node.value:
            self.fail(node, path, "EMPTY_LIST", f"{path} is empty: name at least one of {of}")
        for number, item in enumerate(node.value):
            self.places[f"{path}[{number}]"] = _place(item)
            yield f"{path}[{number}]", item

    def text(self, node: yaml.Node, path: str) -> str:
        """Read a string; empty when it is not one."""
        if isinstance(node, yaml.ScalarNode) and node.tag in STRINGS:
            if not node.value.strip():
                self.fail(node, path, "EMPTY_VALUE", f"{path} is empty")
            if (first := _first_line(node)) is not None:
                self.first_lines[path] = first
            return str(node.value)
        if isinstance(node, yaml.ScalarNode):
            self.fail(node, path, "WRONG_TYPE", f"{path} must be a string: put {node.value} in quotes")
        else:
            self._wrong_kind(node, path, "a string")
        return ""

    def integer(self, node: yaml.Node, path: str, *, least: int = 0, most: int = 2**31 - 1) -> int:
        """Read a whole number within bounds; 0 when it is not one."""
        if (
            isinstance(node, yaml.ScalarNode)
            and node.tag == INTEGER
            and re.fullmatch(r"\d{1,18}", node.value)
        ):
            number = int(node.value)
            if least <= number <= most:
                return number
        self.fail(node, path, "WRONG_TYPE", f"{path} must be a whole number from {least} to {most}")
        return 0

    def boolean(self, node: yaml.Node, path: str) -> bool:
        """Read true or false; false when it is neither."""
        if isinstance(node, yaml.ScalarNode) and node.tag == BOOLEAN:
            return str(node.value).lower() in ("true", "yes", "on")
        self.fail(node, path, "WRONG_TYPE", f"{path} must be true or false")
        return False

    def number(self, node: yaml.Node, path: str) -> float:
        """Read a number above 0; 0 when it is not one."""
        value = node.value if isinstance(node, yaml.ScalarNode) else ""
        with suppress(ValueError):
            if 0 < (number := float(value)) < math.inf:
                return number
        self.fail(node, path, "WRONG_TYPE", f"{path} must be a number above 0")
        return 0.0

    def share(self, node: yaml.Node, path: str) -> float:
        """Read a number above 0, and at most 1; 1 when it is not one."""
        value = node.value if isinstance(node, yaml.ScalarNode) else ""
        with suppress(ValueError):
            if 0 < (number := float(value)) <= 1:
                return number
        self.fail(node, path, "WRONG_TYPE", f"{path} must be a number above 0, and at most 1, which is all")
        return 1.0

    def duration(self, node: yaml.Node, path: str, *, off: bool = False, positive: bool = False) -> timedelta:
        """Read a duration such as 5s, 500ms, 1m, 2h; a plain number is seconds; 0 when it is not one.

        off:      the word "off" is allowed, and stands for zero.
        positive: zero is not allowed.
        """
        value = node.value.strip().lower() if isinstance(node, yaml.ScalarNode) else ""
        if off and value in ("off", "false"):
            return timedelta(0)
        match = DURATION.fullmatch(value)
        seconds = float(match[1]) * UNITS[match[2] or "s"].total_seconds() if match else math.inf
        if seconds <= LONGEST.total_seconds():
            span = timedelta(seconds=seconds)
            if positive and not span:
                self.fail(node, path, "BAD_DURATION", f"{path} must be longer than 0 s")
            return span
        or_off = ", or off" if off else ""
        self.fail(node, path, "BAD_DURATION", f"{path} must be a duration like 5s, 500ms, 1m or 2h{or_off}")
        return timedelta(0)

    def choice(self, node: yaml.Node, path: str, words: Sequence[str]) -> str:
        """Read one of these words; the first when it is none of them."""
        value = node.value if isinstance(node, yaml.ScalarNode) else ""
        if value in words:
            return str(value)
        near = nearest(value, words)
        text = f"{path} must be {' or '.join(words)}{hint(near, '')}"
        self.fail(node, path, "UNKNOWN_VALUE", text, near)
        return words[0]

    def instant(self, node: yaml.Node) -> datetime | None:
        """Read an RFC 3339 instant, in UTC; None when it is not one. Notes nothing."""
        value = node.value if isinstance(node, yaml.ScalarNode) else ""
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            return None
        return instant.astimezone(UTC) if instant.tzinfo else None

    def _wrong_kind(self, node: yaml.Node, path: str, wanted: str) -> None:
        name = path or "a dagger file"
        self.fail(node, path, "WRONG_TYPE", f"{name} must be {wanted}, not {KINDS[type(node)]}")


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _first_line(node: yaml.ScalarNode) -> int | None:
    if node.style == "|":  # in a block the text begins on the line after the indicator
        return int(node.start_mark.line) + 2
    return int(node.start_mark.line) + 1 if node.end_mark.line == node.start_mark.line else None
