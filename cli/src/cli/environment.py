"""The environment that children are started with."""

import os


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment with changes: proxies, certificates and registries are the user's."""
    inherited = dict(os.environ)  # noqa: TID251 - handed on to a child, or asked for a name a user gave
    return inherited | changes
