"""A kubelet whose containers are processes of this machine, for the pods of Spark's executors.

What is real: the API server, what Spark asks of it, executors and their ends, and the kernel that ends one
for memory. What is not: images, networks of pods, volumes. It binds pods to its node as well, as a scheduler
of Kubernetes does.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
import urllib3
from tests.cgroups import MemoryGroup
from tests.kubernetes.api import Api, ApiError

NODE = "processes"
_HOST = "127.0.0.1"
_TURN_S = 0.2
_DEADLINE_S = 60.0
_SPARK = Path(pyspark.__file__).parent
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
# Joins the group before it becomes the program, so that all of its memory counts.
_JOIN = 'echo $$ > "$1" && shift && exec "$@"'
_HOG = """\
taken = []
while True:
    taken.append(b"x" * 2**22)
"""


@dataclass
class Container:
    """The one container of a pod: an executor."""

    process: subprocess.Popen[bytes]
    group: MemoryGroup | None
    """Control group that counts its memory; None where none can be made."""
    reason: str = ""
    """Reason that the kubelet has ended this container for, if it has."""
    kill_at: float | None = None
    """Time at which it is killed, if it has been asked to end."""
    is_reported: bool = False
    """True once its end stands in the pod's status."""


class Kubelet:
    """Runs the pods of a namespace; `run` in a thread, until `end` is called."""

    def __init__(self, api: Api, folder: Path, java: Path) -> None:
        """folder: of its containers. java: the program that executors run in."""
        self._api, self._folder, self._java = api, folder, java
        self._containers: dict[str, Container] = {}
        self._ending = threading.Event()

    def run(self) -> None:
        """Look at all pods, again and again, and kill what runs at the end."""
        while not self._ending.wait(_TURN_S):
            with suppress(urllib3.exceptions.HTTPError):  # the server is away
                self._turn()
        for container in self._containers.values():
            _kill(container)
            if container.group is not None:
                container.group.remove()

    def end(self) -> None:
        """End soon."""
        self._ending.set()

    def executor(self, pod: str) -> psutil.Process:
        """Return the process of a pod's container."""
        return psutil.Process(self._containers[pod].process.pid)

    def evict(self, pod: str) -> None:
        """End a pod as a kubelet does whose node is short of memory."""
        container = self._containers[pod]
        container.reason = "Evicted"
        _kill(container)

    def exhaust(self, pod: str) -> None:
        """Take memory in a pod until the kernel ends its executor. Skips the test where it has no group."""
        container = self._containers[pod]
        if container.group is None:
            pytest.skip("no cgroup can be made here")
        Path(f"/proc/{container.process.pid}/oom_score_adj").write_text("1000")  # it is the one that is ended
        join = ["sh", "-c", _JOIN, "sh", container.group.members]
        with subprocess.Popen([*join, sys.executable, "-c", _HOG]) as hog:
            try:
                container.process.wait(_DEADLINE_S)
            finally:
                hog.kill()

    def _turn(self) -> None:
        """Bring each pod one step nearer to what is wanted of it."""
        pods = {pod["metadata"]["name"]: pod for pod in self._api.find("pods")}
        for name, pod in pods.items():
            with suppress(ApiError):  # it was changed, or deleted, since
                self._look_at(name, pod)
        for name in self._containers.keys() - pods.keys():
            _kill(self._containers[name])
            self._forget(name)

    def _look_at(self, name: str, pod: dict[str, Any]) -> None:
        """Bind, start, end or report one pod. Raises: ApiError."""
        node, container = pod["spec"].get("nodeName"), self._containers.get(name)
        if node is None:
            target = {"target": {"kind": "Node", "name": NODE}, "metadata": {"name": name}}
            self._api.create("pods", {"apiVersion": "v1", "kind": "Binding"} | target, f"{name}/binding")
        elif node != NODE:
            return  # another kubelet's
        elif "deletionTimestamp" in pod["metadata"]:
            if container is None or self._has_ended(container, pod):
                self._api.delete(name)
                self._forget(name)
        elif container is None and pod["status"]["phase"] == "Pending":
            self._containers[name] = self._start(name, pod["spec"]["containers"][0])
            self._api.set_status(name, _start_status(pod))
        elif container is not None and not container.is_reported and container.process.poll() is not None:
            self._api.set_status(name, _end_status(pod, container))
            container.is_reported = True

    def _has_ended(self, container: Container, pod: dict[str, Any]) -> bool:
        """Ask a container to end, kill it where it does not; tell whether it has ended."""
        if container.process.poll() is not None:
            return True
        if container.kill_at is None:
            container.kill_at = time.monotonic() + pod["metadata"]["deletionGracePeriodSeconds"]
            with suppress(ProcessLookupError):
                os.killpg(container.process.pid, signal.SIGTERM)
        elif time.monotonic() > container.kill_at:
            _kill(container)
        return False

    def _start(self, name: str, spec: dict[str, Any]) -> Container:
        """Start what the entry point of Spark's image starts, with the environment that the pod gives it."""
        given = {each["name"]: each.get("value", _HOST) for each in spec.get("env", [])}  # else its address
        options = {key: value for key, value in given.items() if key.startswith("SPARK_JAVA_OPT_")}
        memory = given["SPARK_EXECUTOR_MEMORY"]
        place = self._folder / name
        place.mkdir(parents=True)
        command = [
            self._java,
            *(options[key] for key in sorted(options, key=lambda key: int(key.rpartition("_")[2]))),
            f"-Xms{memory}", f"-Xmx{memory}", "-cp", f"{_SPARK}/jars/*",
            "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
            "--driver-url", given["SPARK_DRIVER_URL"], "--executor-id", given["SPARK_EXECUTOR_ID"],
            "--cores", given["SPARK_EXECUTOR_CORES"], "--app-id", given["SPARK_APPLICATION_ID"],
            "--hostname", _HOST, "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"], "--podName", name,
        ]  # fmt: skip
        group = _memory_group(spec)
        join = [] if group is None else ["sh", "-c", _JOIN, "sh", group.members]
        with (place / "log").open("ab") as log:
            process = subprocess.Popen(
                [*join, *command], env=_environment(given, place), cwd=place, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return Container(process, group)

    def _forget(self, name: str) -> None:
        container = self._containers.pop(name, None)
        if container is not None and container.group is not None:
            container.group.remove()


def _environment(given: Mapping[str, str], place: Path) -> dict[str, str]:
    own = {
        "HOME": str(place),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_DIRS": str(place),
        "SPARK_LOCAL_IP": _HOST,
    }
    return {key: value for key, value in given.items() if not key.startswith("SPARK_JAVA_OPT_")} | own


def _memory_group(spec: dict[str, Any]) -> MemoryGroup | None:
    """Make a group with the container's limit, where this user can make one."""
    limit = re.fullmatch(r"(\d+)(\w*)", spec["resources"]["limits"]["memory"])
    assert limit is not None
    try:
        group = MemoryGroup()
    except OSError:
        return None
    group.limit(int(limit[1]) * _UNITS[limit[2]])
    return group


def _kill(container: Container) -> None:
    """Kill a container and what it has started; return once it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(container.process.pid, signal.SIGKILL)
    container.process.wait(_DEADLINE_S)


def _start_status(pod: dict[str, Any]) -> dict[str, Any]:
    """Build the status of a pod that has started."""
    now = _now()
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    addresses = {"podIP": _HOST, "podIPs": [{"ip": _HOST}], "hostIP": _HOST}
    state = {"running": {"startedAt": now}}
    return {
        "phase": "Running", "startTime": now, "conditions": [ready], **addresses,
        "containerStatuses": [_container_status(pod, state, ready=True)],
    }  # fmt: skip


def _end_status(pod: dict[str, Any], container: Container) -> dict[str, Any]:
    """Build the status of a pod whose container has ended, as a kubelet and a runtime of containers do."""
    code, now = container.process.returncode, _now()
    killed_for_memory = container.group is not None and container.group.count_kills() > 0
    reason = "OOMKilled" if killed_for_memory else "Error" if code else "Completed"
    end = {"exitCode": code if code >= 0 else 128 - code, "finishedAt": now, "reason": reason}
    status = {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
        "containerStatuses": [_container_status(pod, {"terminated": end}, ready=False)],
    }
    if container.reason:
        status |= {"reason": container.reason, "message": "The node was low on resource: memory."}
    return status


def _container_status(pod: dict[str, Any], state: dict[str, Any], *, ready: bool) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]
    own = {"name": container["name"], "image": container["image"], "imageID": ""}
    return own | {"ready": ready, "restartCount": 0, "state": state}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
