"""Clients of librdkafka's, and what they say when something is wrong, as one line.

Runs in Spark's Python workers; imports `confluent_kafka`, which the driver need not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from runtime.errors import ExecutionError, nearest

# So long the brokers may be silent: at first, and once they have answered
FIRST_SECONDS = 5.0
LATER_SECONDS = 60.0
_ONE_CALL = 2.0
# No retry mends these
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
_STATE = re.compile(r"\s*\(after \d+ms in state [\w-]+(?:, \d+ identical error\(s\) suppressed)?\)")
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)

Answer = TypeVar("Answer")


class Client:
    """A consumer or a producer, with what its brokers complain of.

    Args:
        config: of librdkafka.
        is_producer: whether it sends.
    """

    def __init__(self, config: Mapping[str, str], *, is_producer: bool = False) -> None:
        self._servers = config.get("bootstrap.servers", "")
        self._errors: dict[int, KafkaError] = {}
        self._has_answered = False
        whole: dict[str, Any] = {
            "log_level": 0,
            **config,
            "error_cb": lambda error: self._errors.update({error.code(): error}),
        }
        if not is_producer:
            whole |= {
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        try:
            self.kafka: Any = Producer(whole) if is_producer else Consumer(whole)
        except KafkaException as error:
            raise ExecutionError(
                f"Kafka's client refuses an option 'properties.*': {error.args[0].str()}",
                hint="it is librdkafka, whose properties are listed in its CONFIGURATION.md",
            ) from error

    def ask(self, question: Callable[[float], Answer]) -> Answer:
        """The answer to a question, which takes a timeout and may have to be asked again.

        Raises:
            ExecutionError: there is none within seconds.
        """
        deadline = time.monotonic() + (LATER_SECONDS if self._has_answered else FIRST_SECONDS)
        while True:
            try:
                answer = question(_ONE_CALL)
            except KafkaException as error:
                self.kafka.poll(0)
                self.check(error.args[0], has_time=time.monotonic() < deadline)
                time.sleep(0.1)
                continue
            self._has_answered = True
            return answer

    def check(self, error: KafkaError | None, *, has_time: bool) -> None:
        """Raise what went wrong, unless another try may mend it.

        Args:
            error: what a call raised, or a message brought; None: nothing came.
            has_time: whether there is time to try again.
        """
        found = [] if error is None else [error]
        final = next((e for e in [*found, *self._errors.values()] if e.code() in _FINAL), None)
        if final is None and has_time:
            return
        raise self._explained(final or error)

    def _explained(self, error: KafkaError | None) -> ExecutionError:
        if error is not None and error.code() in _CREDENTIALS:
            return ExecutionError(
                f"Kafka at {self._servers} does not take the credentials: {plain(error)}",
                hint="'properties.sasl.jaas.config', 'properties.sasl.mechanism' and "
                "'properties.security.protocol' say them",
            )
        if error is not None and error.code() in _FINAL:
            return ExecutionError(
                f"Kafka at {self._servers} refuses: {plain(error)}",
                hint="'properties.security.protocol' and 'properties.ssl.*' say how to connect; "
                "what the user may read and write is the brokers' to say",
            )
        # why no connection came about says more than that the time is over
        why = (
            self._errors.get(KafkaError._RESOLVE)
            or self._errors.get(KafkaError._TRANSPORT)
            or error
        )
        return ExecutionError(
            f"Kafka does not answer at {self._servers}" + (f": {plain(why)}" if why else ""),
            hint="'properties.bootstrap.servers' says where its brokers are, and "
            "'properties.security.protocol' how they speak",
        )

    def partitions(
        self, topics: tuple[str, ...], pattern: str, seconds: float = 0.0
    ) -> list[tuple[str, int]]:
        """The partitions of topics, each with its topic, or of all whose names a pattern fits.

        Args:
            topics: the topics.
            pattern: of whole names; empty: `topics` counts.
            seconds: so long a topic may take to come into being.

        Raises:
            ExecutionError: there is no such topic, or no answer.
        """
        if pattern:
            listed = self.ask(lambda timeout: self.kafka.list_topics(timeout=timeout))
            fits = [name for name in sorted(listed.topics) if re.fullmatch(pattern, name)]
            return [
                (name, each) for name in fits for each in sorted(listed.topics[name].partitions)
            ]
        return [(name, each) for name in topics for each in self._partitions_of(name, seconds)]

    def _partitions_of(self, topic: str, seconds: float) -> list[int]:
        def found(timeout: float) -> list[int]:
            entry = self.kafka.list_topics(topic, timeout=timeout).topics[topic]
            if entry.error is not None and entry.error.code() not in _NO_TOPIC:
                raise KafkaException(entry.error)
            return sorted(entry.partitions)

        deadline = time.monotonic() + seconds
        while not (partitions := self.ask(found)) and time.monotonic() < deadline:
            time.sleep(0.2)
        if partitions:
            return partitions
        there = self.ask(lambda timeout: self.kafka.list_topics(timeout=timeout)).topics
        meant = nearest(topic, there)
        raise ExecutionError(
            f"there is no topic '{topic}' in Kafka at {self._servers}",
            hint=f"did you mean '{meant}'?" if meant else "'topic' names it",
        )


def plain(error: KafkaError) -> str:
    """An error of librdkafka's without what only its developers read."""
    text = _STATE.sub("", error.str()).removeprefix("Local: ").removeprefix("Broker: ")
    return re.sub(r"^\S+/(?:bootstrap|\d+): ", "", text).strip()
