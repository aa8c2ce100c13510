"""Build hook: turns daggers/v1/*.proto into the typed Python package `daggers.v1`. None of it is in git."""

from __future__ import annotations

import shutil
import sysconfig
from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtoBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        from grpc_tools import protoc

        root = Path(self.root)
        out = root / "gen"
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
        package = out / "daggers" / "v1"
        package.joinpath("py.typed").touch()
        modules = sorted(path.stem for path in package.glob("*_pb2.py"))
        names = ", ".join(modules)
        package.joinpath("__init__.py").write_text(
            f'"""The messages and services of Daggers."""\n\nfrom daggers.v1 import {names}\n\n'
            f"__all__ = {modules!r}\n"
        )
