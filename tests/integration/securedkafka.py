"""A broker that takes nothing but SASL over TLS, with a certificate of its own, and who we are to it.

Further users log in by SCRAM-SHA-256, as somebody says while it runs; each has to show its password again
after a second.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devstack import ports
from devstack.tools import java, kafka
from kafkaclient import Connection

USER = "daggers"
PASSWORD = f"canary-{uuid.uuid4().hex}"
DEADLINE_S = 60
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=SASL_SSL://127.0.0.1:{kafka},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=SASL_SSL://127.0.0.1:{kafka}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms=1000
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{user}" password="{password}" user_{user}="{password}";
ssl.keystore.location={folder}/server.p12
ssl.keystore.password=changeit
ssl.keystore.type=PKCS12
ssl.truststore.location={folder}/server.p12
ssl.truststore.password=changeit
ssl.truststore.type=PKCS12
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def secured(folder: Path, settings: str = "") -> Iterator[Connection]:
    """The broker while the context is open; `settings` are further lines of its properties."""
    home = java.system_home(None)
    assert home is not None, "no Java"
    certificate(home, folder)
    (folder / "password").write_text(f"{PASSWORD}\n")
    chosen = ports.choose(("kafka", "controller"), {})
    properties = folder / "server.properties"
    own = PROPERTIES.format(**chosen, folder=folder, user=USER, password=PASSWORD)
    properties.write_text(f"{own}{settings}")
    jars = Path(sys.prefix) / "share" / "daggers" / kafka.NAME
    run = [str(home / "bin" / "java"), "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    run += ["-cp", f"{jars}/*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = ["kafka.tools.StorageTool", "format", "-t", f"d{cluster_id[1:]}", "-c", str(properties)]
    subprocess.run([*run, *tool], check=True, capture_output=True, timeout=DEADLINE_S)
    with (folder / "broker.log").open("wb") as log:
        broker = subprocess.Popen([*run, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        try:
            end = time.monotonic() + DEADLINE_S
            while not ports.is_open(chosen["kafka"]):
                assert broker.poll() is None, (folder / "broker.log").read_text()
                assert time.monotonic() < end, (folder / "broker.log").read_text()
                time.sleep(0.1)
            yield Connection(
                f"127.0.0.1:{chosen['kafka']}",
                "SASL_SSL",
                sasl_username=USER,
                sasl_password_file=folder / "password",
                ssl_ca_file=folder / "ca.pem",
            )
        finally:
            broker.kill()
            broker.wait(DEADLINE_S)


def certificate(java_home: Path, folder: Path) -> None:
    """A key and a certificate for 127.0.0.1 that signs itself: `server.p12`, and `ca.pem` for clients."""
    keytool, store = str(java_home / "bin" / "keytool"), str(folder / "server.p12")
    about = ["-alias", "broker", "-keystore", store, "-storepass", "changeit"]
    made = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=localhost"]
    made += ["-ext", "san=ip:127.0.0.1,dns:localhost", "-ext", "bc:c", "-validity", "2"]
    subprocess.run([keytool, *made, *about, "-storetype", "PKCS12"], check=True, capture_output=True)
    shown = [keytool, "-exportcert", "-rfc", *about, "-file", str(folder / "ca.pem")]
    subprocess.run(shown, check=True, capture_output=True)


def environment(prefix: str, connection: Connection) -> dict[str, str]:
    """The settings of a service, whose names begin with `prefix`, that lead to this Kafka."""
    return {
        f"{prefix}KAFKA_BOOTSTRAP_SERVERS": connection.bootstrap_servers,
        f"{prefix}KAFKA_SECURITY_PROTOCOL": connection.security_protocol,
        f"{prefix}KAFKA_SASL_USERNAME": connection.sasl_username,
        f"{prefix}KAFKA_SASL_PASSWORD_FILE": str(connection.sasl_password_file),
        f"{prefix}KAFKA_SSL_CA_FILE": str(connection.ssl_ca_file),
    }


@contextmanager
def services(folder: Path, kafka: Connection, **gateway: str) -> Iterator[int]:
    """Gateway, scheduler and monitor while the context is open; the gateway's port.

    gateway: more settings of the gateway, without their prefix.
    """
    port = ports.choose(("gateway",), {})["gateway"]
    own = {
        "api_gateway": environment("DAGGERS_GATEWAY_", kafka)
        | {
            "DAGGERS_GATEWAY_BIND": f"127.0.0.1:{port}",
            "DAGGERS_GATEWAY_DATABASE_URL": f"sqlite:///{folder}/g.db",
        }
        | {f"DAGGERS_GATEWAY_{name}": value for name, value in gateway.items()},
        "scheduler": environment("DAGGERS_SCHEDULER_", kafka)
        | {"DAGGERS_SCHEDULER_STATE_DIR": str(folder / "state")},
        "health_monitor": environment("DAGGERS_MONITOR_", kafka),
    }
    with ExitStack() as stack:
        for name, told in own.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [sys.executable, "-m", name], env=inherited() | told, stdout=log, stderr=log
            )
            stack.callback(process.wait, DEADLINE_S)
            stack.callback(process.terminate)
        yield port


def inherited() -> dict[str, str]:
    """What a service needs of our own environment."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}  # noqa: TID251
