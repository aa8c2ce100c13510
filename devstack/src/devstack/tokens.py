"""The tokens of a stack: who may call its gateway, and what its gateway shows the scheduler.

A stack whose access is enforced has its administrator's token, and no other sign of it: the token is made by
its first start, and a stack from before there were any goes on without.
"""

import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from chassis.files import replace_text
from devstack.state import ADMINISTRATOR_TOKEN_FILE, HOST_TOKEN_FILE, PORTAL_KEY_FILE, Stack

LIST_FILE = "gateway.tokens"
HINT = (
    "`daggers local status` says which file holds this stack's token;"
    " `daggers local up --access observe` starts a stack that asks for none"
)


class Access(StrEnum):
    """Treatment of callers who show the gateway no token."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


def access(stack: Stack) -> Access:
    """Return how the gateway of a stack is started."""
    return Access.ENFORCE if stack.token_file else Access.OBSERVE


def become(stack: Stack, wanted: Access) -> None:
    """Make the administrator's token, for clients and in the gateway's list, or remove it."""
    if wanted is access(stack):
        return
    listed, own = stack.state_dir / LIST_FILE, stack.state_dir / ADMINISTRATOR_TOKEN_FILE
    if wanted is Access.OBSERVE:
        own.unlink()
        listed.unlink(missing_ok=True)
        return
    token = secrets.token_hex(24)
    replace_text(listed, f"administrator:{token}\n", private=True)
    replace_text(own, f"{token}\n", private=True)  # last: it is what says that both are there


def gateway_environment(stack: Stack) -> Mapping[str, str]:
    """Return the gateway's settings of who may call it."""
    if access(stack) is Access.OBSERVE:
        return {}
    return {
        "DAGGERS_GATEWAY_TOKEN_FILE": str(stack.state_dir / LIST_FILE),
        "DAGGERS_GATEWAY_TOKEN_HINT": HINT,
        "DAGGERS_GATEWAY_ACCESS": Access.ENFORCE.value,
        "DAGGERS_GATEWAY_UNKNOWN_TEAMS": "make",
    }


def scheduler_environment(stack: Stack) -> Mapping[str, str]:
    """Return the scheduler's settings of where drivers may connect: held to it where access is enforced."""
    return {} if access(stack) is Access.OBSERVE else {"DAGGERS_SCHEDULER_EGRESS": Access.ENFORCE.value}


def portal_environment(stack: Stack) -> Mapping[str, str]:
    """Return the portal's settings: who may open it, and what it shows the gateway; its key is made once."""
    if stack.token_file is None:
        return {}
    key = stack.state_dir / PORTAL_KEY_FILE
    if not key.exists():
        replace_text(key, f"{secrets.token_hex(24)}\n", private=True)
    return {
        "DAGGERS_PORTAL_TOKEN_FILE": str(stack.token_file),
        "DAGGERS_PORTAL_KEY_FILE": str(key),
    }


def host_token(stack: Stack) -> Path:
    """Return the file with the token that gateway and scheduler share; made once."""
    file = stack.state_dir / HOST_TOKEN_FILE
    if not file.exists():
        replace_text(file, f"local:{secrets.token_hex(24)}\n", private=True)
    return file
