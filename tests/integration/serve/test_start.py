"""Starts: the first, the second, and those that must be refused."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.errors import TowlineError, Unavailable
from tests.integration.serve.conftest import ANY_PORT, running, settings
from tests.integration.serve.waiting import until
from towline.demo.ports import free_ports
from towline.serve.process import ControlPlaneProcess
from towline.settings import load

PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()", "serve"]
KEPT = ("admin.token", "encryption.key", "tls/ca.crt", "tls/ca.key", "tls/server.crt")


def kept(data: Path) -> dict[str, bytes]:
    return {name: (data / name).read_bytes() for name in KEPT}


def refused(data: Path, *flags: str) -> str:
    """The single line that a failing start prints."""
    command = [*PROGRAM, "--data", str(data), "--listen-metrics", "off", *flags]
    if "--listen" not in flags:
        ports = [f"127.0.0.1:{port}" for port in free_ports(3)]
        names = ("--listen", "--listen-http", "--listen-agents")
        command += [word for pair in zip(names, ports, strict=True) for word in pair]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=dict(os.environ)
    )
    assert done.returncode not in (0, None), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("towline: ")]
    assert len(said) == 1, done.stderr
    return said[0]


async def refusal_of(flags: dict[str, Any]) -> str:
    """Why a start with these settings fails, here: `refused` shows what becomes of such words."""
    ports = {name: ANY_PORT for name in ("listen", "listen_http", "listen_agents")}
    with pytest.raises(TowlineError) as refusal:
        await ControlPlaneProcess(load({"listen_metrics": "off", **ports, **flags})).start()
    return refusal.value.message


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_second_start_keeps_what_the_first_has_made(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Authority, keys, token and rows live on; secrets are for their owner only."""
    more = {"database": request.getfixturevalue("postgres_url")} if store == "postgres" else {}
    data = tmp_path / "data"
    async with running(data, first=True, **more) as hub:
        async with hub.http.get(f"{hub.url}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        made = await hub.cluster()
        before = kept(data)
    assert (data / "towline.db").exists() == (store == "sqlite")
    for name in ("admin.token", "encryption.key", "tls/ca.key", "tls/server.key"):
        assert (data / name).stat().st_mode & 0o777 == 0o600, name
    async with running(data, **more) as hub:
        assert kept(data) == before
        found = await hub.ask("query ($id: ID!) { cluster(id: $id) { handle } }", id=made["id"])
        assert found["cluster"]["handle"] == "dev"


async def test_another_encryption_key_is_refused(tmp_path: Path) -> None:
    """Nor is a new one in the place of one that is gone: what was sealed would not open."""
    async with running(tmp_path) as hub:
        await hub.repository("https://git.example.org/a.git", webhookSecret="s3cret")
    (tmp_path / "encryption.key").write_bytes(os.urandom(32))
    assert "another key" in await refusal_of({"data": tmp_path})
    (tmp_path / "encryption.key").unlink()
    said = await refusal_of({"data": tmp_path})
    assert "start with the key that belongs to this store" in said


async def test_a_short_encryption_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "encryption.key").write_bytes(b"short")
    assert "5 bytes; expected 32" in await refusal_of({"data": tmp_path})


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """Nothing is changed in a store that this version does not understand."""

    async with running(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "towline.db") as database:
        database.execute("update alembic_version set version_num = '9999'")
    database.close()
    assert "newer" in await refusal_of({"data": tmp_path})


async def test_a_database_that_is_away_is_named(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    said = refused(tmp_path, "--database", f"postgresql://u:hunter2@127.0.0.1:{port}/x")
    assert "the store cannot be opened: Connection refused: check the setting database" in said
    assert "hunter2" not in said


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "towline.db").write_bytes(b"no database " * 1000)
    said = refused(tmp_path)
    assert "the store cannot be opened" in said
    assert "restore a backup" in said


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    async with running(tmp_path / "first") as hub:
        taken = hub.addresses.http or ""
        said = refused(
            tmp_path / "second", "--listen", "127.0.0.1:0", "--listen-http", taken,
            "--listen-agents", "127.0.0.1:0",
        )  # fmt: skip
        assert f"cannot listen on {taken} for http: Address already in use; stop" in said


@pytest.mark.parametrize("listener", ["https", "agents", "http"])
async def test_a_taken_port_ends_a_start_before_any_work(tmp_path: Path, listener: str) -> None:
    """As a second replica, it would otherwise work on the store of the first."""
    async with running(tmp_path / "first") as hub:
        taken = str(getattr(hub.addresses, listener)).removeprefix("https://")
        setting = "listen" if listener == "https" else f"listen_{listener}"
        process = ControlPlaneProcess(settings(tmp_path / "second", **{setting: taken}))
        message = f"cannot listen on {taken} for {listener}: .* in use"
        with pytest.raises(Unavailable, match=message):
            await process.start()
        assert not (tmp_path / "second").exists()


async def test_two_listeners_cannot_have_one_port(tmp_path: Path) -> None:
    same = f"127.0.0.1:{free_ports(1)[0]}"
    said = refused(tmp_path / "new", "--listen", same, "--listen-agents", same)
    assert f"cannot listen on {same} for " in said


async def test_a_start_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    """Workers, tasks and sockets of the parts that had started already are gone."""
    (tmp_path / "setup.url").mkdir()
    before = set(asyncio.all_tasks())
    with pytest.raises(Unavailable, match=r"setup\.url.* failed"):
        await ControlPlaneProcess(settings(tmp_path)).start()

    async def left() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks() - before}

    await until(left, lambda names: not names)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"listen": "here"}, "'here' is not of the form host:port"),
        ({"target": "everything"}, "setting target"),
        ({"tls": {"cert": Path("only.crt"), "key": None}}, "both cert and key"),
        ({"database": "mysql://x/y"}, "mysql is not supported"),
        ({"database": "nonsense"}, "database: is not a URL"),
        ({"log_level": "loud"}, "log_level"),
    ],
)
async def test_wrong_settings_are_refused(tmp_path: Path, flags: dict[str, Any], said: str) -> None:
    assert said in await refusal_of({"data": tmp_path, **flags})


def test_a_file_of_settings_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "cannot read absent.toml" in refused(tmp_path, "--config", "absent.toml")


@pytest.mark.parametrize("name", ["listen", "listen_http"])
async def test_addresses_are_judged_before_any_port_is_bound(tmp_path: Path, name: str) -> None:
    """Invalid settings are reported first, also where another process has the ports."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        ports = {"listen": taken, "listen_http": taken, "listen_agents": taken, name: "here"}
        said = await refusal_of({"data": tmp_path, **ports})
    assert "'here' is not of the form host:port" in said
    assert not any(tmp_path.iterdir())


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "file" in refused(tmp_path / "file" / "data")


async def test_a_directory_has_one_control_plane(tmp_path: Path) -> None:
    """A second one is refused before it reads the store, and may start when the first has ended."""
    data = tmp_path / "data"
    async with running(data):
        said = await asyncio.to_thread(refused, data)
        assert f"another control plane runs on {data} (process {os.getpid()}): stop it" in said
    async with running(data):
        pass
