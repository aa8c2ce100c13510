"""Rewrite hints so that they can be typed where they are read: in a container the command
has another name.
"""

from typing import Final

COMMAND: Final = "daggers"
_LOCAL_STACK: Final = "`daggers local up`"


def in_place(text: str, command: str) -> str:
    """Replace the command's name in hints by `command`, as `docker compose run --rm daggers`, by which the
    hint to start a stack changes, too.
    """
    if command == COMMAND:
        return text
    tool, _, _ = command.partition(" run ")
    return text.replace(_LOCAL_STACK, f"`{tool} up --detach --wait`").replace(f"`{COMMAND} ", f"`{command} ")
