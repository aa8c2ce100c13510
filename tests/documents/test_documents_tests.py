"""What holds of tests themselves."""

import ast
import re

from tests.documents.pages import ROOT, tracked


def test_test_modules_import_no_test_modules() -> None:
    """What several tests share stands in a module beside them, which is no test."""
    imported = {
        f"{file}:{node.lineno}"
        for file in tracked()
        if file.endswith(".py")
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        for name in modules_of(node)
        if name.rpartition(".")[2].startswith("test_")
    }

    assert imported == set()


def modules_of(node: ast.AST) -> list[str]:
    """List what an import may bring as a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and re.search(r"(^|\.)tests(\.|$)", node.module or ""):
        return [node.module or "", *(alias.name for alias in node.names)]
    return []
