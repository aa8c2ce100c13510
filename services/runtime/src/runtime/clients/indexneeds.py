"""What keeps every row out of an index of Elasticsearch or OpenSearch, found before the first row.

Where somebody can help, it ends with the request that would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from daggers.v1 import spec_pb2

from daggerspec.sinks import elasticsearch as kind
from runtime.clients.http import client, posting
from runtime.clients.http.connection import Answer, Request, Server
from runtime.errors import JobError, external, user

_OLDEST: Final = 7
"""The first Elasticsearch whose `_bulk` knows no types; each OpenSearch is younger."""
_JSON: Final = {"Content-Type": "application/json"}
_UNTOLD: Final = frozenset({403, 405})
"""What a server answers to who may write, and not ask."""
_Fields = Mapping[str, Mapping[str, object]]


def check_version(server: Server) -> None:
    """Raise `JobError` for what is no such server, or too old."""
    answer = _asked(server, "")
    if answer.status in _UNTOLD:
        return
    number, distribution = _version(answer)
    if not number:
        raise user("SINK_SCHEMA", f"{server.name} does not say that it is Elasticsearch or OpenSearch.")
    if distribution != "opensearch" and int(number.partition(".")[0]) < _OLDEST:
        raise user("SINK_SCHEMA", f"{server.name} is {number}, and older than Elasticsearch {_OLDEST}.")


def _version(answer: Answer) -> tuple[str, str]:
    """What a server says that it is: its version, and `opensearch` where it is one."""
    version = posting.json_object(answer).get("version") if answer.status == 200 else {}
    if not isinstance(version, Mapping):
        return "", ""
    number = str(version.get("number", ""))
    return (number if re.match(r"\d+\.", number) else ""), str(version.get("distribution", ""))


@dataclass(frozen=True, slots=True)
class Index:
    """What a sink calls its index: one, an alias of several, or a data stream."""

    server: Server
    sink: spec_pb2.ElasticsearchSink
    wanted: _Fields
    """The fields that its rows need."""

    def prepare(self) -> None:
        """Make or extend it, if that was asked for. Raises: JobError where it takes none of the rows."""
        status = self._status
        if status in _UNTOLD:
            return
        if status == 404 and self.sink.create_index:
            fields = {"mappings": {"dynamic": "strict", "properties": self.wanted}}
            answer = _asked(self.server, self._path, "PUT", fields)
            if answer.status == 400 and b"already_exists" not in answer.body:  # another driver was faster
                told = f"{self.server.name} makes no index {self.sink.index!r} for these columns."
                raise user("SINK_SCHEMA", told)
        path, lacks = self._lacking()
        if not lacks:
            return
        may, body = self.sink.create_index, {"properties": lacks}
        if not may or _asked(self.server, path, "PUT", body).status >= 400:
            raise self._too_strict(path, lacks)

    def look(self) -> str:
        """What `prepare` would find, in a sentence; nothing is changed. Raises: JobError, as that."""
        name = self.sink.index
        if self._status == 404 and self.sink.create_index:
            return f"The index {name} is not there yet; it is made when the dagger starts."
        path, lacks = self._lacking()
        if lacks and not self.sink.create_index:
            raise self._too_strict(path, lacks)
        added = f"; {', '.join(lacks)} is added when the dagger starts" if lacks else ""
        return f"The index {name} has fields for these rows{added}."

    @property
    def _path(self) -> str:
        return quote(self.sink.index, safe="")

    @property
    def _status(self) -> int:
        return _asked(self.server, self._path, "HEAD").status

    def _lacking(self) -> tuple[str, _Fields]:
        """Where fields are put, and those that a strict mapping lacks.

        Raises: JobError for those that no value fits.
        """
        lacks: dict[str, Mapping[str, object]] = {}
        wrong: list[str] = []
        name, mapping = self._mapping()
        fields = mapping.get("properties") or {}
        for column, field in self.wanted.items():
            known = fields.get(column)
            if known is None:
                lacks |= {column: field} if str(mapping.get("dynamic")).lower() == "strict" else {}
            elif not kind.holds(field, known):
                told = f"{column} is {known.get('type', 'object')} in {name}, which no {field['type']} fits"
                wrong.append(f"{told}: name another index")
        if wrong:
            raise user("SINK_SCHEMA", f"{self.server.name} takes none of these rows: {'; '.join(wrong)}.")
        others = "" if name == self.sink.index else "?write_index_only=true"
        return f"{self._path}/_mapping{others}", lacks

    def _too_strict(self, path: str, lacks: _Fields) -> JobError:
        told = f"{self.server.name} has no field {', '.join(lacks)} in {self.sink.index!r}, whose mapping"
        return user("SINK_SCHEMA", f"{told} is strict: PUT /{path} {json.dumps({'properties': lacks})}")

    def _mapping(self) -> tuple[str, Mapping[str, Any]]:
        """The index that is written to, and its mapping; an empty one where the server tells none.

        Raises: JobError where there is none.
        """
        name = self.sink.index
        answer = _asked(self.server, f"{self._path}/_mapping")
        if answer.status == 404:
            told = f"{self.server.name} has no index {name!r}: set create_index, or make it."
            raise user("SINK_MISSING", told)
        known = _told(answer)
        written = name if name in known or not known else self._write_index(known)
        mapping = known.get(written, {}).get("mappings")
        return written, mapping if isinstance(mapping, Mapping) else {}

    def _write_index(self, indices: Collection[str]) -> str:
        """Which of those behind an alias or a data stream is written to; empty where nobody tells.

        Raises: JobError where an alias has several, and says it of none.
        """
        if len(indices) == 1:
            return next(iter(indices))
        name = self.sink.index
        aliases = _told(_asked(self.server, f"{self._path}/_alias"))
        named = {index: own.get("aliases", {}) for index, own in aliases.items()}
        marks = {index: own[name] for index, own in named.items() if name in own}
        if not marks:
            streams = _told(_asked(self.server, f"_data_stream/{self._path}"))
            return str(streams["data_streams"][0]["indices"][-1]["index_name"]) if streams else ""
        chosen = [index for index, mark in marks.items() if mark.get("is_write_index")]
        if not chosen and marks.keys() == {*indices}:
            add = {"add": {"index": max(indices), "alias": name, "is_write_index": True}}
            what = f"{self.server.name} writes to none of the {len(indices)} indices that {name!r} stands for"
            statement = f"POST /_aliases {json.dumps({'actions': [add]})}"
            raise external("SINK_MISSING", f"{what}: {statement}", retryable=True)
        return chosen[0] if chosen else ""


def _asked(server: Server, path: str, method: str = "GET", body: object = None) -> Answer:
    """An answer that is about what was asked. Raises: JobError where it is about the server."""
    data = b"" if body is None else json.dumps(body).encode()
    headers = {} if body is None else _JSON

    def judge(answer: Answer) -> None:
        if answer.status == 404 or answer.status in _UNTOLD:
            return
        is_own = 200 <= answer.status < 300 and not posting.is_page(answer)
        if (why := posting.meaning(server, (), answer, is_taken=is_own).why) is not None:
            raise why

    return client.ask(server, Request(method, f"{base(server)}/{path}", headers, data), judge)


def _told(answer: Answer) -> Mapping[str, Any]:
    """What an answer tells; nothing where it is an error."""
    return posting.json_object(answer) if answer.status == 200 else {}


def base(server: Server) -> str:
    """The URL that paths of a server are added to."""
    return server.url.removesuffix("/")
