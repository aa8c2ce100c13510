"""Servers that answer as CleverTap and Mixpanel say they do, and hold requests to what they say they take."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from services.runtime.tests.httpserver import Received, Reply, Server

Record = dict[str, Any]
PASSWORD = "of-a-test"
NOT_A_USER = {"", "null", "none", "n/a", "anonymous", "00000000-0000-0000-0000-000000000000"}


class CleverTap:
    """Answers 200 though records failed; takes 1,000 of them and 15 requests at once; remembers nothing."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.processed: list[Record] = []
        self.code: Callable[[Record], int] = lambda _: 0
        """Why a record is not processed, beside its form; 0: it is."""
        self.gives_back = True
        """Whether what was not processed stands in the answer."""
        self.after_s = 0.0
        server.answer = self._answer

    def _answer(self, got: Received) -> Reply:
        if (got.method, got.path) != ("POST", "/1/upload"):
            return Reply(404)
        account, passcode = got.headers.get("X-CleverTap-Account-Id"), got.headers["X-CleverTap-Passcode"]
        if account != "ACC-1" or passcode != PASSWORD:
            return Reply(401)
        if self.server.now > 15:
            return Reply(429, b'{"status": "fail", "error": "Too many concurrent requests"}')
        if got.headers["Content-Type"] != "application/json; charset=utf-8":
            return Reply(400)
        records = got.json["d"]
        if len(records) > 1_000:
            return Reply(400)
        failed = []
        for record in records:
            if code := self._form(record) or self.code(record):
                back = {"record": record} if self.gives_back else {}
                failed.append({"status": "fail", "code": code, "error": "canary", **back})
            else:
                self.processed.append(record)
        done = len(records) - len(failed)
        status = "success" if not failed else "partial" if done else "fail"
        said = {"status": status, "processed": done, "unprocessed": failed}
        return Reply(body=json.dumps(said).encode(), after_s=self.after_s)

    def _form(self, record: Record) -> int:
        if not record.get("identity"):
            return 523
        data = record.get("profileData" if record["type"] == "profile" else "evtData")
        if not isinstance(data, dict) or any(value is None for value in data.values()):
            return 512
        if record["type"] == "event" and not record.get("evtName"):
            return 509
        if not isinstance(record.get("ts"), int) or record["ts"] > 10**11:
            return 525
        if len(data) > 256:
            return 522
        sizes = [len(value.encode()) for value in data.values() if isinstance(value, str)]
        return 512 if max([0, *sizes]) > 512 or max(map(len, ["", *data])) > 120 else 0


class Mixpanel:
    """Answers 400 for what it did not import, and imports the rest; knows events by their $insert_id."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.imported: dict[tuple[Any, ...], Record] = {}
        self.wrong: Callable[[Record], str] = lambda _: ""
        """The property for which an event is not imported, beside its form."""
        self.most_bytes = 2 * 1024 * 1024
        server.answer = self._answer

    def _answer(self, got: Received) -> Reply:
        if (got.method, got.path, dict(got.query)) != (
            "POST", "/import", {"strict": "1", "project_id": "42"},
        ):  # fmt: skip
            return Reply(404)
        if got.headers["Authorization"] != f"Basic {base64.b64encode(f'u:{PASSWORD}'.encode()).decode()}":
            return Reply(401)
        if len(got.body) > self.most_bytes:
            return Reply(413)
        events = got.json
        if len(events) > 2_000:
            return Reply(413)
        failed = []
        for index, event in enumerate(events):
            properties = event["properties"]
            if field := self._form(event) or self.wrong(event):
                insert_id = properties["$insert_id"]
                failed.append({"index": index, "insert_id": insert_id, "field": field, "message": "canary"})
                continue
            names = ("time", "distinct_id", "$insert_id")
            self.imported[(event["event"], *(properties[name] for name in names))] = event
        status = 400 if failed else 200
        said = {"code": status, "num_records_imported": len(events) - len(failed), "failed_records": failed}
        return Reply(status, json.dumps(said).encode())

    def _form(self, event: Record) -> str:
        properties = event["properties"]
        if str(properties["distinct_id"]).lower() in NOT_A_USER:
            return "properties.distinct_id"
        if not 31_536_000_000 < properties["time"] < 4_102_444_800_000:
            return "properties.time"
        identity = properties["$insert_id"]
        plain = identity.replace("-", "").isalnum() and len(identity) <= 36
        return "" if plain and len(properties) < 255 else "properties.$insert_id"
