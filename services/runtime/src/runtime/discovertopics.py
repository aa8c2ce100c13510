"""Find topics and the messages that their records may be: `python -m runtime.discovertopics --examples N`.

Its standard input is a JobSpec: the Kafka of its first stream, the topics to sample (none: all) and the
message to look for (none: all that the descriptors define). Frames on standard output:

    S  DiscoverTopicsResponse   progress, and the next topics
    E  DaggerError              why there are no more
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Final, TypeAlias, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public, but not by its __all__
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf import message, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggerspec import topics as own
from daggerspec.limits import SAMPLED_RECORDS
from kafkaclient.tail import bounds
from runtime import framed
from runtime.clients import kafka
from runtime.decode import fit
from runtime.decode.decoder import find_message, message_pool
from runtime.samplestream import MAX_JSON, READING, Newest, content, missing, newest_of, rate

PATIENCE_S: Final = 40.0
MAX_TOPICS: Final = 500
_METADATA_S: Final = 5.0
_Kinds: TypeAlias = Sequence[type[message.Message]]
_Step: TypeAlias = gateway_pb2.DiscoverTopicsResponse


def main() -> int:
    """Read and write frames; return 0."""
    parser = argparse.ArgumentParser(prog="python -m runtime.discovertopics")
    parser.add_argument("--examples", type=int, default=1)
    examples = parser.parse_args().examples
    return framed.answer_job("topics", spec_pb2.JobSpec, partial(_discover_topics, examples=examples))


def _discover_topics(job: spec_pb2.JobSpec, examples: int) -> Iterator[_Step]:
    stream = job.streams[0]
    return discover(stream, messages(job.descriptors, stream.stream.message), examples=examples)


def messages(files: FileDescriptorSet, name: str) -> list[type[message.Message]]:
    """Return the class of this message; without a name all that the files define, but Google's own."""
    pool = message_pool(files)
    prefixed = ((f"{file.package}." if file.package else "", file) for file in files.file)
    names = (
        [name]
        if name
        else [
            before + message_type.name
            for before, file in prefixed
            if not before.startswith("google.protobuf.")
            for message_type in file.message_type
        ]
    )
    return [message_factory.GetMessageClass(find_message(pool, name)) for name in names]


def discover(
    stream: spec_pb2.ResolvedStream,
    kinds: _Kinds,
    now: Callable[[], float] = time.time,
    examples: int = 1,
) -> Iterator[_Step]:
    """Yield topics, those written to last first, with the progress.

    A requested message is also measured where it fits badly. What is cut after MAX_TOPICS or PATIENCE_S
    are the topics that were quiet for longest.

    examples: records that are shown of the message that fits best; one of others. Raises: JobError.
    """
    deadline = time.monotonic() + PATIENCE_S
    judge = partial(_fit, kind=kinds[0]) if stream.stream.message else partial(fit.best, kinds=kinds)
    with (
        closing(kafka.consumer(stream.kafka, "daggers-discover", READING)) as consumer,
        kafka.mapping_errors(stream.kafka),
    ):
        there = consumer.list_topics(timeout=_METADATA_S).topics
        requested = list(dict.fromkeys(stream.stream.topics))
        public = [name for name in requested or there if name in there and not _is_internal(name)]
        admin = kafka.client(AdminClient, kafka.client_properties(stream.kafka))
        names = _sort_by_activity(admin, {name: there[name].partitions for name in public})
        retentions = _retentions(admin, names[:MAX_TOPICS])
        yield _Step(topics_total=len(names), missing_topics=missing(requested, there))
        for number, name in enumerate(names):
            if number == MAX_TOPICS or time.monotonic() > deadline:
                left = f"{len(names) - number} topics were not looked into: name some of them"
                yield _Step(cut=left, topics_read=number, topics_total=len(names))
                return
            topic, values = _sample(consumer, name, sorted(there[name].partitions), now())
            fits = judge(values) if values else []
            topic.fits.extend(
                _describe_fit(candidate, values, 1 if rank else examples)
                for rank, candidate in enumerate(fits)
            )
            if name in retentions:
                topic.retention.FromMilliseconds(retentions[name])
            yield _Step(topics=[topic], topics_read=number + 1, topics_total=len(names))


def _is_internal(topic: str) -> bool:
    """Tell whether a topic is one of the platform's or of Kafka's own."""
    return own.is_platform(topic) or topic in own.INTERNAL


def _sample(
    consumer: Consumer, name: str, partitions: Sequence[int], now: float
) -> tuple[gateway_pb2.DiscoveredTopic, list[bytes]]:
    """Measure a topic, and return the values of its newest records, the newest first."""
    begun = time.monotonic()
    offsets = {
        (name, partition): bounds(consumer, TopicPartition(name, partition)) for partition in partitions
    }
    recent = rate(consumer, offsets, now)
    newest = Newest(SAMPLED_RECORDS)
    for _ in newest_of(consumer, offsets, newest, begun):
        pass
    values = [value for record in newest.records() if (value := record.value())]
    topic = gateway_pb2.DiscoveredTopic(
        topic=name,
        partitions=len(partitions),
        offsets=sum(high - low for low, high in offsets.values()),
        records_per_second=recent,
        sampled=len(values),
    )
    return topic, values


def _fit(values: Sequence[bytes], kind: type[message.Message]) -> list[fit.Fit]:
    return [fit.fit(values, kind)]


def _describe_fit(fits: fit.Fit, values: Sequence[bytes], most: int) -> gateway_pb2.MessageFit:
    """Build a fit with its newest records, `most` at most, together no longer than one record may be."""
    texts, room = list[str](), MAX_JSON
    for text in filter(None, (content(value, fits.kind)[0] for value in values)):
        room -= len(text)
        if len(texts) == most or (texts and room < 0):
            break
        texts.append(text)
    return gateway_pb2.MessageFit(
        message=fits.name,
        score=fits.score,
        coverage=fits.coverage,
        example=texts[0] if texts else "",
        earlier_examples=texts[1:],
        problem=fits.problem,
    )


def _sort_by_activity(admin: AdminClient, topics: Mapping[str, Iterable[int]]) -> list[str]:
    """Sort topics by their newest record, the newest first, by name where that is not known."""
    partitions = [TopicPartition(name, partition) for name in topics for partition in topics[name]]
    newest = dict.fromkeys(topics, -1)
    last = cast(OffsetSpec, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call] # a method of its own
    answers = (
        admin.list_offsets(dict.fromkeys(partitions, last), request_timeout=_METADATA_S) if partitions else {}
    )
    for partition, answer in answers.items():
        with suppress(KafkaException, TimeoutError):
            newest[partition.topic] = max(newest[partition.topic], answer.result(_METADATA_S).timestamp)
    return sorted(topics, key=lambda name: (-newest[name], name))


def _retentions(admin: AdminClient, names: Sequence[str]) -> dict[str, int]:
    """Return how long topics keep records, in ms, without those that keep them for ever or do not say."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    retentions = {}
    for resource, answer in (
        admin.describe_configs(resources, request_timeout=_METADATA_S).items() if resources else ()
    ):
        try:
            settings = answer.result(_METADATA_S)
        except (KafkaException, TimeoutError):
            continue  # who may read a topic need not see its settings
        deletes = "delete" in settings["cleanup.policy"].value
        retention_ms = int(settings["retention.ms"].value) if deletes else -1
        if retention_ms >= 0:
            retentions[resource.name] = retention_ms
    return retentions


if __name__ == "__main__":
    sys.exit(main())
