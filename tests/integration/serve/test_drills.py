"""Disks that are full: named, survived, and recovered from."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from controlplane.platform.context import PIPELINE
from tests.integration.serve.conftest import Running, running
from tests.integration.serve.test_git import shop
from towline.demo.git_server import GitServer

REGISTER = """mutation ($name: String!, $metadata: Json) {
  createCluster(attributes: {name: $name, metadata: $metadata}) { id } }"""
LARGE = orjson.dumps({"x": "y" * 100_000}).decode()


class Disk:
    """The disk beneath SQLite; when full the file cannot grow, when worn out not even change."""

    def __init__(self) -> None:
        self.full = False
        self.worn_out = False

    def limit(self, connection: Any, *_: object) -> None:
        """Before each use of a connection; one page means as many as there are."""
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA max_page_count={1 if self.full else 1 << 30}")
        cursor.execute(f"PRAGMA query_only={self.worn_out:d}")
        cursor.close()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """The disk of every embedded store of the test."""
    one = Disk()
    event.listen(Pool, "checkout", one.limit)
    yield one
    event.remove(Pool, "checkout", one.limit)


@pytest.fixture
async def with_disk(tmp_path: Path, disk: Disk) -> AsyncIterator[Running]:
    """A control plane on that disk."""
    async with running(tmp_path / "data") as one:
        yield one


async def test_a_full_store_refuses_changes_clearly_and_recovers(
    with_disk: Running, disk: Disk
) -> None:
    """Reading and signing in go on, nothing ends, and afterwards all is as ever."""
    hub = with_disk
    made = await hub.cluster()
    robot = await hub.ask(
        'mutation { createAccessToken(attributes: {name: "robot"}) { id token } }'
    )
    disk.full = True
    refused = await hub.refusal(REGISTER, name="next", metadata=LARGE)
    assert refused["extensions"]["code"] == "UNAVAILABLE"
    assert "the store cannot be written" in refused["message"]
    assert "full" in refused["message"]
    token = robot["createAccessToken"]["token"]
    answer = await hub.post("{ clusters { edges { node { handle } } } }", token=token)
    assert answer["data"]["clusters"]["edges"] == [{"node": {"handle": made["handle"]}}]
    await asyncio.sleep(1.5)
    async with hub.http.get(f"{hub.url}/readyz") as ready:
        assert ready.status == 200
    disk.full = False
    await hub.ask(REGISTER, name="next", metadata=LARGE)


async def test_background_work_outlives_a_store_that_cannot_be_written(
    with_disk: Running, disk: Disk, git_server: GitServer
) -> None:
    """A commit that came meanwhile is delivered afterwards, by itself."""
    hub = with_disk
    repository, _, service = await shop(hub, git_server)
    failed = asyncio.ensure_future(hub.process.wait_failed())
    disk.worn_out = True
    sha = repository.commit({"web/a.yaml": large(1)})
    hub.process.plane.context.bus.publish(PIPELINE, "any")
    await asyncio.sleep(2)
    assert not failed.done()
    assert (await hub.get(service))["sha"] != sha
    disk.worn_out = False
    await hub.service_until(service, lambda seen: seen["sha"] == sha, 40)
    assert not failed.done()
    failed.cancel()


def large(number: int) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big-{number}}}\n"
        f"data: {{x: {'y' * 50_000}}}\n"
    )


@contextmanager
def no_space(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """No bundle can be kept."""
    replace = os.replace

    def fails(source: Path, target: Path) -> None:
        if "bundles" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fails)
        yield


async def test_a_full_content_store_is_named_and_the_last_good_stays(
    hub: Running, git_server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service says that the disk is full, and goes on once it is not."""
    repository, _, service = await shop(hub, git_server)
    good = (await hub.get(service))["revision"]
    with no_space(monkeypatch):
        repository.commit({"web/a.yaml": large(1)})
        seen = await hub.service_until(service, lambda seen: seen["errors"])
        assert "disk of the git cache is full" in seen["errors"][0]["message"]
        assert seen["revision"] == good
    assert list(hub.data.rglob("*.tmp")) == []
    repository.commit({"web/a.yaml": large(2)})
    fixed = await hub.service_until(service, lambda seen: seen["revision"] != good, 40)
    assert fixed["errors"] == []
