"""What servers are shown of who calls: a header of HTTP, or metadata of gRPC."""

from __future__ import annotations

import base64
import re
from typing import Final

from daggers.v1 import spec_pb2

from runtime.clients.secrets import resolve
from runtime.errors import JobError, external

# No header of HTTP may have them.
_NO_HEADER: Final = re.compile("[\r\n\0]|[^\x00-\xff]")


def header(auth: spec_pb2.HttpAuth, to: str, name: str) -> dict[str, str]:
    """The header for a server at `to`, which people know by `name`; none where nothing is shown, or a token.

    Raises: JobError.
    """
    if auth.HasField("bearer"):
        key, value = "Authorization", f"Bearer {resolve(auth.bearer, to)}"
    elif auth.HasField("basic"):
        return basic(auth.basic.user, resolve(auth.basic.password, to))
    elif auth.HasField("header"):
        key, value = auth.header.name, resolve(auth.header.value, to)
    else:
        return {}
    if _NO_HEADER.search(value):
        detail = f"The secret for {name} has line breaks, or characters of no header."
        raise external("SECRET_UNUSABLE", detail, retryable=True)
    return {key: value}


def basic(user: str, password: str) -> dict[str, str]:
    """The header of a user and a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def forbidden(name: str, why: str) -> JobError:
    """An address of a tenant that may not be reached."""
    detail = f"{name} may not be reached: {why}. An administrator can register it."
    return external("SINK_ADDRESS_REFUSED", detail, retryable=True)
