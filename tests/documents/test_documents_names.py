"""What documents name is there: files, links, commands, flags, settings, verbs, RPCs, topics, code."""

from __future__ import annotations

import builtins
import re
import shlex
from collections.abc import Iterator

import pytest
from tests.documents import names, settings
from tests.documents.pages import ROOT, Page, current, pages

from cli import reference

ALL = {page.name: page for page in pages()}
CURRENT = {page.name: page for page in current()}

# Names in CamelCase that are not ours.
OUTSIDE = {
    "RetryInfo",
    "ApiException",
    "BadRequest",
    "DataFrame",
    "DataSourceStreamReader",
    "ErrorInfo",
    "FieldViolation",
    "MaxRetryError",
    "NaN",
    "NewConnectionError",
    "PythonRunner",
    "SimpleDateFormat",
    "StreamingQueryListener",
}
_PATH = re.compile(r"^[\w.*-]+(/[\w.*{}…-]+)*/?$")
_OURS = ("bench", "cli", "deploy", "devstack", "docs", "examples", "libs", "proto", "services", "tests")
_CAMEL = re.compile(r"^[A-Z][a-z0-9]+([A-Z][a-z0-9]*)+$")
_DECISION = re.compile(r"\b(?:ADRs?|decisions?) (\d+)", re.IGNORECASE)


def lines(page: Page) -> Iterator[str]:
    """The command lines of a page: of its code spans, and of its console blocks."""
    yield from page.spans
    for block in page.blocks("console", "sh", "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.removeprefix("$ ").partition("  #")[0].strip()


def daggers(line: str) -> str | None:
    """What is wrong with a line that begins with the command, if anything."""
    line = line.replace("docker compose run --rm daggers", "daggers").removeprefix(".venv/bin/")
    if not re.match(r"daggers( |$)", line):
        return None
    words = shlex.split(re.split(r"[|<>&]| …", line)[0].replace("'", ""))
    name = words.pop(0)
    while words and f"{name} {words[0]}" in names.commands():
        name = f"{name} {words.pop(0)}"
    known = names.commands()[name]
    if (
        words
        and re.match("[a-z]", words[0])
        and any(command.startswith(f"{name} ") for command in names.commands())
    ):
        return f"{name} has no command {words[0]}"
    wrong = [word for word in words if word.startswith("-") and len(word) > 1]
    wrong = [record for record in wrong if record.partition("=")[0] not in known]
    return f"{name} has no {', '.join(wrong)}" if wrong else None


@pytest.mark.parametrize("name", ALL)
def test_every_link_leads_to_a_file_and_a_heading(name: str) -> None:
    lost = []
    for link in ALL[name].links:
        file, _, anchor = link.partition("#")
        target = (ALL[name].path.parent / file).resolve() if file else ALL[name].path
        known = ALL.get(str(target.relative_to(ROOT))) if target.is_relative_to(ROOT) else None
        if not target.exists() or (anchor and (known is None or anchor not in known.anchors)):
            lost.append(link)

    assert lost == []


@pytest.mark.parametrize("name", ALL)
def test_every_decision_that_is_named_is_there(name: str) -> None:
    numbers = {int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("0*.md")}

    assert {int(word) for word in _DECISION.findall(ALL[name].prose)} - numbers == set()


@pytest.mark.parametrize("name", CURRENT)
def test_every_path_is_that_of_a_file_or_a_folder(name: str) -> None:
    paths = [span for span in CURRENT[name].spans if _PATH.match(span) and ("/" in span or "." in span)]
    ours = [
        path
        for path in paths
        if (path.partition("/")[0] in _OURS and "/" in path) or re.search(r"\.(py|proto|md)$", path)
    ]

    assert [each for each in ours if not names.is_path(each)] == []


@pytest.mark.parametrize("name", CURRENT)
def test_every_command_is_one_and_takes_its_flags(name: str) -> None:
    assert [wrong for line in lines(CURRENT[name]) if (wrong := daggers(line))] == []


@pytest.mark.parametrize("name", CURRENT)
def test_every_verb_of_make_is_one(name: str) -> None:
    said = [re.match(r"make ([a-z-]+(?: [a-z-]+)*)", line) for line in lines(CURRENT[name])]
    verbs = {verb for found in said if found for verb in found[1].split()}

    assert verbs - names.verbs() == set()


@pytest.mark.parametrize("name", CURRENT)
def test_every_setting_is_read_by_somebody(name: str) -> None:
    said = set(re.findall(r"\bDAGGERS_[A-Z0-9_]+\b", CURRENT[name].text))

    assert {each for each in said if not names.is_variable(each)} == set()


@pytest.mark.parametrize("name", CURRENT)
def test_every_rpc_event_message_and_class_is_there(name: str) -> None:
    said = {part for span in CURRENT[name].spans for part in re.split(r"[(){}\[\]., *:/]", span)[:1]}
    said = {each for each in said if _CAMEL.match(each)}
    known = names.schema() | names.classes() | OUTSIDE | set(dir(builtins))

    assert {each for each in said - known if each.lower() not in names.functions()} == set()


@pytest.mark.parametrize("name", CURRENT)
def test_every_topic_is_one_of_the_platform(name: str) -> None:
    said = {span for span in CURRENT[name].spans if re.fullmatch(r"daggers\.[a-z-]+", span)}

    assert {each for each in said if not names.is_topic(each)} == set()


@pytest.mark.parametrize("name", CURRENT)
def test_every_name_of_code_is_there(name: str) -> None:
    heads = "|".join(sorted(set(names.packages())))
    pattern = re.compile(rf"^(?:python -m )?((?:{heads})(?:\.\w+)+)")
    said = {found[1] for span in CURRENT[name].spans if (found := pattern.match(span))}
    files = re.compile(r"\.(py|proto|md|json|yaml)$")

    assert {each for each in said if not files.search(each) and not names.is_code(each)} == set()


def test_the_references_are_up_to_date() -> None:
    docs = ROOT / "docs"

    assert (docs / "commands.md").read_text(encoding="utf-8") == reference.text(), "run `make commands-doc`"
    assert (docs / "settings.md").read_text(encoding="utf-8") == settings.text(), "run `make settings-doc`"


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(CURRENT["docs/architecture.md"].text.splitlines()) <= 150


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("daggers get NAME", None),
        ("daggers fetch NAME", "daggers has no command fetch"),
        ("daggers local up --detach", None),
        ("daggers logs --colour d", "daggers logs has no --colour"),
    ],
)
def test_a_wrong_command_line_is_found(line: str, wrong: str | None) -> None:
    assert daggers(line) == wrong


def test_what_is_not_there_is_found() -> None:
    assert not names.is_path("services/runtime/src/runtime/nowhere.py")
    assert not names.is_code("fleet.nowhere")
    assert not names.is_variable("_".join(["DAGGERS", "NOWHERE"]))
    assert not names.is_topic("daggers.nowhere")
