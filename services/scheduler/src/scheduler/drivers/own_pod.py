"""Find the pod that the scheduler and its drivers run in, where Kubernetes runs them.

As the owner of executors' pods it takes them with it when it goes. Spark refuses to start a driver under the
name of a pod that is not there, so where the name is in doubt, none is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROPERTY: Final = "spark.kubernetes.driver.pod.name"
"""Spark's property of the owner's name."""
_HOSTS: Final = Path("etc/hosts")
# A kubelet's first line of that file. In a pod with the network of its node it has another ending, and the
# host's name is the node's.
_OF_A_KUBELET: Final = "# Kubernetes-managed hosts file.\n"
_NAMESPACE: Final = Path("var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LONGEST: Final = 63
"""Characters of a host name, at which a kubelet cuts the name of a pod."""


@dataclass(frozen=True, slots=True)
class OwnPod:
    """A pod, as Spark asks for it."""

    name: str
    namespace: str


def find(host_name: str, root: Path = Path("/")) -> OwnPod | None:
    """Find the pod that this process runs in; None outside of one, or where its name is in doubt.

    host_name: of this host, which is its pod's name unless the pod says another. root: of the file system.
    """
    try:
        hosts, namespace = ((root / file).read_text(encoding="utf-8") for file in (_HOSTS, _NAMESPACE))
    except OSError:
        return None
    if not hosts.startswith(_OF_A_KUBELET) or len(host_name) >= _LONGEST:
        return None
    return OwnPod(host_name, namespace.strip())
