"""The properties that a cluster may set are those of the librdkafka that drivers have."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from daggerspec.kafka_properties import LISTED


def known(name: str) -> bool:
    """Whether librdkafka has a property of this name, whatever it takes."""
    try:
        Producer({name: "?"})
    except KafkaException as refused:
        return "No such configuration property" not in str(refused)
    return True


@pytest.mark.parametrize("name", sorted(LISTED))
def test_a_property_that_is_listed_is_one(name: str) -> None:
    assert known(name)


def test_a_property_that_librdkafka_does_not_have_is_found_out() -> None:
    assert not known("no.such.property")
