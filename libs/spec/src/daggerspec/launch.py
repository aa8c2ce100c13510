"""The catalogue of one launch: the registered names of its JobSpec."""

from __future__ import annotations

from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool

from daggerspec.catalogue import UnresolvedName


class LaunchCatalogue:
    """Clusters, streams and messages as they were when the launch was prepared."""

    def __init__(self, job: spec_pb2.JobSpec) -> None:
        self._clusters = {cluster.name: cluster for cluster in job.clusters}
        self._streams = {stream.stream.name: stream.stream for stream in job.streams}
        self._sinks = {sink.name: sink for sink in job.registered_sinks}
        self._secrets = {secret.name: secret for secret in job.secrets}
        self._pool = DescriptorPool()
        for file in job.descriptors.file:
            self._pool.AddSerializedFile(file.SerializeToString())

    def cluster(self, name: str) -> spec_pb2.Cluster | None:
        """Return a cluster that the launch reads from or writes to."""
        return self._clusters.get(name)

    def stream(self, name: str) -> spec_pb2.Stream | None:
        """Return a stream that the launch reads."""
        return self._streams.get(name)

    def message(self, name: str) -> Descriptor:
        """Return a message of its streams and sinks. Raises: UnresolvedName."""
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            raise UnresolvedName("UNKNOWN_MESSAGE", f"message {name} is not in the launch") from None

    def sink(self, name: str) -> spec_pb2.RegisteredSink | None:
        """Return a registered sink that the launch names."""
        return self._sinks.get(name)

    def secret(self, name: str) -> spec_pb2.Secret | None:
        """Return a registered secret that its sinks name."""
        return self._secrets.get(name)
