"""Send rows as messages of one transaction, in a Python worker: readers see all or none.

The transaction of a micro-batch also commits an offset for partition 0 of the topic, in a consumer
group of the stream's own: the number of the next micro-batch. A repeated micro-batch finds that
offset and is not sent again. KIP-98 of Apache Kafka describes the guarantees of brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runtime.connectors.kafka.client import Client, plain
from runtime.connectors.kafka.produce import (
    FENCED,
    FENCED_HINT,
    TOPIC_SECONDS,
    delivery_timeout,
    flush,
    non_empty_batches,
    produce_all,
)
from runtime.errors import ExecutionError
from runtime.outages import Retries

# Default limit of brokers, after which they abort a transaction
_TRANSACTION_MS = "900000"
_ONE_CALL = 5.0


def send_once(
    config: Mapping[str, str],
    consumer_config: Mapping[str, str],
    topic: str,
    identifier: str,
    batch: int | None,
    batches: Iterable[pa.RecordBatch],
    retries: Retries | None = None,
    table: str = "",
) -> int:
    """Send the columns `value` and, if present, `key` in one transaction.

    Args:
        config: Producer configuration of librdkafka.
        consumer_config: Consumer configuration.
        topic: Target topic.
        identifier: The `transactional.id`. A later producer with the same one takes over, and
            uncommitted messages of this one are discarded.
        batch: Number of the micro-batch. It is not sent if it was committed before. None outside a
            stream.
        batches: Rows.
        retries: Retries of a stream while the brokers are away. None for a batch.
        table: Table for notes about outages.

    Returns:
        Number of messages sent; 0 for a micro-batch that was committed before.

    Raises:
        ExecutionError: A message was not delivered, or Kafka does not answer. Nothing is committed.
    """
    filled = non_empty_batches(batches)
    if filled is None:
        return 0
    sending = _Sending(config, consumer_config, topic, identifier, batch, retries, table)
    n_sent = 0
    with closing(sending.group.kafka):
        try:
            for rows in filled:
                # Rows of a committed micro-batch are consumed nevertheless, because computing them
                # updates the state
                if not sending.is_done:
                    n_sent += produce_all(sending.client, topic, rows, sending.failures)
            if not sending.is_done:
                sending.commit()
        except BaseException:
            sending.abort()
            raise
    return n_sent


class _Sending:
    """A transaction that has started, unless its micro-batch is already committed."""

    def __init__(
        self,
        config: Mapping[str, str],
        consumer_config: Mapping[str, str],
        topic: str,
        identifier: str,
        batch: int | None,
        retries: Retries | None,
        table: str,
    ) -> None:
        self.failures: list[KafkaError] = []
        self._topic = topic
        self._batch = batch
        more = {
            "transactional.id": identifier,
            "enable.idempotence": "true",
            "transaction.timeout.ms": _TRANSACTION_MS,
        }
        timeouts = delivery_timeout(retries)
        self.client = Client(
            {**more, **timeouts, **config}, is_producer=True, retries=retries, table=table
        )
        self.client.partitions((topic,), "", seconds=TOPIC_SECONDS)
        # aborts pending transactions of an earlier run
        self._ask("begun", self.client.kafka.init_transactions)
        group = {**consumer_config, "group.id": identifier}
        self.group = Client(group, retries=retries, table=table)
        self.is_done = False
        if batch is not None:
            place = [TopicPartition(topic, 0)]
            (committed,) = self.group.ask(lambda t: self.group.kafka.committed(place, timeout=t))
            self.is_done = committed.offset > batch
        if not self.is_done:
            self.client.kafka.begin_transaction()

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            ExecutionError: The commit failed.
        """
        flush(self.client, self._topic, self.failures)
        kafka = self.client.kafka
        if self._batch is not None:
            place = [TopicPartition(self._topic, 0, self._batch + 1)]
            group = self.group.kafka.consumer_group_metadata()
            self._ask("committed", lambda t: kafka.send_offsets_to_transaction(place, group, t))
        self._ask("committed", kafka.commit_transaction)

    def abort(self) -> None:
        """Abort so that readers can continue; otherwise the brokers abort it after a timeout."""
        if not self.is_done:
            with suppress(KafkaException):
                self.client.kafka.abort_transaction(_ONE_CALL)

    def _ask(self, what: str, call: Callable[[float], Any]) -> None:
        """Make a call, with retries if the error allows it.

        Raises:
            ExecutionError: The call failed.
        """
        until = time.monotonic() + self.client.patience_s
        while True:
            try:
                call(_ONE_CALL)
                self.client.answered()
                return
            except KafkaException as error:
                kafka_error = error.args[0]
                # it raises the same error if that is fatal
                with suppress(KafkaException, SystemError):
                    self.client.kafka.poll(0)
                self.client.check(kafka_error, has_time=True)
                if kafka_error.retriable() and time.monotonic() < until:
                    self.client.waits()
                    continue
                is_fenced = kafka_error.code() in FENCED
                raise ExecutionError(
                    f"a transaction of topic '{self._topic}' was not {what}: {plain(kafka_error)}",
                    hint=FENCED_HINT
                    if is_fenced
                    else (
                        "the user needs write permission for the topic, and for the "
                        "transactional id and the group of that name"
                    ),
                ) from error
