"""Which properties a cluster's Kafka may be registered with."""

from __future__ import annotations

import pytest
from daggers.v1 import spec_pb2

from daggerspec import kafka
from daggerspec.kafka_properties import ADMINISTRATORS, LISTED

NOTHING = spec_pb2.KafkaAddress()
ATTACKS = (
    *("plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers"),
    *("test.mock.num.brokers", "builtin.features", "opaque", "no.such.property", "interceptors"),
    *("sasl.oauthbearer.somewhere.url", "ssl.truststore.location", "offset.store.path"),
)


def address(**properties: str) -> spec_pb2.KafkaAddress:
    return spec_pb2.KafkaAddress(
        bootstrap_servers="h:1",
        properties={name.replace("_", "."): text for name, text in properties.items()},
    )


def said(value: spec_pb2.KafkaAddress, before: spec_pb2.KafkaAddress = NOTHING) -> list[tuple[str, str]]:
    return [
        (violation.field, violation.reason) for violation in kafka.check_registration("kafka", value, before)
    ]


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_not_listed_is_refused(name: str) -> None:
    plain = spec_pb2.KafkaAddress(bootstrap_servers="h:1", properties={name: "/etc/passwd"})
    secret = spec_pb2.KafkaAddress(
        bootstrap_servers="h:1", secret_properties={name: spec_pb2.SecretRef(env="A")}
    )

    assert said(plain) == [(f'kafka.properties["{name}"]', "FORBIDDEN_PROPERTY")]
    assert said(secret) == [(f'kafka.secret_properties["{name}"]', "FORBIDDEN_PROPERTY")]


def test_a_cluster_keeps_what_it_was_registered_with_before_there_was_a_list() -> None:
    asked = address(offset_store_path="/var", offset_store_method="file")

    assert said(asked, before=address(offset_store_path="/var")) == [
        ('kafka.properties["offset.store.method"]', "FORBIDDEN_PROPERTY")
    ]


def test_no_cluster_keeps_what_loads_code() -> None:
    asked = address(plugin_library_paths="/tmp/evil.so")

    assert said(asked, before=asked) == [('kafka.properties["plugin.library.paths"]', "FORBIDDEN_PROPERTY")]


def test_a_property_that_is_misspelt_is_answered_with_the_one_that_is_meant() -> None:
    wrong = list(kafka.check_registration("kafka", address(security_protcol="SSL"), NOTHING))

    assert [each.suggestion for each in wrong] == ["security.protocol"]


def test_only_what_is_the_administrators_reads_files_calls_addresses_or_tells_secrets() -> None:
    ends = (".location", ".file", ".keytab", ".url", ".path", ".paths", ".cmd", ".authentication.type")
    reaching = {name for name in LISTED if name.endswith(ends) or name in ("debug", "log_level")}

    assert reaching <= ADMINISTRATORS
    assert len(reaching) > 10
