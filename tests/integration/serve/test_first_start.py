"""The data folder's modes, and first starts that were cut off."""

import sqlite3
from pathlib import Path

from tests.integration.serve.conftest import running

ME = "query { me { email } }"
OURS = ("towline.db", "towline.db-wal", "encryption.key", "admin.token", "tls/ca.key")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_a_folder_that_was_open_keeps_its_secrets(tmp_path: Path) -> None:
    """What others could read before this start, they can no more; the folder is the operator's."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    async with running(data, first=True):
        assert {name: oct(mode(data / name)) for name in OURS} == dict.fromkeys(OURS, "0o600")
        assert (mode(data / "tls"), mode(data / "git"), mode(data)) == (0o700, 0o700, 0o755)
    for name in ("towline.db", "encryption.key", "tls/server.key"):
        (data / name).chmod(0o644)
    (data / "git").chmod(0o755)
    async with running(data):
        assert mode(data / "towline.db") == mode(data / "encryption.key") == 0o600
        assert mode(data / "tls/server.key") == 0o600
        assert mode(data / "git") == 0o700


async def test_a_data_folder_that_we_make_is_ours_alone(tmp_path: Path) -> None:
    async with running(tmp_path / "new", first=True):
        assert mode(tmp_path / "new") == 0o700


async def test_a_first_token_that_was_lost_is_made_again(tmp_path: Path) -> None:
    """Killed between commit and file: the next start lets the administrator in."""
    async with running(tmp_path) as hub:
        lost = hub.token
    (tmp_path / "admin.token").unlink()
    async with running(tmp_path) as hub:
        assert hub.token != lost
        assert (await hub.ask(ME))["me"]["email"] == "admin"
    assert mode(tmp_path / "admin.token") == 0o600


async def test_a_token_that_the_operator_removed_stays_away(tmp_path: Path) -> None:
    """Once somebody has signed in, no start makes a way in by itself."""
    async with running(tmp_path) as hub:
        await hub.ask(ME)
    (tmp_path / "admin.token").unlink()
    async with running(tmp_path):
        assert not (tmp_path / "admin.token").exists()
    with sqlite3.connect(tmp_path / "towline.db") as database:
        assert database.execute("select count(*) from tokens").fetchone() == (1,)
    database.close()
