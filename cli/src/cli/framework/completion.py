"""Complete command lines in shells, by what typer has for each of them.

A shell calls the command with a variable of its environment; typer answers in place of the command.
"""

from typing import Final

from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

PROGRAM: Final = "daggers"
_VARIABLE: Final = "_DAGGERS_COMPLETE"
"""Variable that typer looks for, by the name of the program."""


def register_shells() -> None:
    """Let typer know its shells: of itself it does so only with flags that change start-up files."""
    completion_init()


def write_script(shell: str) -> str:
    """Return the script by which a shell completes command lines."""
    return get_completion_script(prog_name=PROGRAM, complete_var=_VARIABLE, shell=shell)
