"""Repositories over a real ssh server: keys, host keys, proxies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Unavailable
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.transport.route import CredentialsRefused
from tests.fakes.connectproxy import ConnectProxy
from tests.integration.gitcache.stand import spec
from tests.servers.sshd import Sshd, find_sshd
from towline.demo.git_server import GitServer, ServedRepository

MAIN = "refs/heads/main"
KEY = Ed25519PrivateKey.generate()
PUBLIC = (
    KEY.public_key()
    .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    .decode()
)
OTHER = (
    Ed25519PrivateKey.generate()
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    .decode()
)


@cache
def sealed_key() -> str:
    """The private key under a passphrase, which is slow to seal on purpose."""
    return KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.BestAvailableEncryption(b"open sesame"),
    ).decode()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """An ssh server that lets the test's key in."""
    program = find_sshd()
    if program is None:
        pytest.skip("no ssh server that this user could run: .ci/run installs one")
    folder = tmp_path / "sshd"
    folder.mkdir()
    server = Sshd(folder, program)
    server.admit(PUBLIC)
    with server:
        yield server


@pytest.fixture
async def mirror(tmp_path: Path) -> AsyncIterator[GitMirror]:
    """The git side; it trusts no ssh server by itself."""
    one = GitMirror(tmp_path / "home", MirrorOptions(request_seconds=15), SystemClock())
    await one.open()
    yield one
    await one.close()


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


def over_ssh(
    sshd: Sshd, repository: ServedRepository, *, known: str | None = None, proxy: str | None = None
) -> RepositorySpec:
    """The repository by its ssh URL, with the test's key."""
    credentials = GitCredentials(
        private_key=sealed_key(), passphrase="open sesame", known_hosts=known, proxy=proxy
    )
    url = f"ssh://{sshd.user}@127.0.0.1:{sshd.port}{repository.path}"
    return spec(url, credentials=credentials)


async def test_a_key_with_a_passphrase_reads_a_host_that_the_repository_knows(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    sha = repository.commit({"a": "1"})
    follow = over_ssh(sshd, repository, known=sshd.known_hosts)
    assert await mirror.lister.list_refs(follow, [MAIN]) == {MAIN: sha}
    await mirror.clones.fetch(follow, {"m": sha})
    second = repository.commit({"a": "2"})
    await mirror.clones.fetch(follow, {"m": second})
    assert await mirror.clones.pins(follow) == {"m": second}


async def test_a_repository_signs_in_once_for_many_polls_and_each_for_itself(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    repository.commit({"a": "1"})
    one = over_ssh(sshd, repository, known=sshd.known_hosts)
    for _ in range(3):
        await mirror.lister.list_refs(one, [MAIN])
    assert sshd.signed_in() == 1
    await mirror.lister.list_refs(replace(one, id=RepositoryId("another")), [MAIN])
    assert sshd.signed_in() == 2


async def test_new_credentials_are_not_answered_on_an_old_connection(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    repository.commit({"a": "1"})
    follow = over_ssh(sshd, repository, known=sshd.known_hosts)
    await mirror.lister.list_refs(follow, [MAIN])
    for given in (
        replace(follow.credentials or GitCredentials(), private_key=OTHER, passphrase=None),
        replace(follow.credentials or GitCredentials(), known_hosts=None),
        None,
    ):
        with pytest.raises(Unavailable):
            await mirror.lister.list_refs(replace(follow, credentials=given), [MAIN])


async def test_no_connection_outlives_the_mirror(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    repository.commit({"a": "1"})
    follow = over_ssh(sshd, repository, known=sshd.known_hosts)
    await mirror.lister.list_refs(follow, [MAIN])
    await mirror.connections.close()
    async with asyncio.timeout(60):
        while sshd.connections():
            await asyncio.sleep(0.02)


async def test_an_unknown_host_is_refused_with_the_fingerprint_to_compare(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    follow = over_ssh(sshd, repository)
    with pytest.raises(Unavailable, match="is not known") as caught:
        await mirror.lister.list_refs(follow, [MAIN])
    assert sshd.fingerprint in caught.value.message


async def test_a_host_with_another_key_is_refused_as_such(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    old = sshd.known_hosts
    sshd.__exit__()
    sshd.new_host_key()
    sshd.__enter__()
    follow = over_ssh(sshd, repository, known=old)
    with pytest.raises(Unavailable, match="a host key that differs from the known one") as caught:
        await mirror.lister.list_refs(follow, [MAIN])
    assert sshd.fingerprint in caught.value.message


async def test_a_server_that_is_not_there_is_named_so(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    follow = over_ssh(sshd, repository, known=sshd.known_hosts)
    sshd.__exit__()
    with pytest.raises(Unavailable, match=rf"port {sshd.port}: Connection refused"):
        await mirror.lister.list_refs(follow, [MAIN])
    sshd.__enter__()


async def test_a_key_that_is_not_admitted_is_named_so(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    sshd.admit("")
    follow = over_ssh(sshd, repository, known=sshd.known_hosts)
    with pytest.raises(CredentialsRefused, match="refused the credentials"):
        await mirror.lister.list_refs(follow, [MAIN])


async def test_ssh_goes_through_a_proxy(
    mirror: GitMirror, sshd: Sshd, repository: ServedRepository
) -> None:
    sha = repository.commit({"a": "1"})
    async with ConnectProxy("user", "pr0xy-secret") as proxy:
        follow = over_ssh(sshd, repository, known=sshd.known_hosts, proxy=proxy.url)
        assert await mirror.lister.list_refs(follow, [MAIN]) == {MAIN: sha}
        assert proxy.targets == [f"127.0.0.1:{sshd.port}"]
        wrong = over_ssh(
            sshd,
            repository,
            known=sshd.known_hosts,
            proxy=proxy.url.replace("pr0xy-secret", "wr0ng"),
        )
        with pytest.raises(Unavailable) as caught:
            await mirror.lister.list_refs(wrong, [MAIN])
        assert "proxy refused" in caught.value.message and "wr0ng" not in caught.value.message
