"""Time micro-batches of the operator of temporal joins: `python -m tests.bench.versions`.

No Spark.

One key group whose state has a version of each of `--keys` keys. A micro-batch has `--rows` rows and
`--versions` versions of random keys. Times are of the CPU, without ingest, the exchange and RocksDB.
With `--cold`, each micro-batch decodes the chunks that it reads, as on a worker that has not read
them before.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from runtime.streaming.state.table_cache import CACHE
from tests.runtime.streaming.operators.test_versions import Stream


def main() -> None:
    """Print the time and the bytes written of a micro-batch."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--cold", action="store_true", help="clear the cache of tables before each")
    options = parser.parse_args()
    rng = np.random.default_rng(7)
    stream = Stream()
    values = rng.integers(0, 1 << 40, options.keys).tolist()
    stream.second(0, versions=list(enumerate(values)))
    seconds, n_bytes = [], []
    for number in range(1, options.batches + 1):
        rows = [(int(key), i) for i, key in enumerate(rng.integers(0, options.keys, options.rows))]
        keys = rng.choice(options.keys, options.versions, replace=False)
        versions = [(int(key), number) for key in keys]
        before = set(stream.store.blobs)
        if options.cold:
            CACHE.clear()
        start = time.process_time()
        stream.second(number, rows, versions)
        seconds.append(time.process_time() - start)
        n_bytes.append(sum(len(b) for name, b in stream.store.blobs.items() if name not in before))
    print(
        f"{options.keys:,} keys, {options.rows} rows and {options.versions} versions in a "
        f"micro-batch: {np.median(seconds) * 1000:.1f} ms (90 %: "
        f"{np.quantile(seconds, 0.9) * 1000:.1f} ms), {np.mean(n_bytes) / 1024:,.1f} KiB written"
    )


if __name__ == "__main__":
    main()
