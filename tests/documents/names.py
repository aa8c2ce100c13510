"""What the project has under which name: what a document may name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import lru_cache
from typing import Final

import daggers.v1
from google.protobuf import descriptor_pool
from tests.documents.pages import ROOT, tracked
from tests.documents.settings import variables

from cli import reference
from daggerspec import topics
from daggersql.functions import registry

SOURCES: Final = re.compile(r"^((?:libs|services)/[^/]+|cli|devstack)/src/(.+)\.py$")
_PROTO: Final = sorted(path.name for path in (ROOT / "proto/daggers/v1").glob("*.proto"))
_PREFIX = re.compile(r"^(DAGGERS_[A-Z0-9_]*_)$")


@lru_cache
def modules() -> dict[str, str]:
    """Every module of a member by its dotted name: its file."""
    found = {}
    for file in tracked():
        if match := SOURCES.match(file):
            found[match[2].removesuffix("/__init__").replace("/", ".")] = file
    return found


@lru_cache
def classes() -> frozenset[str]:
    """The classes of members, and what stands in CamelCase at the top of a module."""
    found = set()
    for file in modules().values():
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.add(node.name)
    return frozenset(found)


@lru_cache
def schema() -> frozenset[str]:
    """Messages, enums, services and RPCs of proto/."""
    pool, found = descriptor_pool.Default(), set()
    for name in _PROTO:
        __import__(f"{daggers.v1.__name__}.{name.removesuffix('.proto')}_pb2")
        file = pool.FindFileByName(f"daggers/v1/{name}")
        found |= {*file.message_types_by_name, *file.enum_types_by_name, *file.services_by_name}
        for service in file.services_by_name.values():
            found |= set(service.methods_by_name)
    return frozenset(found)


@lru_cache
def functions() -> frozenset[str]:
    """SQL functions, in lower case."""
    return frozenset(name.lower() for name in registry.known_names())


@lru_cache
def commands() -> dict[str, frozenset[str]]:
    """Every command by its full name: its flags, and those that all have."""
    found = dict(reference.commands())
    common = reference.flags(found["daggers"])
    return {
        name: frozenset(reference.flags(command) | common | {"--help"}) for name, command in found.items()
    }


@lru_cache
def verbs() -> frozenset[str]:
    """The verbs of the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def is_topic(name: str) -> bool:
    """Whether it is a topic of the platform."""
    return name in {value for value in vars(topics).values() if isinstance(value, str)}


@lru_cache
def environment() -> frozenset[str]:
    """Every environment variable of the project: settings, Docker Compose, and what tests are told."""
    compose = (ROOT / "deploy/compose/compose.yaml").read_text(encoding="utf-8")
    found = set(variables()) | set(re.findall(r"\$\{(\w+)", compose))
    for file in (name for name in tracked() if name.endswith(".py")):
        found |= set(re.findall(r'"(DAGGERS_[A-Z0-9_]+)"', (ROOT / file).read_text(encoding="utf-8")))
    return frozenset(found)


def is_variable(name: str) -> bool:
    """Whether it is an environment variable, or how some begin."""
    prefix = _PREFIX.match(name)
    return name in environment() or bool(prefix and any(each.startswith(name) for each in environment()))


def is_path(name: str) -> bool:
    """Whether there is such a file or folder, from the root or from any folder on. NAME: any name."""
    pattern = re.sub(r"NAME|…|\{\w+\}", "*", name.rstrip("/"))
    return any(fnmatch(each, pattern) or fnmatch(each, f"*/{pattern}") for each in tracked())


def is_code(name: str) -> bool:
    """Whether a dotted name leads to a module of a member, or to a word in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if file := modules().get(".".join(parts[:length])):
            rest = parts[length : length + 1]
            text = (ROOT / file).read_text(encoding="utf-8")
            return not rest or bool(re.search(rf"\b{re.escape(rest[0])}\b", text))
    return False


def packages() -> Iterator[str]:
    """The import names of members."""
    yield from {name.partition(".")[0] for name in modules()}
