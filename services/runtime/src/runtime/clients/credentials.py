"""Build the credentials of a request: a header of HTTP, or metadata of gRPC."""

from __future__ import annotations

import base64
import re
from typing import Final

from daggers.v1 import spec_pb2

from runtime.clients.secrets import resolve
from runtime.errors import JobError, external

# characters that no HTTP header may have
_NO_HEADER: Final = re.compile("[\r\n\0]|[^\x00-\xff]")


def header(auth: spec_pb2.HttpAuth, to: str, name: str) -> dict[str, str]:
    """Return the authentication header for the server at `to`; empty for none, and for OAuth 2.0.

    name: the server's, for people. Raises: JobError for a secret that is missing, or that fits no header.
    """
    if auth.HasField("bearer"):
        key, value = "Authorization", f"Bearer {resolve(auth.bearer, to)}"
    elif auth.HasField("basic"):
        return basic_header(auth.basic.user, resolve(auth.basic.password, to))
    elif auth.HasField("header"):
        key, value = auth.header.name, resolve(auth.header.value, to)
    else:
        return {}
    if _NO_HEADER.search(value):
        detail = f"The secret for {name} has line breaks, or characters of no header."
        raise external("SECRET_UNUSABLE", detail, retryable=True)
    return {key: value}


def basic_header(user: str, password: str) -> dict[str, str]:
    """Return the header of HTTP Basic authentication."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def address_refused(name: str, reason: str) -> JobError:
    """Build the error of a tenant's address that the egress rules refuse."""
    detail = f"{name} may not be reached: {reason}. An administrator can register it."
    return external("SINK_ADDRESS_REFUSED", detail, retryable=True)
