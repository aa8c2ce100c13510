"""Connections to Kafka, and the configuration of clients made of them. Nobody else writes these names.

`Connection` is the platform's own Kafka, as settings have it; `address.librdkafka` is for any cluster that is
registered. `errors` says why a Kafka does not answer, and `settings` is what a service mixes into its own.
"""

from kafkaclient.connection import Connection, SecretUnreadable

__all__ = ["Connection", "SecretUnreadable"]
