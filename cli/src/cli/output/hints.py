"""Hints that can be typed where they are read: in a container the command is called otherwise."""

from typing import Final

COMMAND: Final = "daggers"
_LOCAL_STACK: Final = "`daggers local up`"


def in_place(text: str, command: str) -> str:
    """A text whose hints call the command as it is called there: `docker compose run --rm daggers`, by which
    a stack is started otherwise, too.
    """
    if command == COMMAND:
        return text
    tool, _, _ = command.partition(" run ")
    return text.replace(_LOCAL_STACK, f"`{tool} up --detach --wait`").replace(f"`{COMMAND} ", f"`{command} ")
