"""A client of Kubernetes's API, as small as tests need it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import urllib3

_JSON = "application/json"
_MERGE = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """An answer of the API server that is none that was asked for; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """Objects of one namespace, by somebody's token."""

    def __init__(self, url: str, token: str, authorities: Path, namespace: str) -> None:
        self._url, self._objects = url, f"/api/v1/namespaces/{namespace}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http = urllib3.PoolManager(ca_certs=str(authorities), retries=False, timeout=30)

    def call(self, verb: str, path: str, body: Any = None, *, kind: str = _JSON) -> Any:
        """Call a path from the server's root on. Raises: ApiError; urllib3's HTTPError."""
        answer = self._http.request(
            verb, f"{self._url}{path}", headers={**self._headers, "Content-Type": kind},
            body=None if body is None else json.dumps(body),
        )  # fmt: skip
        if answer.status >= 300:
            raise ApiError(answer.status, answer.data.decode(errors="replace")[:500])
        return json.loads(answer.data)

    def find(self, kind: str) -> list[dict[str, Any]]:
        """Find the objects of a kind, such as `pods`."""
        found: list[dict[str, Any]] = self.call("GET", f"{self._objects}/{kind}")["items"]
        return found

    def names(self, kind: str) -> list[str]:
        """List the names of objects of a kind, in order."""
        return sorted(each["metadata"]["name"] for each in self.find(kind))

    def create(self, kind: str, body: dict[str, Any], of: str = "") -> Any:
        """Create an object. of: `NAME/` and the subresource of an object that it is of."""
        return self.call("POST", f"{self._objects}/{kind}" + (f"/{of}" if of else ""), body)

    def set_status(self, pod: str, status: dict[str, Any]) -> Any:
        """Set what is said in the status of a pod, and leave the rest of it."""
        path = f"{self._objects}/pods/{pod}/status"
        return self.call("PATCH", path, {"status": status}, kind=_MERGE)

    def delete(self, pod: str) -> Any:
        """Delete a pod for good, without waiting for its containers."""
        return self.call("DELETE", f"{self._objects}/pods/{pod}", {"gracePeriodSeconds": 0})

    def evict(self, pod: str) -> Any:
        """Evict a pod, as a drain of its node does."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        return self.create("pods", body, f"{pod}/eviction")
