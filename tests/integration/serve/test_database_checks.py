"""`towline admin doctor --database`, on SQLite and on a real PostgreSQL."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.runtime.clock import Clock
from tests import migrated
from tests.fakes.clock import START, FakeClock
from tests.servers.postgres import Postgres
from towline.cli.program import app
from towline.demo.ports import free_ports
from towline.installation.check_result import CheckHealth, CheckResult
from towline.installation.tasks import run_database_checks
from towline.settings import ServeSettings

OK, WARNING, FAILED = CheckHealth.OK, CheckHealth.WARNING, CheckHealth.FAILED


def checked(settings: ServeSettings, clock: Clock | None = None) -> dict[str, CheckResult]:
    return {found.check: found for found in run_database_checks(settings, clock)}


def test_an_embedded_database_is_checked(tmp_path: Path) -> None:
    migrated.put_sqlite(tmp_path)
    found = checked(ServeSettings(data=tmp_path))
    assert list(found) == ["store", "server", "writes", "room"]
    assert {result.health for result in found.values()} == {OK}
    assert found["server"].text.startswith("SQLite 3.")
    with closing(sqlite3.connect(tmp_path / "towline.db")) as connection:
        left = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'towline_doctor'")
        assert left.fetchall() == []


def test_a_server_is_checked(tmp_path: Path, postgres: Postgres) -> None:
    url = migrated.new_postgres(postgres)
    settings = ServeSettings(data=tmp_path, database=url)
    found = checked(settings)
    assert list(found) == ["store", "server", "writes", "size", "connections", "clock"]
    assert {result.health for result in found.values()} == {OK}
    assert found["server"].text.startswith("PostgreSQL ")
    assert checked(settings, FakeClock(START))["clock"].health is WARNING
    postgres.execute(
        f'ALTER DATABASE "{url.rpartition("/")[2]}" SET default_transaction_read_only = on'
    )
    writes = checked(settings)["writes"]
    assert writes.health is FAILED
    assert "in a read-only transaction: check the disk" in writes.text
    postgres.drop_database(url)


def test_a_database_that_does_not_answer_has_one_result(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = ServeSettings(data=tmp_path, database=f"postgresql://u:p@127.0.0.1:{port}/x")
    found = checked(settings)
    assert list(found) == ["store"] and found["store"].health is FAILED


def test_a_missing_store_is_made_by_the_first_start(tmp_path: Path) -> None:
    found = checked(ServeSettings(data=tmp_path / "none"))
    assert list(found) == ["store"] and found["store"].health is WARNING
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_exit_code_tells_a_failure(tmp_path: Path, is_damaged: bool) -> None:
    if is_damaged:
        (tmp_path / "towline.db").write_text("no database" * 100)
    else:
        migrated.put_sqlite(tmp_path)
    words = ["admin", "doctor", "--database", "--data", str(tmp_path)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == is_damaged
    assert ("writes" in result.stdout) is not is_damaged
