"""Settings of the platform's Kafka: fields that a service mixes into its own."""

from __future__ import annotations

from typing import Self

from pydantic import Field, FilePath, model_validator

from chassis.settings import ServiceSettings, go_together, variable
from kafkaclient.connection import Connection, Mechanism, Protocol, SecretUnreadable


class KafkaLogin(ServiceSettings):
    """Protocol and login of the platform's own Kafka, wherever that is."""

    kafka_security_protocol: Protocol = "PLAINTEXT"
    """Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""

    kafka_sasl_mechanism: Mechanism = "PLAIN"
    """Mechanism of the login: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. For SASL_PLAINTEXT and SASL_SSL."""

    kafka_sasl_username: str = ""
    """Name of the login."""

    kafka_sasl_password_file: FilePath | None = None
    """File that holds the password. Drivers read it, too. After a change, start the service anew."""

    kafka_ssl_ca_file: FilePath | None = None
    """PEM file of the authority that signed the brokers' certificates. Unset: the system's authorities."""

    kafka_ssl_cert_file: FilePath | None = None
    """PEM file of this client's certificate, where the brokers ask for one."""

    kafka_ssl_key_file: FilePath | None = None
    """PEM file of that certificate's private key, without a password."""

    @model_validator(mode="after")
    def _kafka_is_whole(self) -> Self:
        connection = self.at("")
        missing = [
            connection.setting(name)
            for name in ("sasl_username", "sasl_password_file")
            if connection.authenticated and not getattr(connection, name)
        ]
        if missing:
            raise ValueError(
                f"{connection.setting('security_protocol')} {connection.security_protocol} logs in: set"
                f" {', '.join(missing)}"
            )
        go_together(self, "kafka_ssl_cert_file", "kafka_ssl_key_file")
        try:
            connection.aiokafka()
        except SecretUnreadable as error:
            raise ValueError(str(error)) from None
        return self

    def at(self, bootstrap_servers: str) -> Connection:
        """Return the connection to these addresses, with absolute paths of files: drivers read them, too."""
        return Connection(
            bootstrap_servers,
            self.kafka_security_protocol,
            self.kafka_sasl_mechanism,
            self.kafka_sasl_username,
            self.kafka_sasl_password_file and self.kafka_sasl_password_file.absolute(),
            self.kafka_ssl_ca_file and self.kafka_ssl_ca_file.absolute(),
            self.kafka_ssl_cert_file and self.kafka_ssl_cert_file.absolute(),
            self.kafka_ssl_key_file and self.kafka_ssl_key_file.absolute(),
            variable(type(self), "kafka_"),
        )


class KafkaSettings(KafkaLogin):
    """The platform's own Kafka."""

    kafka_bootstrap_servers: str = Field(min_length=1)
    """The platform's Kafka: control topic, heartbeats, alerts, quarantine. Comma-separated host:port."""

    def kafka(self) -> Connection:
        """Return the connection to the platform's Kafka."""
        return self.at(self.kafka_bootstrap_servers)
