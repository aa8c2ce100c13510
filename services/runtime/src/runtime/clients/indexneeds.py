"""Check before the first row whether an index of Elasticsearch or OpenSearch can take rows.

A problem that can be fixed ends with the request that fixes it.
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
from runtime.clients.http.connection import HttpAnswer, Request, Server
from runtime.errors import JobError, external, user

_OLDEST: Final = 7
"""First major version of Elasticsearch whose `_bulk` has no types; every OpenSearch is later."""
_JSON: Final = {"Content-Type": "application/json"}
_NOT_ALLOWED: Final = frozenset({403, 405})
"""Statuses for a user that may write, but not read mappings: the check is skipped then."""
_Fields = Mapping[str, Mapping[str, object]]


def check_version(server: Server) -> None:
    """Check product and version of a server. Raises: JobError for another product, or an old version."""
    answer = _request(server, "")
    if answer.status in _NOT_ALLOWED:
        return
    number, distribution = _parse_version(answer)
    if not number:
        raise user("SINK_SCHEMA", f"{server.name} does not say that it is Elasticsearch or OpenSearch.")
    if distribution != "opensearch" and int(number.partition(".")[0]) < _OLDEST:
        raise user("SINK_SCHEMA", f"{server.name} is {number}, and older than Elasticsearch {_OLDEST}.")


def _parse_version(answer: HttpAnswer) -> tuple[str, str]:
    """Parse version and distribution of a server; empty where the answer has none."""
    version = posting.json_object(answer).get("version") if answer.status == 200 else {}
    if not isinstance(version, Mapping):
        return "", ""
    number = str(version.get("number", ""))
    return (number if re.match(r"\d+\.", number) else ""), str(version.get("distribution", ""))


@dataclass(frozen=True, slots=True)
class Index:
    """Target of a sink: an index, an alias of several, or a data stream."""

    server: Server
    sink: spec_pb2.ElasticsearchSink
    required: _Fields
    """Fields that the rows need, with their mappings."""

    def prepare(self) -> None:
        """Create or extend the index, with `create_index`. Raises: JobError where it accepts no row."""
        status = self._status
        if status in _NOT_ALLOWED:
            return
        if status == 404 and self.sink.create_index:
            fields = {"mappings": {"dynamic": "strict", "properties": self.required}}
            answer = _request(self.server, self._path, "PUT", fields)
            if answer.status == 400 and b"already_exists" not in answer.body:  # another driver was faster
                problem = f"{self.server.name} makes no index {self.sink.index!r} for these columns."
                raise user("SINK_SCHEMA", problem)
        path, missing = self._missing_fields()
        if not missing:
            return
        may, body = self.sink.create_index, {"properties": missing}
        if not may or _request(self.server, path, "PUT", body).status >= 400:
            raise self._strict_mapping_error(path, missing)

    def describe(self) -> str:
        """Describe in a sentence what `prepare` would do. Raises: JobError where `prepare` would."""
        name = self.sink.index
        if self._status == 404 and self.sink.create_index:
            return f"The index {name} is not there yet; it is made when the dagger starts."
        path, missing = self._missing_fields()
        if missing and not self.sink.create_index:
            raise self._strict_mapping_error(path, missing)
        added = f"; {', '.join(missing)} is added when the dagger starts" if missing else ""
        return f"The index {name} has fields for these rows{added}."

    @property
    def _path(self) -> str:
        return quote(self.sink.index, safe="")

    @property
    def _status(self) -> int:
        return _request(self.server, self._path, "HEAD").status

    def _missing_fields(self) -> tuple[str, _Fields]:
        """Return the path of the mapping, and the fields that a strict mapping lacks.

        Raises: JobError for fields of types that no value fits.
        """
        missing: dict[str, Mapping[str, object]] = {}
        wrong: list[str] = []
        name, mapping = self._read_mapping()
        fields = mapping.get("properties") or {}
        for column, field in self.required.items():
            mapping_field = fields.get(column)
            if mapping_field is None:
                missing |= {column: field} if str(mapping.get("dynamic")).lower() == "strict" else {}
            elif not kind.holds(field, mapping_field):
                type_ = mapping_field.get("type", "object")
                problem = f"{column} is {type_} in {name}, which no {field['type']} fits"
                wrong.append(f"{problem}: name another index")
        if wrong:
            raise user("SINK_SCHEMA", f"{self.server.name} takes none of these rows: {'; '.join(wrong)}.")
        others = "" if name == self.sink.index else "?write_index_only=true"
        return f"{self._path}/_mapping{others}", missing

    def _strict_mapping_error(self, path: str, missing: _Fields) -> JobError:
        problem = (
            f"{self.server.name} has no field {', '.join(missing)} in {self.sink.index!r}, whose mapping"
        )
        return user("SINK_SCHEMA", f"{problem} is strict: PUT /{path} {json.dumps({'properties': missing})}")

    def _read_mapping(self) -> tuple[str, Mapping[str, Any]]:
        """Return the index that is written to, and its mapping; empty where the server does not tell.

        Raises: JobError where there is no such index.
        """
        name = self.sink.index
        answer = _request(self.server, f"{self._path}/_mapping")
        if answer.status == 404:
            problem = f"{self.server.name} has no index {name!r}: set create_index, or make it."
            raise user("SINK_MISSING", problem)
        mappings = _json_or_empty(answer)
        index = name if name in mappings or not mappings else self._write_index(mappings)
        mapping = mappings.get(index, {}).get("mappings")
        return index, mapping if isinstance(mapping, Mapping) else {}

    def _write_index(self, indices: Collection[str]) -> str:
        """Return the index behind an alias or a data stream that is written to; empty where it is unknown.

        Raises: JobError where an alias of several indices has no write index.
        """
        if len(indices) == 1:
            return next(iter(indices))
        name = self.sink.index
        aliases = _json_or_empty(_request(self.server, f"{self._path}/_alias"))
        named = {index: own.get("aliases", {}) for index, own in aliases.items()}
        marks = {index: own[name] for index, own in named.items() if name in own}
        if not marks:
            streams = _json_or_empty(_request(self.server, f"_data_stream/{self._path}"))
            return str(streams["data_streams"][0]["indices"][-1]["index_name"]) if streams else ""
        chosen = [index for index, mark in marks.items() if mark.get("is_write_index")]
        if not chosen and marks.keys() == {*indices}:
            add = {"add": {"index": max(indices), "alias": name, "is_write_index": True}}
            problem = (
                f"{self.server.name} writes to none of the {len(indices)} indices that {name!r} stands for"
            )
            statement = f"POST /_aliases {json.dumps({'actions': [add]})}"
            raise external("SINK_MISSING", f"{problem}: {statement}", retryable=True)
        return chosen[0] if chosen else ""


def _request(server: Server, path: str, method: str = "GET", body: object = None) -> HttpAnswer:
    """Send a request, and return an answer about its subject. Raises: JobError of one about the server."""
    data = b"" if body is None else json.dumps(body).encode()
    headers = {} if body is None else _JSON

    def judge(answer: HttpAnswer) -> None:
        if answer.status == 404 or answer.status in _NOT_ALLOWED:
            return
        is_own = 200 <= answer.status < 300 and not posting.is_page(answer)
        if (why := posting.interpret(server, (), answer, is_taken=is_own).why) is not None:
            raise why

    return client.ask(server, Request(method, f"{base_url(server)}/{path}", headers, data), judge)


def _json_or_empty(answer: HttpAnswer) -> Mapping[str, Any]:
    """Parse the JSON object of a success; empty for an error."""
    return posting.json_object(answer) if answer.status == 200 else {}


def base_url(server: Server) -> str:
    """Return the URL of a server without a trailing slash."""
    return server.url.removesuffix("/")
