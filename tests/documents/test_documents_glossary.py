"""The glossary: its terms are used, its places exist, and the words that it has replaced are gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

import pytest
from tests.documents import names
from tests.documents.pages import ROOT, Page, current, tracked

GLOSSARY = Page(ROOT / "docs" / "glossary.md")
GONE = "words-that-are-gone"
MAX_TERMS = 80
FIRST = frozenset(("dagger", "driver", "sink", "stream"))
"""Terms that every reader of the README knows."""
OF_THE_FIELD = frozenset((
    "alert", "batch", "checkpoint", "event time", "field", "heartbeat", "leader", "log", "place", "request",
    "spec", "watermark", "window",
))  # fmt: skip
"""Terms that mean here nearly what they mean anywhere."""
# Names that say nothing of what they hold.
EMPTY = {"found", "at", "each"}
SOURCES = [file for file in tracked() if "/src/" in file and file.endswith(".py")]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables in it, without the heads."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("| ") and not (lines[number + 1 : number + 2] or [""])[0].startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


TERMS = list(rows(GLOSSARY.text.partition("## Words that are gone")[0]))
OLD = [word for row in rows(GLOSSARY.section(GONE)) for word in row[0].split(", ")]


@lru_cache
def identifiers() -> frozenset[str]:
    """Every word of every name in code: `lease_watcher` and `LeaseWatcher` are two words each."""
    found: set[str] = set()
    for file in (each for each in tracked() if each.endswith(".py")):
        for name in _names(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            found |= set(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name))
    return frozenset(found)


@lru_cache
def prose() -> str:
    """All that documents say."""
    return "\n".join(page.text for page in current() if page.name != GLOSSARY.name)


@lru_cache
def said() -> str:
    """All that documents and members say, in lower case."""
    sources = [(ROOT / each).read_text(encoding="utf-8") for each in names.modules().values()]
    return "\n".join([prose(), *sources]).lower()


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(module=str(name)):
                yield name


def _bound(node: ast.AST) -> str | None:
    """The name that a value gets here, if it gets one."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
    return None


def _words_of(row: list[str]) -> list[str]:
    """Return the words that a row defines, in lower case."""
    return row[0].lower().split(", ")


def is_said(word: str) -> bool:
    """Whether a word that has a better one is in code or in a document."""
    if word.endswith(".py"):
        return any(each.endswith(f"/{word}") for each in tracked() if "/src/" in each)
    return word in identifiers() or re.search(rf"\b{word}\b", prose()) is not None


@pytest.mark.parametrize("term", [row[0] for row in TERMS])
def test_a_term_is_used(term: str) -> None:
    forms = {each: (each, each.replace(" ", "_"), each.replace(" ", "")) for each in term.lower().split(", ")}

    assert [each for each, any_of in forms.items() if not any(form in said() for form in any_of)] == []


@pytest.mark.parametrize("row", TERMS, ids=lambda row: str(row[0]))
def test_a_term_is_one_sentence_and_lives_somewhere(row: list[str]) -> None:
    where = row[2].strip("`")
    known = names.is_path(where) or names.is_code(where) or where in names.schema() | names.classes()

    assert re.fullmatch(r"[A-Z][^.]*\.", re.sub("`.*?`", "", row[1]))
    assert known or where in set(names.packages())


def test_terms_are_few_and_each_is_defined_once() -> None:
    terms = [row[0] for row in TERMS]

    assert len(terms) <= MAX_TERMS
    assert sorted(terms) == sorted(set(terms))


def test_a_definition_is_understood_without_the_others() -> None:
    words = {word: re.compile(rf"\b{re.escape(word)}s?\b") for row in TERMS for word in _words_of(row)}
    needed = {
        (row[0], word)
        for row in TERMS
        for word, pattern in words.items()
        if word not in _words_of(row) and pattern.search(re.sub("`.*?`", "", row[1]).lower())
    }

    assert {each for each in needed if each[1] not in FIRST | OF_THE_FIELD} == set()
    assert (FIRST | OF_THE_FIELD) - set(words) == set()


def test_words_that_have_a_better_one_are_gone() -> None:
    assert {word for word in OLD if is_said(word)} == set()


@pytest.mark.parametrize("member", sorted({file.partition("/src/")[0] for file in SOURCES}))
def test_a_name_says_what_it_holds(member: str) -> None:
    files = [file for file in SOURCES if file.startswith(f"{member}/src/")]
    empty = [
        f"{file}: {name}"
        for file in sorted(files)
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if (name := _bound(node)) in EMPTY
    ]

    assert files
    assert empty == []


def test_a_word_of_an_identifier_is_found() -> None:
    assert {"Launch", "intended"} & identifiers() == {"Launch", "intended"}
