"""The key `tests` of a dagger file: given records by table, and what has to become of them.

A record, and a row, is a mapping, or a text that is JSON: as pages show records.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.reader import BOOLEAN, INTEGER, NULL, STRINGS, Reader
from daggerclient.times import iso
from daggerspec.exactjson import dumps, loads

KEYS: Final = ("name", "now", "given", "expect")
EXPECTED: Final = ("rows", "quarantined", "late")
_FLOAT: Final = "tag:yaml.org,2002:float"
_DEEPEST: Final = 64
_MOST_VALUES: Final = 100_000
"""Values of one record: aliases of YAML make many of few."""


def read(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.QueryTest:
    """Read one test; notes a finding of what cannot be read."""
    values, test = reader.mapping(node, path, KEYS, ("name", "expect")), spec_pb2.QueryTest()
    if "name" in values:
        test.name = reader.text(values["name"], f"{path}.name")
    if "now" in values:
        instant = reader.instant(values["now"])
        if instant is None:
            problem = f"{path}.now must be an instant with its zone like 2026-01-01T00:00:00Z"
            reader.fail(values["now"], f"{path}.now", "BAD_INSTANT", problem)
        else:
            test.now.FromDatetime(instant)
    if "given" in values:
        for number, (table, node) in enumerate(reader.entries(values["given"], f"{path}.given").items()):
            inner = f"{path}.given[{number}]"  # as the specification has it
            reader.places[f"{inner}.table"] = reader.places[f"{path}.given.{table}"]
            given = test.given.add(table=table)
            given.records.extend(_objects(reader, node, f"{inner}.records", "records"))
    if "expect" in values:
        test.expect.CopyFrom(_read_expected(reader, values["expect"], f"{path}.expect"))
    return test


def _read_expected(reader: Reader, node: yaml.Node, path: str) -> spec_pb2.ExpectedOutput:
    values, expected = reader.mapping(node, path, EXPECTED), spec_pb2.ExpectedOutput()
    if not values:
        reader.fail(node, path, "MISSING_KEY", f"{path} says nothing: rows: [] is none of them")
    if "rows" in values:
        expected.rows.extend(_objects(reader, values["rows"], f"{path}.rows", "rows"))
    if "quarantined" in values:
        for reason, count in reader.entries(values["quarantined"], f"{path}.quarantined").items():
            expected.quarantined[reason] = reader.integer(count, f"{path}.quarantined.{reason}", least=1)
    if "late" in values:
        expected.late = reader.integer(values["late"], f"{path}.late")
    return expected


def show(test: spec_pb2.QueryTest) -> dict[str, Any]:
    """Make the value of the key for one test: the inverse of `read`."""
    given = {one.table: [_value(text) for text in one.records] for one in test.given}
    expect: dict[str, Any] = {"rows": [_value(text) for text in test.expect.rows]}
    if test.expect.quarantined:
        expect["quarantined"] = dict(sorted(test.expect.quarantined.items()))
    if test.expect.late:
        expect["late"] = test.expect.late
    now = {"now": iso(test.now)} if test.HasField("now") else {}
    return {"name": test.name, **now, **({"given": given} if given else {}), "expect": expect}


def _objects(reader: Reader, node: yaml.Node, path: str, of: str) -> list[str]:
    """Read a list of objects, each as JSON; it may be empty."""
    if isinstance(node, yaml.SequenceNode) and not node.value:
        return []
    return [_object(reader, item, inner) for inner, item in reader.items(node, path, of=of)]


def _object(reader: Reader, node: yaml.Node, path: str) -> str:
    """Read a mapping, or a text that is JSON of one, as JSON; empty where it is neither."""
    if isinstance(node, yaml.ScalarNode) and node.tag in STRINGS:
        try:
            if isinstance(loads(node.value), dict):
                return str(node.value)
        except (ValueError, RecursionError):
            pass
    elif isinstance(node, yaml.MappingNode):
        return dumps(_plain(reader, node, path, 0, [_MOST_VALUES]))
    reader.fail(node, path, "WRONG_TYPE", f"{path} must be a mapping, or JSON of one in quotes")
    return ""


def _plain(reader: Reader, node: yaml.Node, path: str, depth: int, room: list[int]) -> Any:
    """Make of a node what JSON has; notes a finding of what it does not. `room`: how many values may come."""
    room[0] -= 1
    if depth > _DEEPEST or room[0] < 0:
        most = f"{_DEEPEST} levels, or {_MOST_VALUES:,} values"
        reader.fail(node, path, "TOO_LARGE", f"{path} has more than {most}")
        return None
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name in values:
                reader.fail(key, f"{path}.{name}", "DUPLICATE_KEY", f"{name} stands here twice")
            if room[0] >= 0:
                values[name] = _plain(reader, value, f"{path}.{name}", depth + 1, room)
        return values
    if isinstance(node, yaml.SequenceNode):
        items = enumerate(node.value)
        return [
            _plain(reader, item, f"{path}[{number}]", depth + 1, room)
            for number, item in items
            if room[0] >= 0
        ]
    return _scalar(reader, node, path)


def _scalar(reader: Reader, node: yaml.Node, path: str) -> Any:
    text = str(node.value)
    if node.tag in STRINGS:
        return text
    if node.tag == NULL:
        return None
    if node.tag == BOOLEAN:
        return text.lower() in ("true", "yes", "on")
    if node.tag in (INTEGER, _FLOAT):
        try:
            return loads(text.removeprefix("+"))
        except ValueError:
            pass
    reader.fail(node, path, "WRONG_TYPE", f"{path} has no JSON: put {text} in quotes")
    return None


def _value(text: str) -> Any:
    """Make of a JSON object what YAML shows of it; the text itself where that would change it."""
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        return text
    return value if _is_plain(value) else text


def _is_plain(value: Any) -> bool:
    """Tell whether YAML has all of a value: a fraction of more digits than a float's it has not."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
