"""Measures backup and restore of an installation: `python -m bench.backup`.

The store is SQLite with a million ledger rows (BENCH_SMALL=1: a tenth). The baseline is a SQL dump
of the same store by the `sqlite3` library.
"""

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.report import BenchReport
from tests import migrated
from towline.backup import backup, restore
from towline.settings import ServeSettings

ROWS = 1_000_000 // (10 if os.environ.get("BENCH_SMALL") else 1)


def fill(store: Path) -> None:
    """Inserts ledger rows as deliveries write them; unnamed columns are small."""
    with sqlite3.connect(store) as connection:
        columns = connection.execute("PRAGMA table_info(ledger)").fetchall()
        names = [name for _, name, *_ in columns]
        marks = ", ".join("?" * len(names))
        rows = (tuple(value(kind, name, n) for _, name, kind, *_ in columns) for n in numbers())
        connection.executemany(f"INSERT INTO ledger VALUES ({marks})", rows)
    connection.close()


def numbers() -> Iterator[int]:
    return iter(range(1, ROWS + 1))


def value(kind: str, name: str, number: int) -> object:
    """Value with the type and usual length of a column."""
    if name == "stage":
        return "rendered"
    if kind.startswith("DATETIME"):
        return f"2026-0{number % 9 + 1}-01 00:00:{number % 60:02}.000000"
    if kind.startswith(("INTEGER", "BIGINT")):
        return number
    return '{"by": "delivery"}' if kind == "JSON" else f"{number % 100_000:036}"


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def sql_dump(store: Path, into: Path) -> None:
    """Writes a SQL dump with the `sqlite3` library."""
    connection = sqlite3.connect(store)
    with into.open("w") as file:
        file.writelines(f"{line}\n" for line in connection.iterdump())
    connection.close()


def sql_load(dump: Path, store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.executescript(dump.read_text())
    connection.close()


def nothing(_table: str, _rows: int) -> None:
    """Ignores progress."""


def main() -> None:
    """Runs the measurements, prints and saves them."""
    report = BenchReport("backup")
    with tempfile.TemporaryDirectory() as folder:
        data, again = Path(folder) / "data", Path(folder) / "again"
        migrated.put_sqlite(data)
        fill(data / "towline.db")
        kept, plain = Path(folder) / "kept", Path(folder) / "plain.sql"
        old, new = ServeSettings(data=data), ServeSettings(data=again)
        taken = seconds(lambda: backup(old, kept, (), nothing))
        dumped = seconds(lambda: sql_dump(data / "towline.db", plain))
        read = seconds(lambda: restore(new, kept, (), nothing))
        loaded = seconds(lambda: sql_load(plain, Path(folder) / "loaded.db"))
        name = f"{ROWS:,} ledger rows"
        report.add(f"backup, {name}", [taken], "s", goal=60)
        report.add(
            f"backup, {name}: to SQL dump",
            [taken],
            "s",
            baseline="sqlite3 iterdump",
            baseline_values=[dumped],
        )
        report.add(
            f"restore and verify, {name}",
            [read],
            "s",
            baseline="sqlite3 executescript",
            baseline_values=[loaded],
        )
        report.add("size of the file", [kept.stat().st_size / 1e6], "MB")
    report.write()


if __name__ == "__main__":
    main()
