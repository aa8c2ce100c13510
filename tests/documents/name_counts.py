"""Counts of names and docstrings that do not say what they stand for, by package; they may only fall.

`make names-count` prints them and writes `names.json`, unless one has risen;
`python -m tests.documents.name_counts PACKAGE` lists what is counted in one.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tests.documents.pages import ROOT, tracked

FILE: Final = ROOT / "tests" / "documents" / "names.json"
MEASURES: Final = {
    "bindings": "locals, parameters, attributes and columns that are named by a word of WORDS",
    "functions": "functions named by a participle alone, but for properties and those that return bool",
    "classes": "classes that are named by a participle alone",
    "docstrings": "docstrings that do not begin with a verb (functions), or begin as a riddle (all others)",
    "generic": "classes of one word that is the name of more than two classes",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS: Final = _words("told said asked held kept shown what made meant heard judged taken looked known")
_MOST_ALIKE: Final = 2
# Words that end as a participle and are none, and participles that do not end so. Where the participle is the
# verb itself (read, set, put, run) a function may have it.
_NO_PARTICIPLES: Final = _words("hundred shed bed red")
_IRREGULAR: Final = _words(
    "begun bent bound broken brought built caught chosen dealt done drawn driven fallen fed felt forgotten"
    " found frozen given gone grown heard held hidden kept known laid led left lent lost made meant met paid"
    " proven risen said seen sent shown sold spent spoken stood struck stuck swept taken taught thought"
    " thrown told torn understood woken won worn written"
)
_RIDDLES: Final = _words("as how so what when where whether which who whom whose why")
# What stands before a noun, for a noun, or before a clause: no sentence in the imperative begins with it.
_NO_VERBS: Final = _RIDDLES | _words(
    "a about above after all an and another any are at be before below beside between both but by each either"
    " else every everybody everything few for from he here his if in into is it its less many more most much"
    " neither never no nobody none not nothing of off on once one only or other others our out over per"
    " several she since some somebody something still such than that the their them then there these they"
    " this those through to too two under until up was we were while with within without yet"
)
_PROPERTIES: Final = frozenset(("property", "cached_property", "setter"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class CountedName:
    """One name, or one docstring, that is counted."""

    measure: str
    """One of MEASURES."""
    file: str
    """Relative to the project."""
    line: int
    name: str
    """Of a docstring: its first words."""


def package_of(file: str) -> str | None:
    """Return the package that a file of Python belongs to; `tests`, or `bench`; None for all others."""
    parts = file.split("/")
    if "tests" in parts or parts[-1] == "conftest.py":
        return "tests"
    if parts[0] == "bench":
        return "bench"
    return parts[parts.index("src") + 1] if "src" in parts else None


def is_participle(word: str) -> bool:
    """Tell whether a name is one word in lower case, and a past participle that is not the verb itself."""
    return word in _IRREGULAR or (
        re.fullmatch("[a-z]+(?<!e)ed", word) is not None and word not in _NO_PARTICIPLES
    )


def find(file: str, tree: ast.Module) -> Iterator[CountedName]:
    """Yield what is counted in one file, but for generic names of classes."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 1)
        for name in _bound(node):
            if name.lstrip("_") in WORDS:
                yield CountedName("bindings", file, line, name)
        if isinstance(node, Function) and is_participle(node.name.strip("_")) and not _may_be(node):
            yield CountedName("functions", file, line, node.name)
        if isinstance(node, ast.ClassDef) and is_participle(_uncapitalized(node.name)):
            yield CountedName("classes", file, line, node.name)
        for text in _docstrings(node):
            words = re.findall(r"[a-z]+", text.lower().replace("the same", "as"))
            closed = _NO_VERBS if isinstance(node, Function) and not _is_property(node) else _RIDDLES
            if words and words[0] in closed:
                yield CountedName("docstrings", file, line, text.split("\n")[0][:60])


def find_generic(classes: Mapping[str, list[tuple[str, int]]]) -> Iterator[CountedName]:
    """Yield each class of one word whose name more than two classes have."""
    for name, places in classes.items():
        if len(places) > _MOST_ALIKE and re.fullmatch(r"_?[A-Z][a-z]+", name):
            yield from (CountedName("generic", file, line, name) for file, line in places)


@lru_cache
def counted() -> Mapping[str, list[CountedName]]:
    """Find everything that is counted, by package.

    Classes are compared with those of all of `src`, those of tests and benches with each other.
    """
    found: dict[str, list[CountedName]] = {}
    houses: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for file in sorted(each for each in tracked() if each.endswith(".py")):
        if (package := package_of(file)) is None:
            continue
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        found.setdefault(package, []).extend(find(file, tree))
        house = houses.setdefault(package if package in ("tests", "bench") else "src", {})
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                house.setdefault(node.name, []).append((file, node.lineno))
    for classes in houses.values():
        for name in find_generic(classes):
            found[package_of(name.file) or ""].append(name)
    return found


def counts() -> dict[str, dict[str, int]]:
    """Count them: by package, by measure."""
    by_package = {package: Counter(name.measure for name in names) for package, names in counted().items()}
    return {
        package: {measure: count[measure] for measure in MEASURES}
        for package, count in sorted(by_package.items())
    }


def committed() -> dict[str, dict[str, int]]:
    """Read the counts that were committed. A package that is not in them has none."""
    found: dict[str, dict[str, int]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def compare(now: Mapping[str, Mapping[str, int]], before: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a sentence for each count that is greater now."""
    return [
        f"{package}: {count} {measure}, {most} are allowed: `python -m tests.documents.name_counts {package}`"
        f" lists them ({MEASURES[measure]})"
        for package, measures in now.items()
        for measure, count in measures.items()
        if count > (most := before.get(package, {}).get(measure, 0))
    ]


def table(now: Mapping[str, Mapping[str, int]]) -> str:
    """Lay the counts out for people, with their sums."""
    rows = [
        f"{package:<16}" + "".join(f"{count:>12}" for count in measures.values())
        for package, measures in now.items()
    ]
    sums = [sum(measures[measure] for measures in now.values()) for measure in MEASURES]
    head = f"{'':<16}" + "".join(f"{measure:>12}" for measure in MEASURES)
    return "\n".join([head, *rows, f"{'all':<16}" + "".join(f"{total:>12}" for total in sums)])


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that get a value here."""
    match node:
        case (
            ast.Name(id=name, ctx=ast.Store())
            | ast.Attribute(attr=name, ctx=ast.Store())
            | ast.arg(arg=name)
            | ast.MatchAs(name=str(name))
            | ast.ExceptHandler(name=str(name))
            | ast.alias(asname=str(name))
        ):
            yield name
        case ast.Call(func=ast.Name(id="Column"), args=[ast.Constant(value=str(name)), *_]):
            yield name


def _uncapitalized(name: str) -> str:
    """Return the name of a class of one word in lower case, and any other as it is."""
    bare = name.strip("_")
    return bare.lower() if re.fullmatch("[A-Z][a-z]+", bare) else bare


def _is_property(node: Function) -> bool:
    decorators = (each.attr if isinstance(each, ast.Attribute) else each for each in node.decorator_list)
    return any((each.id if isinstance(each, ast.Name) else each) in _PROPERTIES for each in decorators)


def _may_be(node: Function) -> bool:
    """Tell whether a function may be named by a participle: a property, or what returns a bool."""
    return _is_property(node) or (isinstance(node.returns, ast.Name) and node.returns.id == "bool")


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstring of a module, a class or a function, and those below the attributes of a class."""
    if isinstance(node, ast.Module | ast.ClassDef | Function):
        text = ast.get_docstring(node)
        if text:
            yield text
    if isinstance(node, ast.Module | ast.ClassDef):
        for target, below in zip(node.body, node.body[1:], strict=False):
            match target, below:
                case ((ast.Assign() | ast.AnnAssign()), ast.Expr(value=ast.Constant(value=str(text)))):
                    yield text


def main(argv: list[str]) -> int:
    """List one package, or print all counts and commit those that fell to the file; 1 when one has risen."""
    if argv:
        for name in sorted(counted()[argv[0]]):
            sys.stdout.write(f"{name.file}:{name.line}: {name.measure}: {name.name}\n")
        return 0
    now = counts()
    sys.stdout.write(f"{table(now)}\n")
    risen = compare(now, committed()) if FILE.exists() else []
    if risen:
        sys.stderr.write("\n".join([*risen, f"{FILE.name} stays as it is", ""]))
        return 1
    FILE.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
