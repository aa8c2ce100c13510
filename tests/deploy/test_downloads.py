"""What the tree downloads is pinned by its hash: Python's packages, npm's, Kafka's jars, tools."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.documents.pages import ROOT, tracked

from devstack.tools import kafka

LOCKS = sorted(file for file in tracked() if file.endswith(".lock"))
NPM_LOCKS = sorted(file for file in tracked() if file.endswith("package-lock.json"))
MEMBERS = sorted(file for file in tracked() if file.endswith("pyproject.toml"))
_COMMAND = re.compile(
    r"""pip['",\s]+(?:install|download|wheel)\b|\bnpm['"(),\s\[]+(?:ci|install|i)\b"""
    r"""|\bgo["',\s]+(?:build|install|get)\b|\b(?:curl|wget)\b|urlretrieve|["'\s]mvn["'\s]"""
    r"""|\bivy\.retrieve\(|^ADD https?:"""
)
# Each place that downloads, and what it says so that only what is pinned comes.
DOWNLOADS = {
    "Makefile": ("--require-hashes -r requirements.lock", "--require-hashes -r requirements-uv.lock"),
    "deploy/compose/Dockerfile": (
        "--require-hashes -r requirements-uv.lock",
        "--constraint requirements.lock",
    ),
    "devstack/src/devstack/tools/pip.py": ('"--require-hashes", "--requirement", lock',),
    # Go checks what it downloads against its log of checksums, of a version that never changes.
    "devstack/src/devstack/tools/influxd.py": ("cmd/influxd@v{VERSION}",),
    # Maven has the checksums of its repository, of versions that never change.
    "bench/flink.py": ('"--require-hashes"', '"--strict-checksums"'),
    "devstack/src/devstack/tools/kafka.py": ("verify(jars, digests())",),
    "tests/maven.py": ("hexdigest() != digest",),
    # Of versions and checksums that stand in go.mod and go.sum.
    "tests/kubernetes/__init__.py": ("-mod=readonly",),
    "tests/alertmanager/__init__.py": ("-mod=readonly",),
    # The checksum of the module is compared, too.
    "tests/s3.py": ('"--require-hashes"', "@{VERSION}", '"Sum": "{SUM}"'),
    "tests/npm.py": ('npm(["ci"',),
    # Maven and Go as above: versions that never change.
    "tests/deploy/compose_walk/images.sh": ("<version>${KAFKA:-4.3.1}</version>",),
    "tests/deploy/compose_walk/plugin.sh": ("version=${COMPOSE:-v2.40.3}",),
    "tests/deploy/compose_walk/influxd2.sh": ("version=v2.7.12", "pkg-config@v0.2.14"),
    "services/portal/web/build.py": ('npm(["ci"',),
    "tests/integrate/environment.py": ('"--constraint"', '"requirements.lock"'),
    "tests/integrate/test_integrate_languages.py": ("@v",),
}
# These ask a server of ours whether it is well, or speak of downloads and make none.
SPEAKS = {
    "deploy/compose/compose.yaml",
    "cli/src/cli/framework/extension.py",
    "tests/deploy/composed.py",
    "tests/deploy/test_downloads.py",
}


def requirements(text: str) -> dict[str, list[str]]:
    """name==version -> the words behind it."""
    lines = [shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()]
    return {words[0]: [word for word in words[1:] if word.startswith("--")] for words in lines if words}


def code(file: str) -> str:
    """The text of a file without what explains it."""
    return re.sub(r"^\s*#.*$", "", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_every_place_that_downloads_is_known_and_says_that_it_takes_what_is_pinned() -> None:
    text = [
        file
        for file in sorted(tracked())
        if (ROOT / file).is_file()
        and (file.endswith((".py", ".sh", ".yaml", ".yml")) or Path(file).name in {"Makefile", "Dockerfile"})
        and not Path(file).name.startswith("test_cli_")
    ]
    downloading = {file for file in text if _COMMAND.search(code(file))} - SPEAKS

    unsaid = [(file, word) for file, words in DOWNLOADS.items() for word in words if word not in code(file)]

    assert downloading == set(DOWNLOADS)
    assert unsaid == []


def test_pip_and_uv_install_nothing_without_a_hash_but_what_is_here() -> None:
    """Each command by itself: what is installed is from a lock, or is this tree's."""
    commands = [
        command
        for file in ("Makefile", "deploy/compose/Dockerfile")
        for command in re.split(r"&&|\n(?!\s)|\n\t", code(file).replace("\\\n", " "))
        if re.search(r"\bpip\b.*\binstall\b", command)
    ]
    unpinned = [
        command
        for command in commands
        if "--require-hashes" not in command
        and not ("--no-deps" in command and "-e ./" in command)
        and "--constraint requirements.lock --build-constraint requirements.lock" not in command
    ]

    assert len(commands) >= 4
    assert unpinned == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_versions_and_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    pinned = requirements(text)

    assert pinned
    assert "://" not in text
    for requirement, words in pinned.items():
        assert re.fullmatch(r"[\w.-]+==[\w.!+-]+", requirement.partition(";")[0].strip()), requirement
        assert [word for word in words if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word)] == []
        assert words, f"{requirement} has no hash"


def test_what_a_member_depends_on_or_is_built_by_is_in_the_lock() -> None:
    """A constraint pins nothing that it does not name."""
    locked = {
        canonicalize_name(requirement.partition("==")[0])
        for requirement in requirements((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    }
    projects = [tomllib.loads((ROOT / member).read_text(encoding="utf-8")) for member in MEMBERS]
    own = {canonicalize_name(project["project"]["name"]) for project in projects if "project" in project}
    asked = {
        canonicalize_name(Requirement(each).name)
        for project in projects
        for each in (
            *project.get("project", {}).get("dependencies", []),
            *project.get("build-system", {}).get("requires", []),
        )
    }

    assert len(asked) > 20
    assert asked - own - locked == set()


@pytest.mark.parametrize("lock", NPM_LOCKS)
def test_what_npm_installs_has_its_hash_and_no_address(lock: str) -> None:
    packages = json.loads((ROOT / lock).read_text(encoding="utf-8"))["packages"]
    del packages[""]

    assert packages
    assert [
        name for name, each in packages.items() if not each.get("integrity", "").startswith("sha512-")
    ] == []
    assert [name for name, each in packages.items() if "resolved" in each] == []


def test_each_module_of_kubernetes_has_its_checksum_and_no_address() -> None:
    folder = ROOT / "tests" / "kubernetes"
    module, checksums = ((folder / name).read_text() for name in ("go.mod", "go.sum"))
    built = re.findall(r"^\t(?:\S+ => )?(\S+ v\S+)", module, re.MULTILINE)
    replaced = set(re.findall(r"^\t(\S+) =>", module, re.MULTILINE))
    lines = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in checksums.splitlines()}

    assert len(built) > 100
    assert [each for each in built if each not in lines and each.split()[0] not in replaced] == []
    assert [checksum for checksum in lines.values() if not re.fullmatch(r"h1:[\w+/]{43}=", checksum)] == []
    assert "://" not in module + checksums


def test_each_jar_of_yarn_has_its_hash() -> None:
    lines = (ROOT / "tests" / "yarn" / "jars.sha256").read_text().splitlines()

    assert len(lines) > 10
    assert [line for line in lines if not re.fullmatch(r"[0-9a-f]{64}  [\w.-]+:[\w.-]+:[\w.-]+", line)] == []


def test_each_jar_of_kafka_has_its_hash() -> None:
    digests = kafka.digests()

    assert f"kafka-clients-{kafka.VERSION}.jar" in digests
    assert [digest for digest in digests.values() if not re.fullmatch(r"[0-9a-f]{64}", digest)] == []
