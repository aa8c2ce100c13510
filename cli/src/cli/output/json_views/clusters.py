"""A cluster."""

from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2

from daggerclient.daggerfile.sinks import shown_secret


def cluster(what: spec_pb2.Cluster) -> dict[str, Any]:
    """A cluster; secrets as the references they are."""
    influx = what.influx
    return {
        "name": what.name,
        "kafka": {
            "bootstrap_servers": what.kafka.bootstrap_servers,
            "properties": dict(what.kafka.properties),
            "secret_properties": {
                name: shown_secret(ref) for name, ref in what.kafka.secret_properties.items()
            },
        },
        "spark_master": what.spark_master,
        "influx": {
            "url": influx.url,
            "org": influx.org,
            "bucket": influx.bucket,
            "token": shown_secret(influx.token) if influx.HasField("token") else None,
        },
        "playground": what.playground,
    }


def use(what: gateway_pb2.ClusterUse | None) -> dict[str, Any]:
    """What runs on a cluster; nulls where the gateway does not say."""
    return {
        "daggers": None if what is None else what.daggers,
        "drivers": None if what is None else what.drivers,
        "room": what.room if what is not None and what.HasField("room") else None,
    }
