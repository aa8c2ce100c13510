"""A Kubernetes of tests: its API server and etcd, built by Go, and a kubelet whose containers are processes.

`python -m tests.kubernetes` builds them, once: so does `make test-long`. Versions and checksums of all that
is built stand in `go.mod` and `go.sum` here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import urllib3
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.documents.pages import ROOT
from tests.golang import find_go
from tests.kubernetes.api import Api, ApiError
from tests.kubernetes.kubelet import Kubelet
from tests.maven import LackingError

from cli.environment import environment
from devstack import ports, processes
from devstack.settings import StackSettings
from devstack.tools import java

NAMESPACE: Final = "daggers"
_HERE: Final = Path(__file__).parent
_MODULE: Final = (_HERE / "go.mod").read_text(encoding="utf-8")
VERSION: Final = re.findall(r"^\s*k8s\.io/kubernetes (v\S+)$", _MODULE, re.MULTILINE)[0]
_HOME: Final = ROOT / ".cache" / "kubernetes"
_PROGRAM: Final = _HOME / f"control-plane-{VERSION}"
_BUILD_S: Final = 5_400
_DEADLINE_S: Final = 120.0
_GRACE_S: Final = 10.0
_MINUTES: Final = 30
"""Its servers end by themselves after so long."""
_ADMINISTRATOR, _DRIVERS = "token-of-an-administrator", "token-of-drivers"
# What docs/operations.md asks for: drivers make and delete pods of executors, and nothing else.
_RULES: Final = [
    {
        "apiGroups": [""],
        "resources": ["pods", "services", "persistentvolumeclaims"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete", "deletecollection"],
    }
]


@dataclass(frozen=True)
class Kubernetes:
    """A cluster that runs."""

    url: str
    """URL of its API server."""
    authorities: Path
    """PEM file of the authority of its certificate."""
    token: Path
    """File of the token that drivers show."""
    api: Api
    """Client with the rights of an administrator."""
    kubelet: Kubelet


def install() -> None:
    """Build the program that has its servers. Raises: LackingError."""
    if _PROGRAM.is_file():
        return
    go = find_go(_MODULE)
    _HOME.mkdir(parents=True, exist_ok=True)
    work = _HOME / "go"  # kept until it is built, so that a build that was interrupted goes on
    own = environment(
        GOPATH=str(work / "path"), GOCACHE=str(work / "cache"), HOME=str(work), GOTOOLCHAIN="local",
        GOFLAGS="-modcacherw -mod=readonly", CGO_ENABLED="0", GOOS="", GOARCH="", GOWORK="off",
    )  # fmt: skip
    _, minor, _ = VERSION.removeprefix("v").split(".")
    version = "k8s.io/component-base/version"
    link = f"-s -w -X {version}.gitVersion={VERSION} -X {version}.gitMajor=1 -X {version}.gitMinor={minor}"
    program = work / "control-plane"
    command = ["nice", "-n", "19", go, "build", "-trimpath", "-ldflags", link, "-o", program, "."]
    built = subprocess.run(
        command, cwd=_HERE, env=own, capture_output=True, text=True, check=False, timeout=_BUILD_S
    )
    if built.returncode:
        raise LackingError(f"it could not be built: {built.stderr[-500:]}")
    program.rename(_PROGRAM)
    shutil.rmtree(work)


@contextmanager
def kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """Run a cluster of one node, whose files are in `folder`, for as long as the context.

    Raises: LackingError where it is not built and cannot be.
    """
    install()
    settings = StackSettings()
    home = java.find_home(settings.tools_dir, settings.java_home)
    if home is None:
        raise LackingError("Java is missing: make setup brings one")
    folder.mkdir(parents=True)
    chosen = ports.choose(("etcd", "peer", "api"), {})
    url = f"https://{ports.LOOPBACK}:{chosen['api']}"
    authorities, token = folder / "certificates" / "apiserver.crt", folder / "token"
    token.write_text(_DRIVERS)
    try:
        _start_servers(folder, chosen)
        api = _await_api(url, authorities, folder)
        _prepare(api)
        kubelet = Kubelet(api, folder / "pods", home / "bin" / "java")
        looks = threading.Thread(target=kubelet.run)
        looks.start()
        try:
            yield Kubernetes(url, authorities, token, api, kubelet)
        finally:
            kubelet.end()
            looks.join()
    finally:
        processes.stop(processes.find_marked(folder), grace_s=_GRACE_S)


def _start_servers(folder: Path, chosen: dict[str, int]) -> None:
    """Start etcd and the API server."""
    private, public = _make_key(folder)
    clients, peers = (f"http://{ports.LOOPBACK}:{chosen[name]}" for name in ("etcd", "peer"))
    (folder / "tokens.csv").write_text(
        f'{_ADMINISTRATOR},administrator,1,"system:masters"\n{_DRIVERS},drivers,2\n'
    )
    _start(
        folder, "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", clients,
        "--advertise-client-urls", clients, "--listen-peer-urls", peers,
        "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
    )  # fmt: skip
    _start(
        folder, "apiserver", "--etcd-servers", clients, "--bind-address", ports.LOOPBACK,
        "--secure-port", chosen["api"], "--cert-dir", folder / "certificates",
        "--service-cluster-ip-range", "10.99.0.0/24", "--service-account-issuer", "https://daggers.test",
        "--service-account-key-file", public, "--service-account-signing-key-file", private,
        "--token-auth-file", folder / "tokens.csv", "--authorization-mode", "RBAC",
        # accounts are made by a controller, and there is none
        "--disable-admission-plugins", "ServiceAccount",
    )  # fmt: skip


def _start(folder: Path, name: str, *flags: object) -> None:
    processes.start(
        name,
        ["timeout", f"{_MINUTES}m", _PROGRAM, name, *map(str, flags)],
        stack=folder,
        log=folder / f"{name}.log",
        env={"HOME": str(folder), "PATH": os.defpath},
    )


def _make_key(folder: Path) -> tuple[Path, Path]:
    """Make the key, private and public, that the API server signs tokens with, though nobody asks for one."""
    private, public = folder / "private.pem", folder / "public.pem"
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    info = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, info))
    return private, public


def _await_api(url: str, authorities: Path, folder: Path) -> Api:
    """Wait until the API server is ready."""
    end = time.monotonic() + _DEADLINE_S
    while True:
        try:
            api = Api(url, _ADMINISTRATOR, authorities, NAMESPACE)
            api.call("GET", "/api/v1/nodes")
        except (ApiError, urllib3.exceptions.HTTPError, OSError):  # not there yet, or without a certificate
            log = folder / "apiserver.log"
            assert time.monotonic() < end, log.read_text()[-2000:]
            time.sleep(0.2)  # polling a server that starts; bounded by the deadline
        else:
            return api


def _prepare(api: Api) -> None:
    """Make the namespace, and give drivers the right to what they need in it."""
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.call("POST", f"{rights}/roles", {"metadata": {"name": "drivers"}, "rules": _RULES})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "drivers"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "drivers"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "drivers"}],
    }
    api.call("POST", f"{rights}/rolebindings", binding)
