"""The client properties of librdkafka that a cluster may be registered with: these, and no other.

What is not here is no property, is Daggers' own to set, or does more than connect: it loads code, starts a
program, makes brokers up. Clusters are registered by administrators, who alone may name files and URLs.
"""

from __future__ import annotations

from typing import Final

_CONNECTING: Final = """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms broker.address.family
    broker.address.ttl broker.version.fallback client.dns.lookup client.id client.rack connections.max.idle.ms
    enable.metrics.push log.connection.close metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metadata.request.timeout.ms reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
"""
_TRUSTING: Final = """
    enable.sasl.oauthbearer.unsecure.jwt sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism sasl.mechanisms
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.password sasl.username security.protocol
    ssl.ca.certificate.stores ssl.ca.pem ssl.certificate.pem ssl.cipher.suites ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.key.password ssl.key.pem ssl.keystore.password
    ssl.sigalgs.list https.ca.pem
"""
_READING: Final = """
    allow.auto.create.topics check.crcs fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes
    fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.instance.id group.protocol
    group.protocol.type group.remote.assignor heartbeat.interval.ms isolation.level
    max.partition.fetch.bytes max.poll.interval.ms message.copy.max.bytes partition.assignment.strategy
    queued.max.messages.kbytes queued.min.messages receive.message.max.bytes session.timeout.ms
"""
_WRITING: Final = """
    acks batch.num.messages batch.size compression.codec compression.level compression.type
    delivery.timeout.ms enable.gapless.guarantee enable.idempotence linger.ms max.in.flight
    max.in.flight.requests.per.connection message.max.bytes message.send.max.retries message.timeout.ms
    partitioner queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms queuing.strategy request.required.acks
    request.timeout.ms retries sticky.partitioning.linger.ms transaction.timeout.ms
"""
_ADMINISTRATORS: Final = """
    debug enable.ssl.certificate.verification https.ca.location log_level sasl.kerberos.keytab
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.metadata.authentication.type
    sasl.oauthbearer.token.endpoint.url ssl.ca.location ssl.certificate.location ssl.crl.location
    ssl.key.location ssl.keystore.location statistics.interval.ms
"""

ADMINISTRATORS: Final = frozenset(_ADMINISTRATORS.split())
"""Those that read files, call other addresses, or say in a log what is secret."""
LISTED: Final = ADMINISTRATORS.union(
    *(names.split() for names in (_CONNECTING, _TRUSTING, _READING, _WRITING))
)
