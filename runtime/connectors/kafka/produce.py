"""Send rows as messages to Kafka, in a Python worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from runtime.connectors.kafka.client import Client, plain
from runtime.errors import ExecutionError
from runtime.outages import Retries

# Seconds that one call waits for deliveries, or for room in the queue
_ONE_CALL = 1.0
_MIN_SECONDS = 5.0
# Seconds that a broker may take to auto-create a topic
TOPIC_SECONDS = 3.0
# Errors after another producer with the same `transactional.id` has started
FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
FENCED_HINT = "another run of the same stream has started a transaction"


def delivery_timeout(retries: Retries | None) -> dict[str, str]:
    """Return the property for how long a stream retries to deliver a message."""
    if retries is None:
        return {}
    return {"delivery.timeout.ms": str(round(max(_MIN_SECONDS, retries.seconds) * 1_000))}


def send(
    config: Mapping[str, str],
    topic: str,
    batches: Iterable[pa.RecordBatch],
    retries: Retries | None = None,
    table: str = "",
) -> int:
    """Send the columns `value` and, if present, `key`. Return the number of messages.

    On return, the brokers have all messages.

    Args:
        config: Producer configuration of librdkafka.
        topic: Target topic.
        batches: Rows.
        retries: Retries of a stream while the brokers are away. None for a batch.
        table: Table for notes about outages.

    Raises:
        ExecutionError: A message was not delivered, or Kafka does not answer.
    """
    filled = non_empty_batches(batches)
    if filled is None:
        return 0
    config = {**delivery_timeout(retries), **config}
    client = Client(config, is_producer=True, retries=retries, table=table)
    # report a wrong topic or broker now instead of after a delivery timeout of minutes
    client.partitions((topic,), "", seconds=TOPIC_SECONDS)
    failures: list[KafkaError] = []
    n_sent = sum(produce_all(client, topic, batch, failures) for batch in filled)
    flush(client, topic, failures)
    return n_sent


def non_empty_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """Return the non-empty batches, or None if all are empty."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    return None if first is None else chain([first], filled)


def produce_all(
    client: Client, topic: str, batch: pa.RecordBatch, failures: list[KafkaError]
) -> int:
    """Pass rows to a producer and return their number. See `send`.

    Errors of undelivered messages are appended to `failures`, possibly later.
    """

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failures.append(error)

    values = batch.column("value").to_pylist()
    has_keys = "key" in batch.schema.names
    keys = batch.column("key").to_pylist() if has_keys else repeat(None, len(values))
    for value, key in zip(values, keys, strict=True):
        _produce(client, topic, value, key, delivered, failures)
    _run_callbacks(topic, lambda: client.kafka.poll(0))
    _check(topic, failures)
    return len(values)


def _produce(
    client: Client, topic: str, value: Any, key: Any, delivered: Any, failures: list[Any]
) -> None:
    while True:
        try:
            client.kafka.produce(topic, value=value, key=key, on_delivery=delivered)
            return
        except BufferError:
            # messages have their own timeout ('properties.delivery.timeout.ms')
            _run_callbacks(topic, lambda: client.kafka.poll(_ONE_CALL))
            _check(topic, failures)
        except KafkaException as error:
            raise _delivery_error(topic, error.args[0]) from error


def flush(client: Client, topic: str, failures: list[KafkaError]) -> None:
    """Wait until the brokers have all messages.

    Raises:
        ExecutionError: A message was not delivered.
    """
    try:
        while _run_callbacks(topic, lambda: client.kafka.flush(_ONE_CALL)):
            _check(topic, failures)
            client.check(None, has_time=True)
            client.waits()
    finally:
        client.answered()
    _check(topic, failures)


def _run_callbacks(topic: str, call: Callable[[], int]) -> int:
    """Make a call that runs callbacks, and return its result.

    Raises:
        ExecutionError: The producer has failed for good. Such a call then raises the reason, and
            CPython wraps it in a SystemError if another callback runs after it.
    """
    try:
        return call()
    except (KafkaException, SystemError) as error:
        cause = error if isinstance(error, KafkaException) else error.__cause__
        if not isinstance(cause, KafkaException):
            raise
        raise _delivery_error(topic, cause.args[0]) from error


def _check(topic: str, failures: list[KafkaError]) -> None:
    if failures:
        raise _delivery_error(topic, failures[0])


def _delivery_error(topic: str, error: KafkaError) -> ExecutionError:
    hint = None
    if error.code() in FENCED:
        hint = FENCED_HINT
    elif error.code() == KafkaError._MSG_TIMED_OUT:
        hint = "'properties.delivery.timeout.ms' sets how long delivery is retried"
    message = f"a message to topic '{topic}' was not delivered: {plain(error)}"
    return ExecutionError(message, hint=hint)
