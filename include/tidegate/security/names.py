"""Which properties the extra of a `kafka` connection may hold, whose they are, and why others are refused.

Both Java's names and librdkafka's are known, as the Kafka provider of Airflow takes the latter. Sources: the
configuration classes of Apache Kafka 4.1's clients, CONFIGURATION.md of librdkafka 2.16.
"""

from collections.abc import Mapping

from tidegate.config.consumer_properties import REFUSED
from tidegate.config.property_table import CONSUMER

_NO_JAVA = "names a Java class, and no Java runs in the client: remove it"
_JAVA_TLS = "configures Java's own TLS, and OpenSSL speaks TLS here: remove it"
_NO_COUNTERPART = "has no counterpart in this client: remove it"
_OF_BROKERS = "is for whoever validates tokens, which is the broker: remove it"
_NATIVE_CODE = "loads code into the client, of which the delivery promise knows nothing: remove it"
_NO_TEXT = "can't be given as text: remove it"
_CALLBACK = "names Python code: remove it"

TAKEN = frozenset(
    {
        # where the brokers are, and how they are spoken to
        *("bootstrap.servers", "metadata.broker.list", "client.id", "client.rack", "client.dns.lookup"),
        *("broker.address.family", "broker.address.ttl", "socket.keepalive.enable", "socket.max.fails"),
        *("socket.nagle.disable", "enable.metrics.push", "broker.version.fallback"),
        *("api.version.request", "api.version.request.timeout.ms", "api.version.fallback.ms", "security.protocol"),
        # what the client logs
        *("debug", "log_level", "log.thread.name", "log.connection.close"),
    }
)
"""What a connection gives besides credentials, under librdkafka's names."""

TLS = frozenset(
    {
        *("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates"),
        *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key"),
        *("ssl.keystore.certificate.chain", "ssl.key.password", "ssl.protocol", "ssl.enabled.protocols"),
        *("ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification"),
        *("ssl.ca.location", "ssl.ca.pem", "ssl.ca.certificate.stores", "ssl.certificate.location"),
        *("ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.crl.location", "ssl.curves.list"),
        *("ssl.sigalgs.list", "ssl.providers", "ssl.engine.id", "ssl.engine.location"),
    }
)
"""See `tidegate.security.tls`."""

SASL = frozenset(
    {
        *("sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username", "sasl.password"),
        *("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.kinit.cmd"),
        *("sasl.kerberos.keytab", "sasl.kerberos.min.time.before.relogin", "enable.sasl.oauthbearer.unsecure.jwt"),
        *("sasl.oauthbearer.method", "sasl.oauthbearer.config", "sasl.oauthbearer.client.id"),
        *("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.secret"),
        *("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope"),
        *("sasl.oauthbearer.extensions", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.sub.claim.name"),
        *("sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type"),
        *("sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.private.key.file"),
        *("sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem"),
        *("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.claim.aud"),
        *("sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss"),
        *("sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds"),
        *("sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.jwt.template.file"),
        *("sasl.oauthbearer.assertion.template.file", "https.ca.location", "https.ca.pem"),
    }
)
"""See `tidegate.security.sasl`."""

NOT_TAKEN: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("sasl.client.callback.handler.class", "sasl.login.class", "sasl.login.callback.handler.class"),
            *("sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class"),
            *("ssl.engine.factory.class", "security.providers", "metric.reporters", "interceptor.classes"),
            *("config.providers", "partitioner.class"),
        ),
        _NO_JAVA,
    ),
    "sasl.login.callback.handler.class": f"{_NO_JAVA}; for OAUTHBEARER, set sasl.oauthbearer.method to oidc",
    **dict.fromkeys(
        (
            *("ssl.provider", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"),
            "ssl.secure.random.implementation",
        ),
        _JAVA_TLS,
    ),
    **dict.fromkeys(
        (
            *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
            *("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds"),
            *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor"),
            *("sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"),
            *("sasl.oauthbearer.header.urlencode", "bootstrap.controllers"),
        ),
        _NO_COUNTERPART,
    ),
    **dict.fromkeys(
        (
            *("sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience"),
            *("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.scope.claim.name"),
            *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            *("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        ),
        _OF_BROKERS,
    ),
    **dict.fromkeys(("plugin.library.paths", "interceptors"), _NATIVE_CODE),
    **dict.fromkeys(
        (
            *("ssl_key", "ssl_certificate", "ssl_ca", "ssl_engine_callback_data", "opaque", "default_topic_conf"),
            *("msg_order_cmp", "enabled_events", "builtin.features", "log.queue", "internal.termination.signal"),
        ),
        _NO_TEXT,
    ),
    **dict.fromkeys(
        (
            *("error_cb", "throttle_cb", "stats_cb", "log_cb", "background_event_cb", "socket_cb", "connect_cb"),
            *("closesocket_cb", "open_cb", "resolve_cb", "ssl.certificate.verify_cb", "consume_cb", "rebalance_cb"),
            *("oauthbearer_token_refresh_cb", "offset_commit_cb", "dr_cb", "dr_msg_cb", "partitioner_cb", "oauth_cb"),
        ),
        _CALLBACK,
    ),
}
"""Known names that can't be given, each with the reason, to be read after the name."""

_TUNING = frozenset(
    {
        *("message.max.bytes", "message.copy.max.bytes", "receive.message.max.bytes"),
        "topic.metadata.refresh.interval.ms",
        *("topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.fast.cnt", "topic.blacklist"),
        *("topic.metadata.refresh.sparse", "topic.metadata.propagation.max.ms", "socket.timeout.ms"),
        *("socket.blocking.max.ms", "socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
        *("reconnect.backoff.jitter.ms", "statistics.interval.ms", "enable.random.seed", "group.protocol.type"),
        *("coordinator.query.interval.ms", "enable.auto.offset.store", "queued.min.messages"),
        *("queued.max.messages.kbytes", "fetch.wait.max.ms", "fetch.queue.backoff.ms", "fetch.message.max.bytes"),
        *("fetch.error.backoff.ms", "offset.store.method", "enable.partition.eof", "share.acknowledgement.mode"),
        *("auto.commit.enable", "offset.store.path", "offset.store.sync.interval.ms"),
        *("consume.callback.max.messages", "internal.throw.on.fetch.stable.offset.unsupported"),
    }
)
_OF_PRODUCERS = frozenset(
    {
        *("acks", "request.required.acks", "batch.size", "batch.num.messages", "buffer.memory", "compression.codec"),
        *("compression.type", "compression.level", "compression.gzip.level", "compression.lz4.level"),
        *("compression.zstd.level", "delivery.timeout.ms", "message.timeout.ms", "delivery.report.only.error"),
        *("enable.idempotence", "enable.gapless.guarantee", "key.serializer", "value.serializer", "linger.ms"),
        *("max.block.ms", "max.in.flight", "max.in.flight.requests.per.connection", "max.request.size"),
        *("message.send.max.retries", "retries", "metadata.max.idle.ms", "partitioner"),
        *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
        *("partitioner.ignore.keys", "produce.offset.report", "queue.buffering.backpressure.threshold"),
        *("queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms"),
        *("queuing.strategy", "sticky.partitioning.linger.ms", "transaction.timeout.ms", "transactional.id"),
        "transaction.two.phase.commit.enable",
    }
)

_CREDENTIALS = TAKEN | TLS | SASL
LEFT = ((CONSUMER.keys() | REFUSED.keys()) | _TUNING | _OF_PRODUCERS) - _CREDENTIALS - NOT_TAKEN.keys()
"""What other users of the connection may want there: here it is a definition's to say, or Tidegate's own."""

KNOWN = _CREDENTIALS | LEFT | NOT_TAKEN.keys()
