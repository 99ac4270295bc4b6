"""Files of a micro-batch get names that say whose they are, and go if it is computed again."""

from __future__ import annotations

from pathlib import Path

from runtime.connectors.filesystem.stream_write import publish, remove_batch
from runtime.files import LocalFiles

FILES = LocalFiles()


def written(hidden: Path, *names: str) -> None:
    for name in names:
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / name).write_text(name)


def below(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def test_files_move_to_where_readers_see_them_with_their_partition_directories(
    tmp_path: Path,
) -> None:
    hidden = tmp_path / ".sqlwin-w"
    written(
        hidden,
        "_SUCCESS",
        ".part-00000.crc",
        "part-00000-1f0c-c000.snappy.parquet",
        "day=2/part-00001-1f0c.c000.snappy.parquet",
    )
    publish(FILES, str(hidden), str(tmp_path), "w", 7)
    FILES.delete(str(hidden))
    assert below(tmp_path) == [
        "day=2/part-w-00000007-00000.snappy.parquet",
        "part-w-00000007-00001.snappy.parquet",
    ]


def test_a_micro_batch_that_is_computed_again_replaces_what_it_had_published(
    tmp_path: Path,
) -> None:
    hidden = tmp_path / ".sqlwin-w"
    for batch in (6, 7):
        written(hidden, "part-00000-a-c000.json", "k=1/part-00001-b.c000.json")
        publish(FILES, str(hidden), str(tmp_path), "w", batch)
    written(hidden, "part-00000-c-c000.json")
    publish(FILES, str(hidden), str(tmp_path), "other", 7)
    remove_batch(FILES, str(tmp_path), "w", 7)
    assert below(tmp_path) == [
        "k=1/part-w-00000006-00000.json",
        "part-other-00000007-00000.json",
        "part-w-00000006-00001.json",
    ]
