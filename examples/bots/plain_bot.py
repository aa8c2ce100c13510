"""A bot on the control topic, with aiokafka: tells who runs, stops what FAILED three times.

    .venv/bin/python examples/bots/plain_bot.py 127.0.0.1:9092 127.0.0.1:50051 administrator.token

The words are Kafka, the gateway, and the file with the token that it asks for.

It folds the whole topic at every start, so it keeps no state: `fleet.Fleet` drops repeats and stale words.
Its request names the record that led to it and the version it saw: sent again it is the same request, and it
is refused (ABORTED) when somebody has changed or started the dagger since.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from daggers.v1 import events_pb2, gateway_pb2

from daggerclient import Client, ClientError
from eventlog import read_record
from fleet import Dagger, Fleet

PARTITION = TopicPartition("daggers.control", 0)


async def main(kafka: str, gateway: str, token_file: str) -> None:
    """Follow the topic for ever."""
    fleet, failures = Fleet(), Counter[str]()
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, group_id=None, enable_auto_commit=False)
    async with consumer:
        consumer.assign([PARTITION])
        await consumer.seek_to_beginning(PARTITION)
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        async for message in consumer:
            record = read_record(message.offset, message.headers, message.value)
            applied = fleet.apply(record)
            dagger = fleet.daggers.get(applied.subject)
            match record.message:
                case events_pb2.Running() if dagger and applied.changed and message.offset >= end:
                    print(f"{dagger.name} is RUNNING", flush=True)  # noqa: T201 - what it is for
                case events_pb2.DaggerRequested() if dagger and applied.changed:
                    failures.pop(dagger.name, None)  # a new revision begins anew
                case events_pb2.Failed() if dagger and applied.changed:
                    failures[dagger.name] += 1
                    if failures[dagger.name] == 3:
                        await asyncio.to_thread(stop, gateway, token_file, dagger, record.id)


def stop(gateway: str, token_file: str, dagger: Dagger, because: str) -> None:
    """Ask the gateway to stop a dagger; says what came of it."""
    request = gateway_pb2.StopDaggerRequest(name=dagger.name, expected_version=dagger.version)
    request.request_id = f"three-failures-{because}"
    try:
        with Client(gateway, token_file=Path(token_file)) as client:
            client.call(client.daggers.StopDagger, request)
        print(f"{dagger.name} FAILED three times: stopped", flush=True)  # noqa: T201
    except ClientError as error:
        print(f"{dagger.name} FAILED three times: {error.message}", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
