"""ssh commands that share one connection, and places for its socket."""

import ctypes
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.identity import RepositoryId
from core.outbound.client import OutboundRoute
from core.remotes import parse_remote
from core.spec.source import GitCredentials
from gitcache.mirror.transport.route import ServerRoute
from gitcache.mirror.transport.ssh_sharing import SharedSshConnections
from tests.fakes.clock import FakeClock

SHOP, BANK = RepositoryId("shop"), RepositoryId("bank")
ROUTE = ServerRoute(
    parse_remote("git@git.example.org:shop.git"),
    GitCredentials(private_key="key", known_hosts="known"),
    OutboundRoute(ssl.create_default_context()),
    None,
    addresses=("192.0.2.1",),
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def shared(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedSshConnections]:
    """Not opened yet; its sockets are to lie in a folder of the test's own, with a short path."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield SharedSshConnections(clock, "ssh")


async def test_one_repository_with_the_same_credentials_shares(
    shared: SharedSshConnections, clock: FakeClock
) -> None:
    shared.open()
    first = shared.options(SHOP, ROUTE)
    assert first["ControlMaster"] == "auto"
    await clock.advance(200)
    assert shared.options(SHOP, ROUTE) == first


@pytest.mark.parametrize(
    "changed",
    [
        lambda route: replace(route, credentials=None),
        lambda route: replace(route, credentials=replace(route.credentials, private_key="other")),
        lambda route: replace(route, credentials=replace(route.credentials, known_hosts="other")),
        lambda route: replace(route, addresses=("192.0.2.2",)),
        lambda route: replace(route, remote=parse_remote("git@git.example.org:bank.git")),
    ],
)
def test_whoever_has_anything_else_does_not(
    shared: SharedSshConnections, changed: Callable[[ServerRoute], ServerRoute]
) -> None:
    shared.open()
    assert shared.options(SHOP, changed(ROUTE)) != shared.options(SHOP, ROUTE)


def test_no_two_repositories_share(shared: SharedSshConnections) -> None:
    shared.open()
    assert shared.options(BANK, ROUTE) != shared.options(SHOP, ROUTE)


async def test_a_connection_is_used_for_minutes_only(
    shared: SharedSshConnections, clock: FakeClock
) -> None:
    shared.open()
    first = shared.options(SHOP, ROUTE)
    await clock.advance(301)
    assert shared.options(SHOP, ROUTE) != first


def test_through_a_proxy_nothing_is_shared(shared: SharedSshConnections) -> None:
    shared.open()
    through = replace(ROUTE.outbound, proxy="http://proxy:1")
    assert shared.options(SHOP, replace(ROUTE, outbound=through)) == {}


@pytest.mark.parametrize(("length", "is_used"), [(56, True), (57, False)])
def test_a_socket_has_a_path_that_every_system_takes(
    shared: SharedSshConnections, monkeypatch: pytest.MonkeyPatch, length: int, is_used: bool
) -> None:
    """Also with the 17 bytes that ssh adds while it makes it; else each command would fail."""
    most = length - len(f"/towline-ssh-{os.getuid()}")
    folder = Path(tempfile.gettempdir())
    folder /= "x" * (most - len(str(folder)) - 1)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    shared.open()
    path = shared.options(SHOP, ROUTE).get("ControlPath", "")
    assert bool(path) == is_used and len(path) + 17 <= 103


@pytest.fixture
def heir() -> Iterator[None]:
    """Orphans come to this process, as they do to the first one of a container."""
    set_child_subreaper = 36
    prctl = ctypes.CDLL(None).prctl
    prctl(set_child_subreaper, 1, 0, 0, 0)
    yield
    prctl(set_child_subreaper, 0, 0, 0, 0)


@pytest.mark.usefixtures("heir")
def test_connections_that_have_ended_leave_no_process_behind(shared: SharedSshConnections) -> None:
    """No others are waited for: somebody else does."""
    program = Path(tempfile.gettempdir()) / "ssh"
    program.symlink_to(shutil.which("cat") or "cat")
    # It ends once its parent has, which might reap it otherwise.
    reads, writes = os.pipe()
    command = ["sh", "-c", f"exec 3<&0; {program} <&3 >/dev/null & echo $!"]
    left = int(subprocess.check_output(command, stdin=reads))
    os.close(reads)
    os.close(writes)
    other = subprocess.Popen(["sh", "-c", "exit 3"])
    for pid in (left, other.pid):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    shared.open()
    shared.options(SHOP, ROUTE)
    assert not Path(f"/proc/{left}").exists()
    assert other.wait() == 3


async def test_connections_are_ended_together(
    shared: SharedSshConnections, clock: FakeClock
) -> None:
    """Each waits here for all others to be asked, too: one after the other none would end."""
    shared.open()
    folder = Path(shared.options(SHOP, ROUTE)["ControlPath"]).parent
    program = folder / "ssh"
    program.write_text(
        f"#!/bin/sh\ncd {folder}; touch asked-$$\n"
        "until [ $(ls | grep -c asked) = 3 ]; do sleep 0.02; done\ntouch ended-$$\n"
    )
    program.chmod(0o700)
    several = SharedSshConnections(clock, str(program))
    several.open()
    for repository in (SHOP, BANK, RepositoryId("bakery")):
        Path(several.options(repository, ROUTE)["ControlPath"]).touch()
    await several.close()
    assert len(list(folder.glob("ended-*"))) == 3


def test_a_folder_that_others_can_enter_is_not_used(shared: SharedSshConnections) -> None:
    shared.open()
    folder = Path(shared.options(SHOP, ROUTE)["ControlPath"]).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    for mode, is_used in ((0o2700, True), (0o755, False), (0o770, False)):
        folder.chmod(mode)
        again = SharedSshConnections(FakeClock(), "ssh")
        again.open()
        assert bool(again.options(SHOP, ROUTE)) == is_used
