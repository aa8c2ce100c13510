"""The embedded Kafka: one KRaft node, broker and controller in one process."""

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chassis.files import make_private, replace_text
from cli.errors import RefusedError
from devstack import ports
from devstack.state import Stack
from devstack.tools.install import Tools
from kafkaclient import Connection

HEAP = "512m"
# Old records stay: replaying last year's events is a normal thing to do with a local stack, and a broker
# that deletes by the records' own timestamps would remove them within minutes.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{kafka},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{kafka}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
# Relative to the working directory: Kafka takes it for a list with commas, in Latin-1.
log.dirs={data}
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


def prepare(stack: Stack, tools: Tools) -> None:
    """Write the configuration, and format the storage if this is the first start."""
    home = make_private(folder(stack))
    replace_text(home / "log4j2.properties", LOGGING, private=True)
    data = home / "data"
    if not data.is_dir():
        _format(stack, tools, home)
    replace_text(home / "server.properties", PROPERTIES.format(**stack.ports, data=data.name), private=True)


def folder(stack: Stack) -> Path:
    """Return the folder where the broker works, and its data is."""
    return stack.state_dir / "kafka"


def command(stack: Stack, tools: Tools) -> list[str]:
    """Return the broker's command line, for its folder."""
    home = folder(stack)
    return [
        str(tools.java_home / "bin" / "java"),
        f"-Xmx{HEAP}", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}",
        "-cp", f"{tools.kafka_jars}/*", "kafka.Kafka", str(home / "server.properties"),
    ]  # fmt: skip


def ready(stack: Stack) -> bool:
    """Tell whether the broker answers as the leader of its cluster."""
    if not ports.is_open(stack.ports["kafka"]):
        return False
    try:
        metadata = AdminClient(Connection(stack.kafka).librdkafka() | {"log_level": 0}).list_topics(timeout=5)
    except KafkaException:
        return False
    return len(metadata.brokers) == 1


def _format(stack: Stack, tools: Tools, home: Path) -> None:
    """Give the storage its cluster id; an interrupted attempt leaves nothing under the final name."""
    part = home / "data.part"
    shutil.rmtree(part, ignore_errors=True)
    config = home / "format.properties"
    replace_text(config, PROPERTIES.format(**stack.ports, data=part.name), private=True)
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    done = subprocess.run(
        [tools.java_home / "bin" / "java", "-XX:TieredStopAtLevel=1", "-cp", f"{tools.kafka_jars}/*",
         f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}",
         "kafka.tools.StorageTool", "format", "-t", f"d{cluster_id[1:]}", "-c", config],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=home,
    )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RefusedError(f"Kafka's storage in {home} could not be formatted: {' '.join(last)}")
    part.rename(home / "data")
