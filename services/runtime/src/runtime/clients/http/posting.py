"""Post batches of rows to an HTTP server, and interpret answers by what HTTP defines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from runtime.clients.bisection import RefusalCause, Rows
from runtime.clients.client_pool import DENIED
from runtime.clients.http import client
from runtime.clients.http.connection import HttpAnswer, Request, Server
from runtime.clients.sending import Batches, BatchRequests, Verdict
from runtime.errors import TemporaryError, external

THROTTLES: Final = 429
TOO_LARGE: Final = 413
FAILS: Final = 500
"""Status of a server that fails, perhaps at one row of the request."""
LATER: Final = frozenset({408, 425, THROTTLES})
_DENIED: Final = frozenset({401, 403, 407})
_NOWHERE: Final = frozenset({404, 405})
AWAY: Final = frozenset({THROTTLES, 502, 503, 504})
"""Statuses by which a HEAD request shows that the server accepts no rows now."""


class PostBatches(Batches):
    """Posts the batches of one partition to an HTTP server."""

    def __init__(
        self,
        server: Server,
        encode: Callable[[pa.RecordBatch], BatchRequests],
        *,
        ordered: bool = False,
        may_refuse: bool = False,
    ) -> None:
        super().__init__(encode, client.pool, server, ordered, may_refuse)


def interpret(
    server: Server,
    rows: Rows,
    answer: HttpAnswer,
    *,
    is_taken: bool,
    has_one_url: bool = True,
) -> Verdict:
    """Interpret an answer. The verdict never quotes it, as it may quote a row.

    is_taken: the answer proves, by the sink's own protocol, that the rows were accepted. A success without
    proof may come from a proxy in between, and the rows are sent again. has_one_url: the URL is the same for
    all rows, so that 404 and 405 are about the sink. Raises: JobError for what somebody has to fix.
    """
    status, name = answer.status, server.name
    if is_taken:
        return Verdict()
    if 200 <= status < 300:
        return Verdict(again=[rows], why=unproven_error(server, answer))
    if status in LATER or status >= 500:
        return resend(server, rows, answer)
    if status in _DENIED:
        detail = f"{name} answers {status}: check the secret that it is shown, and its rights."
        raise external(DENIED, detail, retryable=True)
    if status in _NOWHERE and has_one_url:
        detail = f"{name} answers {status}: there is nothing that takes rows."
        raise external("SINK_MISSING", detail, retryable=True)
    if status < 400:
        detail = f"{name} answers {status}, and redirects are not followed: name where it leads to."
        raise external("SINK_REDIRECTS", detail, retryable=True)
    return refuse(server, rows, answer)


def resend(server: Server, rows: Rows, answer: HttpAnswer) -> Verdict:
    """Have the same rows sent again in a moment."""
    return Verdict(again=[rows], why=later_error(server, answer), is_throttled=answer.status == THROTTLES)


def refuse(server: Server, rows: Rows, answer: HttpAnswer) -> Verdict:
    """Refuse the whole request for one of its rows, which is then found by bisection."""
    reason = "TOO_LARGE" if answer.status == TOO_LARGE else "SINK_REFUSED"
    return Verdict(whole=RefusalCause(reason, f"{server.name} answers {answer.status}."))


def unproven_error(server: Server, answer: HttpAnswer) -> TemporaryError:
    """Build the error of an answer that does not prove that the server itself gave it."""
    detail = (
        f"{server.name} answers {answer.status}, but not as it does when it takes rows:"
        " a login page, or a proxy, may answer in its place."
    )
    return TemporaryError("SINK_UNAVAILABLE", detail, answer.retry_after)


_PAGE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|script|meta)\b",
    re.IGNORECASE | re.DOTALL,
)


def is_page(answer: HttpAnswer) -> bool:
    """Tell whether an answer is an HTML page, by its first tag: its content type is not trusted."""
    return _PAGE.match(answer.body) is not None


def later_error(server: Server, answer: HttpAnswer) -> TemporaryError:
    """Build the error of a server that accepts no rows now."""
    reason, text = "SINK_UNAVAILABLE", "takes no rows"
    if answer.status == THROTTLES:
        reason, text = "SINK_THROTTLES", "asks for fewer requests"
    return TemporaryError(reason, f"{server.name} {text} now (status {answer.status}).", answer.retry_after)


def reach(server: Server) -> None:
    """Check the way to a server; no answer is no error. Raises: JobError of its address, TLS or secret."""
    with suppress(TemporaryError):
        client.ask(server, Request("HEAD", server.url))


def probe(server: Server) -> None:
    """Send HEAD. Raises: TemporaryError while the server does not answer, or accepts no rows."""
    answer = client.ask(server, Request("HEAD", server.url))
    if answer.status in AWAY:
        raise later_error(server, answer)


def describe(server: Server) -> str:
    """Send HEAD, and describe the answer in a sentence. A URL that only takes POST answers 404 or 405.

    Raises: JobError where the server accepts no rows now, rejects the credentials, or redirects.
    """

    def judge(answer: HttpAnswer) -> None:
        if answer.status in AWAY:
            raise later_error(server, answer)
        if answer.status in _DENIED or 300 <= answer.status < 400:
            interpret(server, (), answer, is_taken=False)

    answer = client.ask(server, Request("HEAD", server.url), judge)
    return f"HEAD {server.url} answers {answer.status}."


def json_object(answer: HttpAnswer) -> Mapping[str, Any]:
    """Parse the JSON object of an answer; empty where it has none."""
    try:
        value = json.loads(answer.body) if answer.is_whole else {}
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}
