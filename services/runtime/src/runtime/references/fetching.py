"""Fetch what stands at the location of a reference table: a file of the host, or a URL."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

import urllib3

from runtime.clients.egress import proxy_credentials, proxy_of

MAX_BYTES = 64 * 1024 * 1024
_TIMEOUT = urllib3.Timeout(connect=5.0, read=10.0)
_DOWNLOAD_S = 60.0
_PIECE = 1024 * 1024


class TableUnreadable(Exception):  # noqa: N818 - reads as what is wrong
    """Raised for a location without content; the text is one sentence."""


def fetch(location: str) -> bytes:
    """Read an absolute path or an http(s) URL, at most 64 MiB. Raises: Unreadable."""
    if urlsplit(location).scheme in ("http", "https"):
        return _download(location)
    try:
        with Path(location).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise TableUnreadable(f"{location} cannot be read: {problem.strerror}.") from None
    return _check_size(location, data)


def _download(url: str) -> bytes:
    """Download a URL. It follows no redirects: these could lead to places that are not allowed."""
    try:
        with _pool(url) as pool:
            answer = pool.request("GET", url, redirect=False, preload_content=False)
            data = _read_body(answer, url)
            status = answer.status
            answer.close()
    except (urllib3.exceptions.HTTPError, ValueError) as problem:
        raise TableUnreadable(f"{_without_secrets(url)} does not answer: {type(problem).__name__}.") from None
    if status != 200:
        raise TableUnreadable(f"{_without_secrets(url)} answers with status {status}.")
    return _check_size(_without_secrets(url), data)


def _pool(url: str) -> urllib3.PoolManager:
    proxy = proxy_of(url)
    if proxy is None:
        return urllib3.PoolManager(timeout=_TIMEOUT, retries=False)
    headers = proxy_credentials(proxy)
    return urllib3.ProxyManager(proxy, proxy_headers=headers, timeout=_TIMEOUT, retries=False)


def _read_body(answer: urllib3.BaseHTTPResponse, url: str) -> bytes:
    """Read a body, up to one piece beyond the limit. urllib3's timeout is per piece: this limits the sum."""
    data, end = bytearray(), time.monotonic() + _DOWNLOAD_S
    while len(data) <= MAX_BYTES and (piece := answer.read1(_PIECE)):
        if time.monotonic() > end:
            raise TableUnreadable(
                f"{_without_secrets(url)} gave only {len(data)} bytes in {_DOWNLOAD_S:.0f} s."
            )
        data += piece
    return bytes(data)


def _check_size(location: str, data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise TableUnreadable(f"{location} is larger than {MAX_BYTES // 2**20} MiB.")
    return data


def _without_secrets(url: str) -> str:
    """Remove user, password and query of a URL, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"
