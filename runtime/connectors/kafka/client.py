"""Clients of librdkafka, with one-line errors.

Runs in Spark's Python workers. It imports `confluent_kafka`, which the driver need not have.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from runtime.errors import ExecutionError, nearest
from runtime.outages import Outage, Retries

# Timeouts for brokers until their first answer and afterwards, unless `socket.timeout.ms` is set
_FIRST_SECONDS = 5.0
LATER_SECONDS = 60.0
_ONE_CALL = 2.0
# Errors that no retry can resolve
_FINAL = (
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
)
_CREDENTIALS = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
)
# Errors of connections, the one with the best reason first
_AWAY = (KafkaError._RESOLVE, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
_STATE = re.compile(r"\s*\(after \d+ms in state [\w-]+(?:, \d+ identical error\(s\) suppressed)?\)")
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)

Answer = TypeVar("Answer")


class Client:
    """Consumer or producer that records the errors of its brokers.

    Args:
        config: Configuration of librdkafka.
        is_producer: Whether to create a producer.
        retries: Retries of a stream while the brokers are away. None outside of streams.
        table: Table for notes about outages.
        was_reached: Whether the brokers have answered in this run. Until then an address may be
            wrong, and errors are reported soon.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        *,
        is_producer: bool = False,
        retries: Retries | None = None,
        table: str = "",
        was_reached: bool = True,
    ) -> None:
        self._servers = config.get("bootstrap.servers", "")
        self._errors: dict[int, KafkaError] = {}
        self._retries = retries
        self._has_answered = retries is not None and was_reached
        self.outage = Outage(retries, table)
        settings: dict[str, Any] = {
            "log_level": 0,
            **config,
            "error_cb": lambda error: self._errors.update({error.code(): error}),
        }
        if not is_producer:
            settings |= {
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        try:
            self.kafka: Any = Producer(settings) if is_producer else Consumer(settings)
        except KafkaException as error:
            raise ExecutionError(
                f"invalid option 'properties.*' for the Kafka client: {error.args[0].str()}",
                hint="the client is librdkafka; its CONFIGURATION.md lists the properties",
            ) from error
        timeout_ms = config.get("socket.timeout.ms")
        self._timeout_seconds = None if timeout_ms is None else int(timeout_ms) / 1_000

    def ask(self, question: Callable[[float], Answer]) -> Answer:
        """Return the answer to `question`, a function of a timeout, with retries.

        Raises:
            ExecutionError: No answer within the time limit.
        """
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                answer = question(_ONE_CALL)
            except KafkaException as error:
                self.kafka.poll(0)
                self.check(error.args[0], has_time=time.monotonic() < deadline)
                self.outage.goes_on(self._unreachable(error.args[0]))
                time.sleep(0.1)
                continue
            self._has_answered = True
            self.answered()
            return answer

    @property
    def patience_s(self) -> float:
        """Seconds to wait for an answer."""
        if self._retries is not None and self._has_answered:
            return max(_FIRST_SECONDS, self._retries.seconds)
        if self._timeout_seconds is not None:
            return self._timeout_seconds
        return LATER_SECONDS if self._has_answered else _FIRST_SECONDS

    def answered(self) -> None:
        """Record that the brokers answer again."""
        self.outage.is_over()
        for code in _AWAY:
            self._errors.pop(code, None)

    def waits(self) -> None:
        """Record that nothing arrives, which is an outage if the brokers cannot be reached."""
        if any(code in self._errors for code in _AWAY):
            self.outage.goes_on(self._unreachable(None))

    def check(self, error: KafkaError | None, *, has_time: bool) -> None:
        """Raise an error unless a retry may succeed.

        Args:
            error: Error of a call or a message. None if nothing arrived.
            has_time: Whether there is time to retry.
        """
        errors = [] if error is None else [error]
        final = next((e for e in [*errors, *self._errors.values()] if e.code() in _FINAL), None)
        if final is None and has_time:
            return
        self.outage.is_over()
        raise self._error(final or error)

    def _error(self, error: KafkaError | None) -> ExecutionError:
        if error is not None and error.code() in _CREDENTIALS:
            return ExecutionError(
                f"Kafka at {self._servers} rejected the credentials: {plain(error)}",
                hint="check 'properties.sasl.jaas.config', 'properties.sasl.mechanism' and "
                "'properties.security.protocol'",
            )
        if error is not None and error.code() in _FINAL:
            return ExecutionError(
                f"Kafka at {self._servers} rejected the request: {plain(error)}",
                hint="check 'properties.security.protocol', 'properties.ssl.*', and the "
                "user's permissions on the brokers",
            )
        hint = "check 'properties.bootstrap.servers' and 'properties.security.protocol'"
        if self._retries is not None and self._has_answered:
            hint = self._retries.hint
        return ExecutionError(self._unreachable(error), hint=hint)

    def _unreachable(self, error: KafkaError | None) -> str:
        # The reason for a failed connection is more useful than the timeout.
        why = next((self._errors[code] for code in _AWAY if code in self._errors), error)
        return f"Kafka is not reachable at {self._servers}" + (f": {plain(why)}" if why else "")

    def partitions(
        self, topics: tuple[str, ...], pattern: str, seconds: float = 0.0
    ) -> list[tuple[str, int]]:
        """Return (topic, partition) of the topics, or of all topics whose names match a pattern.

        Args:
            topics: Topic names.
            pattern: Regular expression for whole names. Empty to use `topics`.
            seconds: How long to wait for a topic to be created.

        Raises:
            ExecutionError: A topic does not exist, or Kafka does not answer.
        """
        if pattern:
            metadata = self.ask(lambda timeout: self.kafka.list_topics(timeout=timeout))
            fits = [name for name in sorted(metadata.topics) if re.fullmatch(pattern, name)]
            return [
                (name, partition)
                for name in fits
                for partition in sorted(metadata.topics[name].partitions)
            ]
        return [
            (name, partition) for name in topics for partition in self._partitions_of(name, seconds)
        ]

    def _partitions_of(self, topic: str, seconds: float) -> list[int]:
        def list_partitions(timeout: float) -> list[int]:
            entry = self.kafka.list_topics(topic, timeout=timeout).topics[topic]
            if entry.error is not None and entry.error.code() not in _NO_TOPIC:
                raise KafkaException(entry.error)
            return sorted(entry.partitions)

        deadline = time.monotonic() + seconds
        while not (partitions := self.ask(list_partitions)) and time.monotonic() < deadline:
            time.sleep(0.2)
        if partitions:
            return partitions
        topics = self.ask(lambda timeout: self.kafka.list_topics(timeout=timeout)).topics
        suggestion = nearest(topic, topics)
        raise ExecutionError(
            f"topic '{topic}' does not exist in Kafka at {self._servers}",
            hint=f"did you mean '{suggestion}'?" if suggestion else "check 'topic'",
        )


def plain(error: KafkaError) -> str:
    """Return the text of a librdkafka error without internal details."""
    text = _STATE.sub("", error.str()).removeprefix("Local: ").removeprefix("Broker: ")
    return re.sub(r"^\S+/(?:bootstrap|\d+): ", "", text).strip()
