"""Asks a Spark driver's REST API whether the driver lives, and nothing else.

The API is no source of progress: it has no streaming resource, and keeps the last values of a stuck query.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Final

import httpx

from chassis.egress.addresses import AddressRefused

_TIMEOUT_S: Final = 3.0
_HEADERS: Final = {"accept-encoding": "identity"}
_ANSWER_LIMIT: Final = 256 * 1024


async def answers(client: httpx.AsyncClient, ui_url: str, dagger: str, generation: int) -> bool:
    """Tell whether the driver of this launch answers at its Spark UI, and not another that took its port.

    Never raises, whatever the network or the other side does.
    """
    try:
        url = f"{ui_url.rstrip('/')}/api/v1/applications"
        async with asyncio.timeout(_TIMEOUT_S), client.stream("GET", url, headers=_HEADERS) as response:
            read = b""
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > _ANSWER_LIMIT:
                    return False
        return response.status_code == 200 and _names(read, dagger, generation)
    except (httpx.HTTPError, httpx.InvalidURL, AddressRefused, TimeoutError, OSError):
        return False


def _names(answer: bytes, dagger: str, generation: int) -> bool:
    """Find this launch among the applications: its name has the dagger's name and the generation as words."""
    try:
        applications = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    if not isinstance(applications, list):
        return False
    names = (str(running.get("name", "")) for running in applications if isinstance(running, dict))
    return any({dagger, str(generation)} <= set(re.split(r"[ .]", name)) for name in names)
