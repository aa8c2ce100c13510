"""`daggers completion`."""

from enum import Enum
from typing import Annotated

import typer

from cli.framework import completion as shells
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.printer import print_text


class Shell(Enum):
    """Shells that complete by a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


app = group()


@command(app, "completion", example="daggers completion bash >> ~/.bashrc")
def completion(
    session: Session,
    shell: Annotated[Shell, typer.Argument(help="Shell that is to complete command lines.")],
) -> None:
    """Load it in the shell's start-up file; commands, flags and their values are completed then, and files
    where none of these fits.
    """
    script = shells.write_script(shell.value)
    session.out.show({"shell": shell.value, "script": script}, lambda _: print_text(script))
