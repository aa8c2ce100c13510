"""The platform's own Kafka, as its settings say how to reach it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from daggers.v1 import spec_pb2

from kafkaclient.address import librdkafka

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_PASSWORD: Final = "sasl.password"  # noqa: S105 - the name of a property


class SecretUnreadable(OSError):  # noqa: N818 - reads as what is wrong
    """A file that a setting names cannot be used. Names both, never what is in it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Addresses of a Kafka, and our login there. Holds no secret: files are read when a client is made."""

    bootstrap_servers: str
    """Comma-separated host:port."""
    security_protocol: Protocol = "PLAINTEXT"
    sasl_mechanism: Mechanism = "PLAIN"
    sasl_username: str = ""
    sasl_password_file: Path | None = None
    ssl_ca_file: Path | None = None
    """PEM; the system's authorities when None."""
    ssl_cert_file: Path | None = None
    ssl_key_file: Path | None = None
    prefix: str = "KAFKA_"
    """Prefix of these settings' names in messages."""

    @property
    def encrypted(self) -> bool:
        """Tell whether connections use TLS."""
        return self.security_protocol.endswith("SSL")

    @property
    def authenticated(self) -> bool:
        """Tell whether connections log in by SASL."""
        return self.security_protocol.startswith("SASL_")

    def setting(self, name: str) -> str:
        """Return the environment variable that sets the field `name`, for messages."""
        return f"{self.prefix}{name}".upper()

    def password(self) -> str:
        """Read the SASL password, trailing white space dropped. Raises: SecretUnreadable."""
        file, setting = self.sasl_password_file, self.setting("sasl_password_file")
        try:
            password = file.read_text(encoding="utf-8").rstrip() if file else ""
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise SecretUnreadable(f"{setting}: {file} cannot be read: {why}") from None
        if not password:
            raise SecretUnreadable(f"{setting}: there is nothing in {file}")
        return password

    def ssl_context(self) -> ssl.SSLContext | None:
        """Build the TLS context of a client; None without TLS. Raises: SecretUnreadable."""
        if not self.encrypted:
            return None
        file, name = self.ssl_ca_file, "ssl_ca_file"
        try:
            context = ssl.create_default_context(cafile=file)
            if self.ssl_cert_file is not None:
                file, name = self.ssl_cert_file, "ssl_cert_file"
                context.load_cert_chain(self.ssl_cert_file, self.ssl_key_file)
        except OSError as error:  # ssl's own errors, too
            why = error.strerror or type(error).__name__
            raise SecretUnreadable(f"{self.setting(name)}: {file} cannot be used: {why}") from None
        return context

    def aiokafka(self) -> dict[str, Any]:
        """Build the options of any client of aiokafka: never log what this returns.

        Raises: SecretUnreadable.
        """
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        if self.security_protocol != "PLAINTEXT":
            options |= {"security_protocol": self.security_protocol, "ssl_context": self.ssl_context()}
        if self.authenticated:
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.password(),
            }
        return options

    def address(self) -> spec_pb2.KafkaAddress:
        """Build the address for a driver's job: the password stays in its file, which the driver reads."""
        address = spec_pb2.KafkaAddress(bootstrap_servers=self.bootstrap_servers)
        if self.security_protocol != "PLAINTEXT":
            address.properties["security.protocol"] = self.security_protocol
        if self.authenticated:
            address.properties["sasl.mechanism"] = self.sasl_mechanism
            address.properties["sasl.username"] = self.sasl_username
            address.secret_properties[_PASSWORD].file = str(self.sasl_password_file)
        files = {
            "ssl.ca.location": self.ssl_ca_file,
            "ssl.certificate.location": self.ssl_cert_file,
            "ssl.key.location": self.ssl_key_file,
        }
        for name, file in files.items():
            if self.encrypted and file is not None:
                address.properties[name] = str(file)
        return address

    def librdkafka(self) -> dict[str, str]:
        """Build the properties of any client of librdkafka: never log what this returns.

        Raises: SecretUnreadable.
        """
        return librdkafka(self.address(), lambda _: self.password())
