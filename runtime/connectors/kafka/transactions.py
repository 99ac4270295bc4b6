"""Rows as messages of one transaction, in a Python worker: readers see all of them or none.

A transaction of a micro-batch also commits an offset, of the topic's partition 0, for a consumer
group of the stream's own: the number of the next micro-batch. A micro-batch that is run again
finds it there, and is not sent again. For what brokers promise see KIP-98 of Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from runtime.connectors.kafka.client import LATER_SECONDS, Client, plain
from runtime.connectors.kafka.produce import TOPIC_SECONDS, filled_batches, flush, produce_all
from runtime.errors import ExecutionError

# What a broker allows unless it is set: a transaction that takes longer is aborted
_TRANSACTION_MS = "900000"
_ONE_CALL = 5.0
_TAKEN_OVER = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


def send_once(
    config: Mapping[str, str],
    consumer_config: Mapping[str, str],
    topic: str,
    identifier: str,
    batch: int | None,
    batches: Iterable[pa.RecordBatch],
) -> int:
    """Send the columns `value`, and `key` if there is one, in one transaction.

    Args:
        config: of librdkafka's producer.
        consumer_config: of its consumer.
        topic: where they go.
        identifier: the `transactional.id`. Whoever begins with the same one later takes over, and
            what this one has not committed never was.
        batch: the number of the micro-batch; one that was committed is not sent. None: there are
            none.
        batches: the rows.

    Returns:
        How many messages were sent; 0 of a micro-batch that was there.

    Raises:
        ExecutionError: a message was not delivered, or Kafka does not answer; none counts then.
    """
    filled = filled_batches(batches)
    if filled is None:
        return 0
    sending = _Sending(config, consumer_config, topic, identifier, batch)
    n_sent = 0
    with closing(sending.group.kafka):
        try:
            for rows in filled:
                # rows of a micro-batch that is there are taken all the same: they are computed for
                # the state that is kept of them
                if not sending.is_done:
                    n_sent += produce_all(sending.client, topic, rows, sending.failures)
            if not sending.is_done:
                sending.commit()
        except BaseException:
            sending.abort()
            raise
    return n_sent


class _Sending:
    """A transaction that has begun, unless its micro-batch is there."""

    def __init__(
        self,
        config: Mapping[str, str],
        consumer_config: Mapping[str, str],
        topic: str,
        identifier: str,
        batch: int | None,
    ) -> None:
        self.failures: list[KafkaError] = []
        self._topic = topic
        self._batch = batch
        more = {
            "transactional.id": identifier,
            "enable.idempotence": "true",
            "transaction.timeout.ms": _TRANSACTION_MS,
        }
        self.client = Client({**more, **config}, is_producer=True)
        self.client.partitions((topic,), "", seconds=TOPIC_SECONDS)
        # ends what an earlier run has begun: after this nothing of it is pending
        self._ask("begun", self.client.kafka.init_transactions)
        self.group = Client({**consumer_config, "group.id": identifier})
        self.is_done = False
        if batch is not None:
            place = [TopicPartition(topic, 0)]
            (found,) = self.group.ask(lambda t: self.group.kafka.committed(place, timeout=t))
            self.is_done = found.offset > batch
        if not self.is_done:
            self.client.kafka.begin_transaction()

    def commit(self) -> None:
        """Let readers see the messages.

        Raises:
            ExecutionError: they do not.
        """
        flush(self.client, self._topic, self.failures)
        kafka = self.client.kafka
        if self._batch is not None:
            place = [TopicPartition(self._topic, 0, self._batch + 1)]
            group = self.group.kafka.consumer_group_metadata()
            self._ask("committed", lambda t: kafka.send_offsets_to_transaction(place, group, t))
        self._ask("committed", kafka.commit_transaction)

    def abort(self) -> None:
        """Let readers go on, who wait behind messages of it; else the brokers do after a while."""
        if not self.is_done:
            with suppress(KafkaException):
                self.client.kafka.abort_transaction(_ONE_CALL)

    def _ask(self, what: str, call: Callable[[float], Any]) -> None:
        """Make a call, again while that may help.

        Raises:
            ExecutionError: it does not succeed.
        """
        until = time.monotonic() + LATER_SECONDS
        while True:
            try:
                call(_ONE_CALL)
                return
            except KafkaException as error:
                found = error.args[0]
                self.client.kafka.poll(0)
                self.client.check(found, has_time=True)
                if found.retriable() and time.monotonic() < until:
                    continue
                is_taken = found.code() in _TAKEN_OVER
                raise ExecutionError(
                    f"a transaction of topic '{self._topic}' was not {what}: {plain(found)}",
                    hint="another run of the same stream has begun one"
                    if is_taken
                    else "its user needs the rights to write the topic, the transactional id and "
                    "the group of the same name",
                ) from error
