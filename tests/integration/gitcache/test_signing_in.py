"""Signing in over https: authorities, client certificates, proxies, GitHub Apps, agents."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import jwt
import pytest
from aiohttp import ClientSession, web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.types import Options

from core.errors import Invalid, Unavailable
from core.identity import ClusterId
from core.runtime.clock import Clock, SystemClock
from core.spec.source import GitCredentials, RepositorySpec
from gitcache.mirror.ls_remote import AdaptiveRefLister
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.transport.route import CredentialsRefused
from tests.fakes.clock import FakeClock
from tests.fakes.connectproxy import ConnectProxy
from tests.fakes.tls import TestAuthority
from tests.integration.gitcache.stand import spec
from towline.demo.git_server import GitServer, ServedRepository

MAIN = "refs/heads/main"
KEPT = ("Content-Type", "Content-Encoding", "Accept", "Git-Protocol", "Authorization")
APP_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
APP_PEM = APP_KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.TraditionalOpenSSL,
    serialization.NoEncryption(),
).decode()


class Front:
    """A server in front of the git server: TLS if asked for, and GitHub's interface for Apps.

    `tokens` is how many installation tokens were given; only the newest opens the repository
    once there is one. `clock` says when they expire.
    """

    def __init__(self, git_server: GitServer, clock: Clock) -> None:
        self._git_server = git_server
        self._clock = clock
        self.tokens = 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v3/app/installations/7/access_tokens":
            return self._token(request)
        url = f"http://127.0.0.1:{self._git_server.port}{request.raw_path}"
        headers = {name: request.headers[name] for name in KEPT if name in request.headers}
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(
                request.method, url, data=await request.read(), headers=headers
            ) as answer,
        ):
            response_headers = {"Content-Type": answer.headers.get("Content-Type", "text/plain")}
            return web.Response(
                status=answer.status, body=await answer.read(), headers=response_headers
            )

    def _token(self, request: web.Request) -> web.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        options: Options = {"verify_exp": False, "verify_iat": False}
        claims = jwt.decode(token, APP_KEY.public_key(), algorithms=["RS256"], options=options)
        assert claims["iss"] == "42" and claims["exp"] - claims["iat"] <= 600
        self.tokens += 1
        text = f"ghs_canary{self.tokens}"
        self._git_server.create_repository("shop", username="x-access-token", password=text)
        expires = self._clock.now() + timedelta(hours=1)
        return web.json_response({"token": text, "expires_at": expires.isoformat()}, status=201)

    async def run(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        """Serve on a free port."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self.answer)
        running = web.AppRunner(app)
        await running.setup()
        await web.TCPSite(running, "127.0.0.1", 0, ssl_context=tls).start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{running.addresses[0][1]}"
        yield
        await running.cleanup()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    folder = tmp_path / "tls"
    folder.mkdir()
    return TestAuthority(folder)


@pytest.fixture
async def front(git_server: GitServer, clock: FakeClock) -> AsyncIterator[Front]:
    """Plain http."""
    front = Front(git_server, clock)
    async for _ in front.run():
        yield front


@pytest.fixture
async def secure(git_server: GitServer, authority: TestAuthority) -> AsyncIterator[Front]:
    """TLS by an authority of the test, which asks for a certificate of it too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    front = Front(git_server, SystemClock())
    async for _ in front.run(context):
        yield front


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


class Sides:
    """A mirror that is closed at the end, made with what a test gives."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._made: list[GitMirror] = []

    async def make(
        self, clock: Clock | None = None, egress: object = None, **options: object
    ) -> GitMirror:
        given = MirrorOptions(**{"request_seconds": 10, **options})  # ty: ignore[invalid-argument-type]
        mirror = GitMirror(
            self._home,
            given,
            clock or SystemClock(),
            egress=egress,  # ty: ignore[invalid-argument-type]
        )
        await mirror.open()
        self._made.append(mirror)
        return mirror

    async def close(self) -> None:
        for mirror in self._made:
            await mirror.close()


@pytest.fixture
async def sides(tmp_path: Path) -> AsyncIterator[Sides]:
    sides = Sides(tmp_path / "home")
    yield sides
    await sides.close()


def certificate(authority: TestAuthority) -> GitCredentials:
    """What opens the server that asks for a certificate."""
    return GitCredentials(
        authority=authority.ca.read_text(),
        client_certificate=authority.certificate.read_text(),
        client_key=authority.key.read_text(),
    )


async def use(mirror: GitMirror, follow: RepositorySpec, sha: str) -> None:
    """List and fetch, by the request of our own and by git itself."""
    for lister in (mirror.http_lister, mirror.git_lister):
        assert (await lister.list_refs(follow, [MAIN]))[MAIN] == sha
    await mirror.clones.fetch(follow, {"m": sha})
    assert await mirror.clones.pins(follow) == {"m": sha}


async def test_a_client_certificate_and_an_authority_of_its_own(
    sides: Sides, secure: Front, repository: ServedRepository, authority: TestAuthority
) -> None:
    sha = repository.commit({"a": "1"})
    mirror = await sides.make()
    await use(mirror, spec(f"{secure.url}/shop.git", credentials=certificate(authority)), sha)


@pytest.mark.parametrize("lister", ["http_lister", "git_lister"])
async def test_without_authority_or_certificate_the_reason_is_named(
    sides: Sides, secure: Front, repository: ServedRepository, authority: TestAuthority, lister: str
) -> None:
    repository.commit({"a": "1"})
    mirror = await sides.make()
    asked: AdaptiveRefLister = getattr(mirror, lister)
    untrusted = spec(f"{secure.url}/shop.git")
    with pytest.raises(Unavailable, match=r"not trusted|certificate"):
        await asked.list_refs(untrusted, [MAIN])
    nameless = replace(untrusted, credentials=GitCredentials(authority=authority.ca.read_text()))
    with pytest.raises(Unavailable):
        await asked.list_refs(nameless, [MAIN])


@pytest.mark.parametrize("field", ["authority", "client_certificate", "client_key"])
async def test_pem_that_cannot_be_used_is_named_and_not_shown(
    sides: Sides, authority: TestAuthority, field: str
) -> None:
    broken = replace(certificate(authority), **{field: "-----BEGIN canary"})
    mirror = await sides.make()
    with pytest.raises(Invalid, match=r"authority|certificate") as caught:
        await mirror.lister.list_refs(spec("https://127.0.0.1:1/x", credentials=broken), [MAIN])
    assert "canary" not in str(caught.value)


async def test_an_installation_s_proxy_and_authority_serve_all_repositories(
    sides: Sides, secure: Front, repository: ServedRepository, authority: TestAuthority
) -> None:
    """Names are looked up by the proxy, so that this machine need not know them."""
    sha = repository.commit({"a": "1"})
    given = replace(certificate(authority), authority=None)
    async with ConnectProxy() as proxy:
        mirror = await sides.make(proxy=proxy.url, authority=authority.ca.read_text())
        await use(mirror, spec(f"{secure.url}/shop.git", credentials=given), sha)
        assert set(proxy.targets) == {secure.url.removeprefix("https://")}
        await mirror.close()


async def test_a_proxy_that_refuses_is_named_without_its_password(
    sides: Sides, secure: Front, authority: TestAuthority
) -> None:
    async with ConnectProxy() as proxy:
        wrong = proxy.url.replace("secret", "canary")
        given = replace(certificate(authority), proxy=wrong)
        follow = spec(f"{secure.url}/shop.git", credentials=given)
        mirror = await sides.make()
        for lister in (mirror.http_lister, mirror.git_lister):
            with pytest.raises(Unavailable, match=r"407|proxy") as caught:
                await lister.list_refs(follow, [MAIN])
            assert "canary" not in str(caught.value)


async def test_a_repository_s_own_proxy_must_be_at_an_allowed_address(sides: Sides) -> None:
    """Else anyone who adds a repository could reach what the installation does not allow."""
    mirror = await sides.make(allow_private_hosts=False)
    for proxy in ("http://127.0.0.1:3128", "http://localhost:3128"):
        follow = spec("https://192.0.2.1/x", credentials=GitCredentials(proxy=proxy))
        with pytest.raises(Invalid, match="not allowed"):
            await mirror.http_lister.list_refs(replace(follow, url="https://one.one/x"), [MAIN])


def app(front: Front, **more: str) -> RepositorySpec:
    """The repository as a GitHub App reads it."""
    given = {"app_id": "42", "installation_id": "7", "private_key": APP_PEM} | more
    return spec(f"{front.url}/shop.git", credentials=GitCredentials(**given))


async def test_an_app_s_token_is_asked_for_once_and_renewed_before_it_expires(
    sides: Sides, front: Front, repository: ServedRepository, clock: FakeClock
) -> None:
    sha = repository.commit({"a": "1"})
    mirror = await sides.make(clock)
    await use(mirror, app(front), sha)
    assert front.tokens == 1
    await clock.advance(3300)
    await use(mirror, app(front), sha)
    assert front.tokens == 2


async def test_a_token_that_is_revoked_early_is_replaced_by_a_new_one(
    sides: Sides,
    front: Front,
    repository: ServedRepository,
    clock: FakeClock,
    git_server: GitServer,
) -> None:
    """In the middle of following: the next poll, and the next fetch of git itself."""
    sha = repository.commit({"a": "1"})
    mirror = await sides.make(clock)
    await use(mirror, app(front), sha)
    for number, lister in enumerate((mirror.http_lister, mirror.git_lister)):
        await clock.advance(60)
        git_server.create_repository("shop", username="x-access-token", password=f"r{number}")
        assert (await lister.list_refs(app(front), [MAIN]))[MAIN] == sha
    assert front.tokens == 3


async def test_a_token_that_expires_between_refs_and_pack_is_renewed_for_the_pack(
    sides: Sides,
    front: Front,
    repository: ServedRepository,
    clock: FakeClock,
    git_server: GitServer,
) -> None:
    """The first clone, and a small change after it: each fetch goes on with a new token."""
    mirror = await sides.make(clock)
    for number in range(2):
        sha = repository.commit({"a": str(number)})
        assert (await mirror.lister.list_refs(app(front), [MAIN]))[MAIN] == sha
        await clock.advance(60)
        git_server.create_repository("shop", username="x-access-token", password=f"e{number}")
        await mirror.clones.fetch(app(front), {"m": sha})
        assert (await mirror.clones.pins(app(front)))["m"] == sha
    assert front.tokens == 3


async def test_a_new_token_that_is_refused_is_not_asked_for_again_and_again(
    sides: Sides,
    front: Front,
    repository: ServedRepository,
    clock: FakeClock,
    git_server: GitServer,
) -> None:
    repository.commit({"a": "1"})
    mirror = await sides.make(clock)
    await mirror.lister.list_refs(app(front), [MAIN])
    git_server.create_repository("shop", username="x-access-token", password="other")
    for _ in range(3):
        with pytest.raises(CredentialsRefused):
            await mirror.lister.list_refs(app(front), [MAIN])
    assert front.tokens == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"installation_id": "8"}, "refused a token for installation 8 of App 42"),
        ({"private_key": "canary"}, "not an RSA key"),
        ({"api_url": "http://169.254.169.254/api"}, "not allowed"),
    ],
)
async def test_an_app_that_cannot_sign_in_is_named(
    sides: Sides, front: Front, more: dict[str, str], reason: str
) -> None:
    mirror = await sides.make()
    with pytest.raises((Unavailable, Invalid), match=reason) as caught:
        await mirror.lister.list_refs(app(front, **more), [MAIN])
    assert "canary" not in str(caught.value)


class Agents:
    """The way out through a cluster's agent, in a test: `url`, or why there is none."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.away = False
        self.asked = 0

    async def proxy_url(self, cluster_id: ClusterId) -> str:
        self.asked += 1
        if self.away:
            raise Unavailable(f"the agent of {cluster_id} is not connected")
        return self.url


async def test_a_repository_is_reached_through_a_cluster_s_agent(
    sides: Sides, secure: Front, repository: ServedRepository, authority: TestAuthority
) -> None:
    sha = repository.commit({"a": "1"})
    follow = spec(f"{secure.url}/shop.git", credentials=certificate(authority))
    follow = replace(follow, via=ClusterId("edge"))
    async with ConnectProxy() as proxy:
        agents = Agents(proxy.url)
        mirror = await sides.make(egress=agents)
        await use(mirror, follow, sha)
        assert proxy.targets and agents.asked == 1
        await mirror.close()
    agents.away = True
    mirror = await sides.make(egress=agents)
    with pytest.raises(Unavailable, match="agent of edge is not connected"):
        await mirror.lister.list_refs(follow, [MAIN])
    assert await mirror.clones.pins(follow) == {"m": sha}


async def test_an_absent_agent_is_named_in_the_error(
    sides: Sides, secure: Front, repository: ServedRepository, authority: TestAuthority
) -> None:
    repository.commit({"a": "1"})
    follow = spec(f"{secure.url}/shop.git", credentials=certificate(authority))
    follow = replace(follow, via=ClusterId("edge"))
    proxy = ConnectProxy()
    async with proxy:
        agents = Agents(proxy.url)
        mirror = await sides.make(egress=agents)
        await mirror.lister.list_refs(follow, [MAIN])
    agents.away = True
    with pytest.raises(Unavailable, match="agent of edge is not connected"):
        await mirror.lister.list_refs(follow, [MAIN])


@pytest.mark.parametrize(("url", "reason"), [("http://x.test/y", "only https and ssh")])
async def test_plain_http_does_not_go_through_an_agent(sides: Sides, url: str, reason: str) -> None:
    mirror = await sides.make(egress=Agents(""))
    with pytest.raises(Invalid, match=reason):
        await mirror.lister.list_refs(replace(spec(url), via=ClusterId("edge")), [MAIN])
