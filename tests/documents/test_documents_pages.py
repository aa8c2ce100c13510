"""The words of pages, commands, findings and alerts: one for a thing, the field's; buttons by their names."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from functools import lru_cache

import pytest
from tests.documents.pages import ROOT, current, tracked
from tests.npm import NODE

WEB = "services/portal/web/src/"
COMMANDS = ROOT / WEB / "lib" / "commands.ts"
_COMMENT = re.compile(r"<!--.*?-->|/\*.*?\*/|(?<![:\w\"'`])//[^\n]*|<style>.*?</style>", re.DOTALL)
GONE = {
    r"\b[Ss]et aside\b|\bsets? [a-z ]*aside\b": "quarantined (records), late (rows)",
    r'"Behind"|>Behind<|"BEHIND"': "Lag",
    r"What happened": "History",
    r"are parts\b|not whole": "partial window, complete",
    r"rows of state": "open groups",
    r"A launch takes|Memory of launches|Launch, MiB": "Memory reserved",
    r"that not everybody sees": "Sensitive fields",
    r"Its organisation": "Organisation",
    r"also what is over|\b(Told|TOLD)\b|\bnot told\b|being told|[Nn]obody is told": "Show resolved; Notified",
    r"[Aa]part by commas": "separated by commas",
    r'"Again"|>Again<': "Run again",
    r'"No answer"|>No answer<': "what did not answer, since when",
    r"Did you mean": "one sentence, then the fix as a button or a last line",
}
"""Words that are gone from all that people read, and what stands in their place."""
_QUOTES = {"docs/glossary.md"}
"""Documents that list words that are gone."""
SPEAK = (
    "libs/access", "libs/daggersql", "libs/fleet", "libs/spec",
    "services/api-gateway", "services/health-monitor", "services/runtime", "services/scheduler",
)  # fmt: skip
"""Members whose texts pages show."""


def pages() -> dict[str, str]:
    """Read the portal's sources without comments and styles, by file: texts for people are among them."""
    files = [
        file
        for file in tracked()
        if file.startswith(WEB) and file.endswith((".svelte", ".ts")) and not file.endswith(".test.ts")
    ]
    assert len(files) > 80
    return {file: _COMMENT.sub("", (ROOT / file).read_text(encoding="utf-8")) for file in files}


def _texts(file: str) -> Iterator[str]:
    """Yield the texts in a module without its docstrings; what is filled in is X."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    parts = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
        if part is not node
    }  # fmt: skip
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in parts or id(node) in alone:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


@lru_cache
def texts() -> frozenset[tuple[str, str]]:
    """File and text of all that the members which pages speak for may say."""
    files = [
        file for file in tracked()
        if file.endswith(".py") and any(file.startswith(f"{each}/src/") for each in SPEAK)
    ]  # fmt: skip
    return frozenset((file, text) for file in files if "reference.py" not in file for text in _texts(file))


@lru_cache
def verbs() -> str:
    """Return the first words of the command line, as an expression."""
    lines = (ROOT / "tests" / "golden" / "commands.txt").read_text(encoding="utf-8")
    found = set(re.findall(r"^== ([a-z-]+)", lines, re.MULTILINE))
    assert {"apply", "get", "logs", "quarantine"} <= found
    return "|".join(sorted(found))


def test_no_page_names_a_command() -> None:
    command = re.compile(rf"`daggers |<code>\s*daggers|\bdaggers (?:{verbs()}) (?:[A-Z]+|[a-z-]+ [A-Z]+)\b")
    commands_page = COMMANDS.relative_to(ROOT).as_posix()
    wrong = {
        (file, found[0])
        for file, text in pages().items() if file != commands_page
        for found in command.finditer(text)
    }  # fmt: skip
    assert wrong == set()


def test_no_text_of_the_portal_itself_has_a_command_in_backticks() -> None:
    files = [file for file in tracked() if file.startswith("services/portal/src/") and file.endswith(".py")]
    wrong = [
        (file, text) for file in files for text in _texts(file) if re.search(r"`(?:daggers|make) ", text)
    ]

    assert wrong == []


def test_no_text_of_the_gateway_has_a_command_when_a_page_shows_it() -> None:
    """Rewrite each text as pages do: they have a place for every command that there is."""
    sentences = sorted({text for _, text in texts() if "`daggers " in text})
    assert len(sentences) > 30
    script = (
        f"import {{ forPages }} from {json.dumps(COMMANDS.as_uri())};"
        "process.stdout.write(JSON.stringify(JSON.parse(process.argv[1]).map(forPages)));"
    )
    ran = subprocess.run(
        [NODE, "--no-warnings", "--input-type=module", "--eval", script, json.dumps(sentences)],
        capture_output=True, check=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    on_pages: list[str] = json.loads(ran.stdout)

    assert len(on_pages) == len(sentences)
    assert [text for text in on_pages if re.search(r"`(?:daggers|make) |undefined|\bthe the\b", text)] == []


def test_commands_of_the_gateway_stand_in_backticks_so_that_a_page_finds_them() -> None:
    bare = re.compile(rf"(?<![`\w./-])daggers (?:{verbs()})\b(?! of\b)")
    wrong = [(file, text) for file, text in sorted(texts()) if bare.search(re.sub(r"`[^`]*`", "", text))]

    assert wrong == []


_IMPORT_THEN = re.compile(r"\bimport\([^()]*\)\s*\.then\(")


def test_no_call_is_chained_to_an_import() -> None:
    # The bundler takes such a chain whole for the import: where the call fails, the page is loaded anew.
    assert [file for file, text in pages().items() if _IMPORT_THEN.search(text)] == []


@pytest.mark.parametrize("words", GONE)
def test_a_word_that_is_gone_stands_on_no_page(words: str) -> None:
    assert {(file, found[0]) for file, text in pages().items() for found in re.finditer(words, text)} == set()


@pytest.mark.parametrize("words", GONE)
def test_a_word_that_is_gone_stands_in_no_text_of_a_service_or_a_command(words: str) -> None:
    """Findings, alerts, errors and outputs are among these texts; a word in quotes is a label by itself."""
    files = [file for file in tracked() if re.match(r"(cli|devstack|libs/client)/src/.*\.py$", file)]
    all_texts = {*texts(), *((file, text) for file in files for text in _texts(file))}
    assert len(all_texts) > 5_000

    assert sorted(each for each in all_texts if re.search(words, f'"{each[1]}"')) == []


@pytest.mark.parametrize("words", GONE)
def test_a_word_that_is_gone_stands_in_no_help_and_no_document(words: str) -> None:
    """Help of commands and settings, and references of sinks and functions, are documents that are made."""
    wrong = [
        (page.name, found[0])
        for page in current()
        for found in re.finditer(words, page.text)
    ]  # fmt: skip

    assert {each for each in wrong if each[0] not in _QUOTES} == set()


def test_each_term_with_a_dotted_line_has_a_hover_text_and_each_text_a_term() -> None:
    terms = (ROOT / WEB / "lib" / "terms.ts").read_text(encoding="utf-8")
    hover_texts = dict(re.findall(r'^  ([a-z]+):\s+"([^"]{20,})"', terms, re.MULTILINE))
    sources = pages()
    used = {word for text in sources.values() for word in re.findall(r'\bof="([a-z]+)"', text)}
    used |= {word for text in sources.values() for word in re.findall(r'\bword: "([a-z]+)"', text)}
    used |= {
        word for text in sources.values() for word in re.findall(r'Role\.TAG \? "(tag)" : "field"', text)
    }
    used |= {"field"} if "tag" in used else set()
    styled = [file for file in sources if "underline dotted" in (ROOT / file).read_text(encoding="utf-8")]

    assert set(hover_texts) == {
        "watermark",
        "window",
        "late",
        "lag",
        "quarantine",
        "tag",
        "field",
        "checkpoint",
    }
    assert used == set(hover_texts)
    assert styled == [f"{WEB}parts/Term.svelte"]  # where a line is dotted there is a title


def test_beside_each_address_lies_what_others_show_there() -> None:
    """Compare the screens with both tables of docs/portal.md: what each shows, and what others show more."""
    patterns = re.findall(r"\[/(\^.+?\$)/,", (ROOT / WEB / "screens.ts").read_text(encoding="utf-8"))
    assert len(patterns) > 25
    text = (ROOT / "docs" / "portal.md").read_text(encoding="utf-8")
    shows, beside = (
        re.findall(r"`(/[^`]*)`", table)
        for table in re.findall(r"^\| (?:address|page) \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    )
    wrong = [
        (pattern, name)
        for pattern in patterns
        for name, addresses in (("shows", shows), ("beside", beside))
        if not any(re.match(pattern.replace("\\/", "/"), each) for each in addresses)
    ]

    assert wrong == []
