"""Build hook: turns daggers/v1/*.proto into the typed Python package `daggers.v1`. None of it is in git."""

from __future__ import annotations

import ast
import re
import shutil
import sysconfig
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PUBLIC = re.compile(r'^import public "(.+)\.proto";', re.MULTILINE)


class ProtoBuildHook(BuildHookInterface):
    """The tree itself gets a new gen/. A wheel gets a folder of its own: others read gen/ meanwhile."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            build(root, root / "gen")
            return
        self.out = Path(tempfile.mkdtemp(prefix="daggers-proto-"))
        build(root, self.out)
        # With the schema itself, which other languages are generated from.
        build_data["force_include"] |= {str(self.out / "daggers"): "daggers"} | {
            str(file): str(file.relative_to(root)) for file in root.glob("daggers/**/*.proto")
        }

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self.out)


def build(root: Path, out: Path) -> None:
    """Make the package of the member in `root` anew, in the folder `out`."""
    from grpc_tools import protoc

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    sources = sorted(str(path) for path in (root / "daggers").rglob("*.proto"))
    scripts = Path(sysconfig.get_path("scripts"))
    command = [
        "protoc",
        f"-I{root}",
        f"-I{resources.files('grpc_tools') / '_proto'}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--mypy_out={out}",
        f"--mypy_grpc_out={out}",
        *sources,
    ]
    if protoc.main(command) != 0:
        raise RuntimeError("protoc refused the .proto files; its messages are above")
    for source in sources:
        pass_on_services(Path(source), root, out)
    package = out / "daggers" / "v1"
    package.joinpath("py.typed").touch()
    modules = sorted(path.stem for path in package.glob("*_pb2.py"))
    names = ", ".join(modules)
    package.joinpath("__init__.py").write_text(
        f'"""The messages and services of Daggers."""\n\nfrom daggers.v1 import {names}\n\n'
        f"__all__ = {modules!r}\n"
    )


def pass_on_services(source: Path, root: Path, out: Path) -> None:
    """Let the gRPC module of a file have the services of the files that it imports publicly.

    protoc does so for messages only.
    """
    passed_on = PUBLIC.findall(source.read_text())
    for ending in ("_pb2_grpc.py", "_pb2_grpc.pyi") if passed_on else ():
        lines = []
        for other in passed_on:
            names = public_names(out / f"{other}{ending}")
            listed = ", ".join(f"{name} as {name}" for name in names)
            if names:
                lines.append(f"from {other.replace('/', '.')}_pb2_grpc import {listed}\n")
        module = (out / source.relative_to(root)).with_suffix("")
        with module.with_name(f"{module.name}{ending}").open("a") as file:
            file.writelines(["\n", *lines])


def public_names(module: Path) -> list[str]:
    """The classes and functions of a generated module; none if there is no such module."""
    parsed = ast.parse(module.read_text() if module.exists() else "")
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in parsed.body if isinstance(node, kinds) and not node.name.startswith("_")]
