"""How a Kafka is reached, told by settings, for every client there is."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from kafkaclient import Connection, SecretUnreadable
from kafkaclient.errors import is_refusal, sentence, underlying
from kafkaclient.settings import KafkaSettings

ROOT = Path(__file__).parents[3]
CANARY = "canary-1f3a"


class ServiceKafka(KafkaSettings):
    """A service's."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_TOLD_")


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(f"{CANARY}\n")
    return file


def test_without_settings_a_client_is_told_the_addresses_and_nothing_else() -> None:
    plain = ServiceKafka(kafka_bootstrap_servers="a:1,b:2").kafka()

    assert plain.aiokafka() == {"bootstrap_servers": "a:1,b:2"}
    assert plain.librdkafka() == {"bootstrap.servers": "a:1,b:2"}
    assert plain.address() == spec_pb2.KafkaAddress(bootstrap_servers="a:1,b:2")


def test_a_mechanism_is_read_from_its_variable(password: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "DAGGERS_TOLD_KAFKA_BOOTSTRAP_SERVERS": "a:1",
        "DAGGERS_TOLD_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "DAGGERS_TOLD_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
        "DAGGERS_TOLD_KAFKA_SASL_USERNAME": "me",
        "DAGGERS_TOLD_KAFKA_SASL_PASSWORD_FILE": str(password),
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    assert ServiceKafka().kafka().librdkafka()["sasl.mechanism"] == "SCRAM-SHA-512"  # type: ignore[call-arg] # from the environment


def test_both_kinds_of_client_log_in_as_the_settings_say(password: Path) -> None:
    told = ServiceKafka(
        kafka_bootstrap_servers="a:1",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-256",
        kafka_sasl_username="me",
        kafka_sasl_password_file=password,
    )
    asyncio_client = told.kafka().aiokafka()

    assert isinstance(asyncio_client.pop("ssl_context"), ssl.SSLContext)
    assert asyncio_client == {
        "bootstrap_servers": "a:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": CANARY,
    }
    assert told.kafka().librdkafka() == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": CANARY,
    }


def test_a_job_is_told_where_the_password_is_and_not_what_it_is(password: Path) -> None:
    connection = Connection("a:1", "SASL_PLAINTEXT", sasl_username="me", sasl_password_file=password)
    address = connection.address()

    assert address.secret_properties["sasl.password"].file == str(password)
    assert CANARY not in f"{address} {connection!r}"


def test_files_of_tls_go_by_their_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told = ServiceKafka(
        kafka_bootstrap_servers="a:1",
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_username="me",
        kafka_sasl_password_file=Path("password"),
    )

    assert told.kafka().sasl_password_file == password


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"kafka_security_protocol": "SASL_SSL"},
            "logs in: set DAGGERS_TOLD_KAFKA_SASL_USERNAME, DAGGERS_TOLD_KAFKA_SASL_PASSWORD_FILE",
        ),
        (
            {"kafka_ssl_cert_file": __file__},
            "DAGGERS_TOLD_KAFKA_SSL_CERT_FILE and DAGGERS_TOLD_KAFKA_SSL_KEY_FILE go together",
        ),
        (
            {"kafka_security_protocol": "SSL", "kafka_ssl_ca_file": __file__},
            "DAGGERS_TOLD_KAFKA_SSL_CA_FILE: .* cannot be used",
        ),
        (
            {
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_username": "me",
                "kafka_sasl_password_file": "/dev/null",
            },
            "does not point to a file",
        ),
        ({"kafka_security_protocol": "TLS"}, "SASL_SSL"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ServiceKafka.model_validate({"kafka_bootstrap_servers": "a:1", **fields})


def test_a_password_that_cannot_be_read_later_is_said_with_its_setting(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    connection = Connection("a:1", "SASL_SSL", sasl_username="me", sasl_password_file=gone, prefix="K_")

    with pytest.raises(SecretUnreadable) as raised:
        connection.aiokafka()

    assert sentence(connection, raised.value) == (
        f"K_SASL_PASSWORD_FILE: {gone} cannot be read: No such file or directory"
    )


async def test_a_kafka_that_is_not_there_does_not_answer(unused_tcp_port: int) -> None:
    connection = Connection(f"127.0.0.1:{unused_tcp_port}", "SSL")

    error = await underlying(connection, OSError())

    assert "does not answer: ConnectionRefusedError" in sentence(connection, error)
    assert not is_refusal(error)


def test_nobody_else_writes_how_a_client_is_configured() -> None:
    properties = r"""["'](bootstrap\.servers|security\.protocol|sasl\.\w+|ssl\.\w+)["']:"""
    arguments = r"""\b(bootstrap_servers|security_protocol|sasl_plain_\w+|ssl_context)="""
    names = re.compile(f"{properties}|{arguments}")
    addresses = re.compile(r"KafkaAddress\(bootstrap_servers=|faust\.SASLCredentials|ssl_context=context,")
    sources = [
        *ROOT.glob("libs/*/src"),
        *ROOT.glob("services/*/src"),
        ROOT / "cli/src",
        ROOT / "devstack/src",
    ]
    elsewhere = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for folder in sources
        if folder.parent.name != "kafka"
        for file in folder.rglob("*.py")
        for line in file.read_text().splitlines()
        if names.search(line) and not addresses.search(line)
    ]

    assert elsewhere == []


def test_importing_the_connection_loads_no_client() -> None:
    script = "import sys, kafkaclient; print({'aiokafka', 'confluent_kafka'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "set()"
