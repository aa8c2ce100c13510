"""Parser of a dagger file into the daggers that it describes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.reader import Reader
from daggerclient.daggerfile.table import SPEC, fill
from daggerclient.errors import InvalidFileError
from daggerclient.findings import headline

KEYS = ("name", *(row.key for row in SPEC))
REQUIRED = ("name", *(row.key for row in SPEC if row.required))
QUERIES = {"sql", "forward"}
"""One of them is required, too."""


@dataclass(frozen=True)
class DaggerFile:
    """One document of a dagger file.

    places: line and column, both from 1, of each key's value by its path, such as sinks[0].influx.url.
    first_lines: line of the file, from 1, on which line 1 of a text stands, by the path of its key; those of
                 which the lines are lines of the file.
    wrong: paths of the keys that are missing or have a value which cannot be read; the spec lacks them.
    """

    name: str
    spec: spec_pb2.DaggerSpec
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    first_lines: Mapping[str, int] = field(default_factory=dict)
    wrong: frozenset[str] = frozenset()


def parse(text: str, file: str) -> list[DaggerFile]:
    """Parse the daggers of a file, in its order. Raises InvalidFileError with everything that is wrong."""
    daggers, findings = read(text, file)
    if findings:
        raise InvalidFileError(f"{file}: {headline(findings)}", findings)
    return daggers


def read(text: str, file: str) -> tuple[list[DaggerFile], list[dict[str, Any]]]:
    """Read the daggers of a file as far as that is possible; return them and the findings of the file.

    Raises InvalidFileError when it is empty.
    """
    reader = Reader(file)
    daggers: list[DaggerFile] = []
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None and not _is_null(node):
                daggers.append(_dagger(reader, node, {dagger.name for dagger in daggers}))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        reader.findings.append(_syntax(file, problem, mark.line if mark else 0, mark.column if mark else 0))
    except (yaml.YAMLError, RecursionError) as error:
        reader.findings.append(_syntax(file, str(error).splitlines()[0], 0, 0))
    if not daggers and not reader.findings:
        raise InvalidFileError(f"{file} holds no dagger: it is empty")
    return daggers, reader.findings


def _dagger(reader: Reader, node: yaml.Node, earlier_names: set[str]) -> DaggerFile:
    reader.begin(node)
    before = len(reader.findings)
    values = reader.mapping(node, "", KEYS, REQUIRED)
    present = {finding["field"] for finding in reader.findings[before:]} | values.keys()
    if not present & QUERIES:
        reader.fail(node, "sql", "MISSING_KEY", "sql is missing, or forward in its place")
    name = reader.text(values["name"], "name") if "name" in values else ""
    if name in earlier_names:
        reader.fail(values["name"], "name", "DUPLICATE_NAME", f"{name} stands in this file twice")
    spec = spec_pb2.DaggerSpec()
    fill(reader, values, "", spec, SPEC)
    wrong = frozenset(finding["field"] for finding in reader.findings[before:])
    return DaggerFile(name, spec, reader.places, reader.first_lines, wrong)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null")


def _syntax(file: str, problem: str, line: int, column: int) -> dict[str, object]:
    return {
        "code": "INVALID_YAML", "severity": "error", "field": "",
        "message": f"this is not YAML: {problem}", "file": file,
        "line": line + 1, "column": column + 1, "suggestion": None,
    }  # fmt: skip


__all__: Sequence[str] = ("DaggerFile", "parse")
