"""The JSON documents of the commands: what a message of the API looks like to a script."""

import base64
import json
from typing import Any

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from daggerclient.daggerfile.show import to_document
from daggerclient.daggerfile.sinks import shown_secret
from daggerclient.times import iso

EVENTS = events_pb2.DESCRIPTOR.message_types_by_name


def dagger(shown: gateway_pb2.Dagger) -> dict[str, Any]:
    """A dagger: what was asked, and what is observed."""
    return {
        "name": shown.name,
        "phase": gateway_pb2.Phase.Name(shown.phase),
        "desired": gateway_pb2.Desired.Name(shown.desired).removeprefix("DESIRED_"),
        "generation": shown.generation,
        "version": shown.version,
        "warnings": list(shown.warnings),
        "last_error": error(shown.last_error) if shown.HasField("last_error") else None,
        "observed_generation": shown.observed_generation,
        "observed_version": shown.observed_version,
        "attempt": shown.attempt,
        "not_before": iso(shown.not_before) if shown.HasField("not_before") else None,
        "create_time": iso(shown.create_time),
        "update_time": iso(shown.update_time),
        "create_sequence": shown.create_sequence,
        "driver": _driver(shown.driver) if shown.HasField("driver") else None,
        "references": dict(shown.reference_versions),
        "spec": to_document(shown.spec),
    }


def action(what: int) -> str:
    """What ApplyDagger did: created, updated, started or unchanged."""
    return gateway_pb2.ApplyDaggerResponse.Action.Name(what).removeprefix("ACTION_").lower()  # type: ignore[arg-type] # any number of the wire


def error(what: events_pb2.DaggerError) -> dict[str, Any]:
    """Why something went wrong."""
    return {
        "domain": events_pb2.ErrorDomain.Name(what.domain).removeprefix("ERROR_DOMAIN_"),
        "reason": what.reason,
        "detail": what.detail,
        "retryable": what.retryable,
    }


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
    }


def stream(what: spec_pb2.Stream) -> dict[str, Any]:
    """A stream."""
    return {
        "name": what.name,
        "cluster": what.cluster,
        "topics": list(what.topics),
        "message": what.message,
        "time_field": what.time_field,
    }


def reference(what: spec_pb2.ReferenceTable) -> dict[str, Any]:
    """A reference table."""
    form = spec_pb2.ReferenceTable.Format.Name(what.format).removeprefix("FORMAT_").lower()
    return {"name": what.name, "format": form, "location": what.location}


def event(what: gateway_pb2.Event) -> dict[str, Any]:
    """A record of the control topic; `data` is null when this command does not know its message."""
    message = unpacked(what.data)
    return {
        "sequence": what.sequence,
        "id": what.id,
        "type": what.type,
        "source": what.source,
        "subject": what.subject,
        "time": iso(what.time),
        "data": json_format.MessageToDict(message, preserving_proto_field_name=True) if message else None,
        "refused": what.refused,
    }


def quarantined(what: telemetry_pb2.Quarantined) -> dict[str, Any]:
    """A record that was set aside; its bytes in base64, and what could be read of them."""
    try:
        prefix = json.loads(what.decoded_prefix) if what.decoded_prefix else None
    except ValueError:
        prefix = what.decoded_prefix
    return {
        "topic": what.topic,
        "partition": what.partition,
        "offset": what.offset,
        "stage": what.stage,
        "reason": what.reason,
        "detail": what.detail,
        "message": what.message,
        "decoded_prefix": prefix,
        "generation": what.generation,
        "record_time": iso(what.record_time) if what.HasField("record_time") else None,
        "time": iso(what.time),
        "key": base64.b64encode(what.key).decode(),
        "value": base64.b64encode(what.value).decode(),
    }


def _driver(handle: events_pb2.DriverHandle) -> dict[str, Any]:
    return {"host": handle.host, "pid": handle.pid, "ui_url": handle.ui_url, "run_dir": handle.run_dir}


def unpacked(packed: AnyMessage) -> Message | None:
    """An event of the control topic; None when this command does not know its message."""
    name = packed.TypeName().rpartition(".")[2]
    if name not in EVENTS:
        return None
    message: Message = getattr(events_pb2, name)()
    try:
        packed.Unpack(message)
    except DecodeError:
        return None
    return message
