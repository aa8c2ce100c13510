"""Arguments and flags that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import MisusedError

TIMEOUT_S = 120.0
Name = Annotated[str, typer.Argument(help="Name of the dagger.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long --wait waits.")]
File = Annotated[Path | None, typer.Argument(help="Dagger file; - reads standard input.", metavar="FILE")]
FileFlag = Annotated[Path | None, typer.Option("--file", "-f", help="Dagger file, in place of FILE.")]


def one_file(file: Path | None, flag: Path | None) -> Path:
    """Return the file that the argument or the flag names. Raises: MisusedError."""
    if file and flag and file != flag:
        raise MisusedError(f"FILE is {file} and --file is {flag}: name one of them")
    chosen = file or flag
    if chosen is None:
        raise MisusedError(
            "FILE is missing", findings=[{"code": "MISSING", "field": "FILE", "message": "is missing"}]
        )
    return chosen
