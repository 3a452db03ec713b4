"""The file that holds the agent's state: damaged, truncated, of another version."""

import sqlite3
from pathlib import Path

import pytest

from core.errors import Invalid, Unavailable
from syncagent.state.database import Database
from syncagent.state.store import SqliteStateStore


def filled(folder: Path) -> Path:
    """A state of some pages that knows it is no lost disk."""
    path = folder / "agent.db"
    database = Database(path)
    SqliteStateStore(database).mark_recovered()
    with database.transaction() as db:
        rows = [(f"{number:05}", "x" * 500, "", 1) for number in range(500)]
        db.executemany("INSERT INTO job VALUES (?, ?, ?, ?)", rows)
    database.close()
    return path


@pytest.mark.parametrize("damage", ["header", "truncated", "middle"])
def test_a_damaged_file_is_moved_aside_and_all_begins_as_after_a_lost_disk(
    tmp_path: Path, damage: str
) -> None:
    path = filled(tmp_path)
    data = path.read_bytes()
    if damage == "header":
        path.write_bytes(b"not a database.." + data[16:])
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.write_bytes(data[:8192] + b"\xff" * 8192 + data[16384:])
    broken = path.read_bytes()
    database = Database(path)
    assert SqliteStateStore(database).fresh
    SqliteStateStore(database).mark_recovered()
    database.close()
    assert (tmp_path / "agent.db.damaged").read_bytes()[100:] == broken[100:]
    again = Database(path)
    assert not SqliteStateStore(again).fresh
    again.close()


def test_a_whole_file_stays(tmp_path: Path) -> None:
    database = Database(filled(tmp_path))
    assert not SqliteStateStore(database).fresh
    assert database.rows("SELECT count(*) FROM job") == [(500,)]
    database.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version=99")
    raw.close()
    with pytest.raises(Invalid, match="newer version"):
        Database(path)
    assert not (tmp_path / "agent.db.damaged").exists()


def test_a_disk_that_refuses_is_not_taken_for_damage(tmp_path: Path) -> None:
    (tmp_path / "agent.db").mkdir()
    with pytest.raises(Unavailable):
        Database(tmp_path / "agent.db")
    assert (tmp_path / "agent.db").is_dir()
