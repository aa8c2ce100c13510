"""Batches of rows in requests, and what answers mean where it is what HTTP says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from runtime.clients.bisection import Refused, Rows
from runtime.clients.http import client
from runtime.clients.http.connection import Answer, Request, Server
from runtime.clients.kept import DENIED
from runtime.clients.sending import Batches, Requests, Verdict
from runtime.errors import TemporaryError, external

THROTTLES: Final = 429
TOO_LARGE: Final = 413
FAILS: Final = 500
"""What a server answers that fails, be it at some row of a request alone."""
LATER: Final = frozenset({408, 425, THROTTLES})
_DENIED: Final = frozenset({401, 403, 407})
_NOWHERE: Final = frozenset({404, 405})
AWAY: Final = frozenset({THROTTLES, 502, 503, 504})
"""What a question that changes nothing is answered while a server takes no rows."""


class Posting(Batches):
    """The batches of one partition on their way to an HTTP server."""

    def __init__(
        self,
        server: Server,
        encode: Callable[[pa.RecordBatch], Requests],
        *,
        ordered: bool = False,
        may_refuse: bool = False,
    ) -> None:
        super().__init__(encode, client.kept, server, ordered, may_refuse)


def meaning(
    server: Server,
    rows: Rows,
    answer: Answer,
    *,
    is_taken: bool,
    has_one_url: bool = True,
) -> Verdict:
    """What an answer says. No word of it quotes an answer, which may quote a row.

    `is_taken`: whether it has the proof that its protocol has of rows that were taken; each sink names its
    own. A success without that is the word of something in between, and the rows are sent again.
    Raises: JobError for what somebody has to mend.
    """
    status, name = answer.status, server.name
    if is_taken:
        return Verdict()
    if 200 <= status < 300:
        return Verdict(again=[rows], why=unproven(server, answer))
    if status in LATER or status >= 500:
        return again(server, rows, answer)
    if status in _DENIED:
        detail = f"{name} answers {status}: check the secret that it is shown, and its rights."
        raise external(DENIED, detail, retryable=True)
    if status in _NOWHERE and has_one_url:
        detail = f"{name} answers {status}: there is nothing that takes rows."
        raise external("SINK_MISSING", detail, retryable=True)
    if status < 400:
        detail = f"{name} answers {status}, and redirects are not followed: name where it leads to."
        raise external("SINK_REDIRECTS", detail, retryable=True)
    return refusing(server, rows, answer)


def again(server: Server, rows: Rows, answer: Answer) -> Verdict:
    """The same rows once more, in a moment."""
    return Verdict(again=[rows], why=later(server, answer), is_throttled=answer.status == THROTTLES)


def refusing(server: Server, rows: Rows, answer: Answer) -> Verdict:
    """The rows are refused, for what is in one of them: it is found by sending halves."""
    reason = "TOO_LARGE" if answer.status == TOO_LARGE else "SINK_REFUSED"
    return Verdict(whole=Refused(reason, f"{server.name} answers {answer.status}."))


def unproven(server: Server, answer: Answer) -> TemporaryError:
    """That nothing shows that the server itself has answered."""
    detail = (
        f"{server.name} answers {answer.status}, but not as it does when it takes rows:"
        " a login page, or a proxy, may answer in its place."
    )
    return TemporaryError("SINK_UNAVAILABLE", detail, answer.retry_after)


_PAGE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|script|meta)\b",
    re.IGNORECASE | re.DOTALL,
)


def is_page(answer: Answer) -> bool:
    """Whether an answer is a page for a browser: HTML from its first tag, whatever type it says it has."""
    return _PAGE.match(answer.body) is not None


def later(server: Server, answer: Answer) -> TemporaryError:
    """That a server takes no rows now."""
    reason, what = "SINK_UNAVAILABLE", "takes no rows"
    if answer.status == THROTTLES:
        reason, what = "SINK_THROTTLES", "asks for fewer requests"
    return TemporaryError(reason, f"{server.name} {what} now (status {answer.status}).", answer.retry_after)


def reach(server: Server) -> None:
    """Return if a server may be reached, or is silent. Raises: JobError, of its address, TLS or secret."""
    with suppress(TemporaryError):
        client.ask(server, Request("HEAD", server.url))


def probe(server: Server) -> None:
    """Raise TemporaryError while a question that changes nothing gets no answer, or one that says later."""
    answer = client.ask(server, Request("HEAD", server.url))
    if answer.status in AWAY:
        raise later(server, answer)


def asked(server: Server) -> str:
    """What a server answers to a question that changes nothing: one that is for rows alone says 404 or 405.

    Raises: JobError where it takes no rows now, does not know who asks, or leads elsewhere.
    """

    def judge(answer: Answer) -> None:
        if answer.status in AWAY:
            raise later(server, answer)
        if answer.status in _DENIED or 300 <= answer.status < 400:
            meaning(server, (), answer, is_taken=False)

    answer = client.ask(server, Request("HEAD", server.url), judge)
    return f"HEAD {server.url} answers {answer.status}."


def json_object(answer: Answer) -> Mapping[str, Any]:
    """The JSON object of an answer; empty where it has none."""
    try:
        said = json.loads(answer.body) if answer.is_whole else {}
    except ValueError:
        return {}
    return said if isinstance(said, Mapping) else {}
