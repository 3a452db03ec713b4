"""Reaching servers: ssh keys, servers of the old protocol, redirects, refused addresses."""

import asyncio
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.outbound.addresses import EVERYWHERE, AddressGuard
from core.runtime.clock import SystemClock
from core.spec.source import GitCredentials
from gitcache.mirror.ls_remote import GitRefLister
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.remote_git import RemoteGit
from gitcache.mirror.runner import GitError, GitRunner
from gitcache.mirror.transport.app_tokens import AppTokens
from gitcache.mirror.transport.git_environment import GitEnvironment, environment
from gitcache.mirror.transport.rate_limit import ServerRateLimiter
from gitcache.mirror.transport.route_finder import RouteFinder
from gitcache.sync.cache import GitCache
from tests.fakes.local_server import LocalServer
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import at_commit, spec, until
from towline.demo.git_server import GitServer, ServedRepository

MAIN = "refs/heads/main"
FAKE_SSH = """#!/bin/sh
for word in "$@"; do
  case "$word" in IdentityFile=*) key="${word#IdentityFile=}";; esac
  command="$word"
done
echo "$@" >> "$(dirname "$0")/arguments"
ssh-keygen -y -f "$key" >> "$(dirname "$0")/public"
exec sh -c "$command"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of the clones."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def runner(home: Path) -> Iterator[GitRunner]:
    """Runs git."""
    runner = GitRunner(home)
    yield runner
    runner.close()


@asynccontextmanager
async def mirror(home: Path, **options: Any) -> AsyncGenerator[GitMirror]:
    """The git side, closed at the end."""
    one = GitMirror(home, MirrorOptions(request_seconds=10, **options), SystemClock())
    yield one
    await one.close()


@pytest.fixture
async def old_server(git_server: GitServer) -> AsyncIterator[str]:
    """The base URL of a proxy that hides protocol version 2 from the server behind it."""

    async def forward(request: web.Request) -> web.Response:
        url = f"http://127.0.0.1:{git_server.port}{request.raw_path}"
        kept = ("Content-Type", "Content-Encoding", "Accept")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        async with session.request(
            request.method, url, data=await request.read(), headers=headers
        ) as answer:
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                headers={"Content-Type": answer.headers.get("Content-Type", "text/plain")},
            )

    async with ClientSession(auto_decompress=False) as session:
        async for url in serve(forward):
            yield url


async def serve(handler: object) -> AsyncIterator[str]:
    """Answer every request by a handler; the base URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)  # ty: ignore[invalid-argument-type]
    running = web.AppRunner(app)
    await running.setup()
    site = web.TCPSite(running, "127.0.0.1", 0)
    await site.start()
    port = running.addresses[0][1]
    yield f"http://127.0.0.1:{port}"
    await running.cleanup()


async def test_git_runs_where_its_memory_is_limited_already(
    runner: GitRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that is lower than ours may not be raised: git has that one then."""

    def refused(*_: object) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr("resource.prlimit", refused)
    await runner.check_version()


async def test_packing_lets_others_have_the_processor_first(runner: GitRunner) -> None:
    asked = ["-c", "alias.priority=!nice", "priority"]
    env = environment(Path("/"))
    own, packing = [
        int(await runner.run(asked, env, seconds=60, low_priority=one)) for one in (False, True)
    ]
    assert packing == min(own + 10, 19)


async def test_a_server_of_the_old_protocol_is_asked_by_git_itself(
    git_server: GitServer, old_server: str, cache: GitCache
) -> None:
    repository = git_server.create_repository("shop")
    first = repository.commit({"web/a.yaml": config_map("a")})
    cache.follow(spec(f"{old_server}/shop.git"))
    await at_commit(cache, first)
    second = repository.commit({"web/a.yaml": config_map("b")})
    await at_commit(cache, second)
    assert "/shop.git/info/refs?service=git-upload-pack" in git_server.requests


async def test_a_redirect_is_reported_and_not_followed(cache: GitCache) -> None:
    async def move(request: web.Request) -> web.Response:
        target = "http://169.254.169.254/new.git/git-upload-pack?token=s3cret"
        raise web.HTTPMovedPermanently(target)

    async for url in serve(move):
        cache.follow(spec(f"{url}/shop.git"))
        state = await until(cache, lambda state: state.error)
        assert "has moved to 169.254.169.254/new.git" in (state.error or "")
        assert "s3cret" not in (state.error or "")


async def test_an_ssh_key_is_read_from_memory_and_never_from_a_file(
    git_server: GitServer, home: Path, tmp_path: Path
) -> None:
    """The key has a passphrase; ssh sees it without, under a path that is no file on disk."""
    repository = git_server.create_repository("shop")
    sha = repository.commit({"web/a.yaml": config_map("a")})
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"open sesame"),
    ).decode()
    credentials = GitCredentials(private_key=private, passphrase="open sesame")
    ssh = fake_ssh(tmp_path)
    followed = spec(f"ssh://git@127.0.0.1{repository.path}", credentials=credentials)
    async with mirror(home, known_hosts=tmp_path / "known_hosts", ssh=str(ssh)) as one:
        assert await one.lister.list_refs(followed, [MAIN]) == {MAIN: sha}
        await one.clones.fetch(followed, {"x": sha})
        assert await one.clones.pins(followed) == {"x": sha}
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert (tmp_path / "public").read_text().splitlines()[0].split()[:2] == public.decode().split()
    check_ssh_options((tmp_path / "arguments").read_text())


def fake_ssh(folder: Path) -> Path:
    """A program in ssh's place: notes what it is given, runs the command here."""
    path = folder / "ssh"
    path.write_text(FAKE_SSH)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def check_ssh_options(arguments: str) -> None:
    for option in ("StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes"):
        assert option in arguments
    assert "IdentityFile=/proc/" in arguments
    assert "PRIVATE" not in arguments and "sesame" not in arguments


@pytest.mark.parametrize(
    "credentials",
    [
        GitCredentials(private_key="no key"),
        GitCredentials(private_key="-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"),
    ],
)
async def test_a_key_that_cannot_be_read_is_named_and_not_shown(
    home: Path, credentials: GitCredentials
) -> None:
    followed = spec("ssh://git@127.0.0.1/x", credentials=credentials)
    async with mirror(home) as one:
        with pytest.raises(Invalid, match="private key cannot be read") as caught:
            await one.lister.list_refs(followed, [MAIN])
    assert "AAAA" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_private_addresses_are_refused_where_the_setting_says_so(
    git_server: GitServer, home: Path, host: str
) -> None:
    """By address and by a name that leads to one, over both ways to list refs."""
    repository = git_server.create_repository("shop")
    repository.commit({"a": "b"})
    followed = spec(repository.url.replace("127.0.0.1", host))
    async with mirror(home, allow_private_hosts=False) as one:
        for lister in (one.http_lister, one.git_lister):
            with pytest.raises(Invalid, match="private address"):
                await lister.list_refs(followed, [MAIN])
    assert not git_server.requests


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("scheme", ["https", "ssh"])
async def test_a_repository_s_own_proxy_is_no_way_into_private_networks(
    home: Path, host: str, scheme: str
) -> None:
    """By address and by name; with https and ssh; nothing connects to it."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(60))
        writer.close()

    async with LocalServer(serve) as server:
        proxy = f"http://{host}:{server.port}"
        key = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        given = (
            GitCredentials(username="a", password="b", proxy=proxy)
            if scheme == "https"
            else GitCredentials(private_key=key.decode(), known_hosts="x", proxy=proxy)
        )
        user = "git@" if scheme == "ssh" else ""
        followed = spec(f"{scheme}://{user}8.8.8.8/x.git", credentials=given)
        async with mirror(home, allow_private_hosts=False) as one:
            for lister in [one.git_lister, *([one.http_lister] if scheme == "https" else [])]:
                with pytest.raises(Invalid, match="private address"):
                    await lister.list_refs(followed, [MAIN])
    assert asked == []


async def test_git_is_bound_to_the_address_that_was_admitted(
    git_server: GitServer, runner: GitRunner, home: Path
) -> None:
    """A name that would lead elsewhere at the second look (DNS rebinding) gains nothing."""
    repository = git_server.create_repository("shop")
    sha = repository.commit({"a": "b"})

    class Pinned(AddressGuard):
        async def addresses(self, host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

    admission = Pinned(EVERYWHERE)
    clock = SystemClock()
    pacing = ServerRateLimiter(clock, at_once=1, per_second=10)
    async with mirror(home) as one:
        routes = RouteFinder(admission, clock, AppTokens(one.http, clock))
    remotes = RemoteGit(runner, GitEnvironment(home), routes, pacing)
    followed = spec(repository.url.replace("127.0.0.1", "git.invalid"))
    lister = GitRefLister(remotes, seconds=5)
    assert await lister.list_refs(followed, [MAIN]) == {MAIN: sha}


async def test_the_server_s_own_environment_stays_with_it(
    runner: GitRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWLINE_KEY", "canary")
    monkeypatch.setenv("GIT_TRACE", "1")
    out = await runner.run(["-c", "alias.e=!env", "e"], {"PATH": "/usr/bin:/bin"}, seconds=5)
    assert "canary" not in out and "TOWLINE_KEY=\n" in out


async def test_variables_that_git_and_tls_read_are_not_even_empty(
    runner: GitRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list of authorities trusts nobody, and an empty folder is no repository."""
    for name in ("GIT_SSL_CAINFO", "GIT_DIR", "SSL_CERT_FILE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "/somewhere")
    given = {"PATH": "/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0"}
    out = await runner.run(["-c", "alias.e=!env", "e"], given, seconds=5)
    names = {line.partition("=")[0] for line in out.splitlines()}
    assert names.isdisjoint({"GIT_SSL_CAINFO", "GIT_DIR", "SSL_CERT_FILE", "CURL_CA_BUNDLE"})
    assert "GIT_TERMINAL_PROMPT" in names


async def test_a_git_that_takes_too_long_is_killed_with_its_children(runner: GitRunner) -> None:
    with pytest.raises(GitError, match=r"did not finish within 0\.3 s"):
        await runner.run(["-c", "alias.s=!sleep 30", "s"], {"PATH": "/usr/bin:/bin"}, seconds=0.3)


async def test_git_errors_contain_no_secrets(
    git_server: GitServer, runner: GitRunner, home: Path
) -> None:
    secret = "canary-77e0-reaching"
    environment = {"PATH": "/usr/bin:/bin"}
    with pytest.raises(GitError) as caught:
        await runner.run(
            ["ls-remote", f"http://user:{secret}@127.0.0.1:{git_server.port}/none.git"],
            environment,
            seconds=5,
            secrets=[secret],
        )
    assert secret not in caught.value.message and "none.git" in caught.value.message


async def test_an_unreachable_server_is_named(cache: GitCache, git_server: GitServer) -> None:
    repository: ServedRepository = git_server.create_repository("shop")
    git_server.stop()
    cache.follow(spec(repository.url))
    state = await until(cache, lambda state: state.error)
    assert state.error == "127.0.0.1 cannot be reached: connection refused"


async def test_a_name_that_does_not_exist_is_named(cache: GitCache) -> None:
    cache.follow(spec("https://git.invalid/shop.git"))
    state = await until(cache, lambda state: state.error)
    assert "cannot be resolved" in (state.error or "")
