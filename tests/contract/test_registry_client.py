"""The registry client against a real registry, and against a fake one that signs in by tokens."""

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from controlplane.repositories.registry import ImageRegistries
from core.errors import Invalid, NotFound, Unavailable
from core.outbound.addresses import AddressGuard
from core.outbound.client import OutboundClient
from core.outbound.credentials import RegistryAccount
from core.outbound.oci import MAX_TAGS, OciRegistryClient, descriptor_digest
from core.outbound.reply import MAX_REPLY_BYTES, HttpReply
from core.runtime.clock import SystemClock
from core.spec.images import OciRepository
from tests.fakes.registry import FakeRegistry
from tests.servers.registry import PASSWORD, USER, Registry, find_registry

THEN = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = RegistryAccount(USER, PASSWORD)
WRONG = RegistryAccount(USER, "wrong")
TEST = OciRepository("registry.test", "shop")


@pytest.fixture(scope="module")
def real() -> Iterator[Registry]:
    program = find_registry()
    if program is None:
        pytest.skip("no docker-registry on this machine: your system's package manager has it")
    with Registry(program) as running:
        yield running


@pytest.fixture(params=["bearer", "basic", "real"])
async def registry(request: pytest.FixtureRequest) -> AsyncIterator[FakeRegistry | Registry]:
    """A registry that admits only `ACCOUNT`."""
    if request.param == "real":
        yield request.getfixturevalue("real")
        return
    async with FakeRegistry(request.param, USER, PASSWORD).running() as running:
        yield running


@pytest.fixture
async def fake() -> AsyncIterator[FakeRegistry]:
    """A registry with tokens for everybody."""
    async with FakeRegistry().running() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[OutboundClient]:
    client = OutboundClient(AddressGuard(("127.0.0.0/8",)))
    yield client
    await client.close()


@pytest.fixture
def client(http: OutboundClient) -> OciRegistryClient:
    return OciRegistryClient(http, SystemClock(), tags_per_page=2)


async def test_all_pages_of_tags_are_read_where_one_signs_in(
    registry: FakeRegistry | Registry, client: OciRegistryClient
) -> None:
    tags = [f"1.{number}" for number in range(5)]
    for tag in tags:
        registry.push("team/shop", tag, THEN)
    place = OciRepository(registry.host, "team/shop")
    assert sorted(await client.tags(place, ACCOUNT)) == tags
    for account in (None, WRONG):
        with pytest.raises(Unavailable) as error:
            await client.tags(place, account)
        assert PASSWORD not in error.value.message
    with pytest.raises((NotFound, Unavailable)):
        await client.tags(OciRepository(registry.host, "team/nothing"), ACCOUNT)


async def test_digests_and_times_are_those_that_were_pushed(
    registry: FakeRegistry | Registry, client: OciRegistryClient
) -> None:
    """A tag that moves has another digest; an image of several platforms has a time, too."""
    images, image = ImageRegistries(client), f"{registry.host}/web"
    first = registry.push("web", "live", THEN)
    assert await images.digest(image, "live", ACCOUNT) == first
    assert await images.build_time(image, "live", ACCOUNT) == THEN
    later = THEN + timedelta(days=1)
    second = registry.push("web", "live", later, index=True)
    assert await images.digest(image, "live", ACCOUNT) == second != first
    assert await images.build_time(image, "live", ACCOUNT) == later


async def test_content_is_read_by_digest_within_a_limit(
    registry: FakeRegistry | Registry, client: OciRegistryClient
) -> None:
    digest = registry.push("web", "live", THEN)
    place = OciRepository(registry.host, "web")
    manifest = await client.manifest(place, "live", ACCOUNT)
    assert await client.manifest(place, digest, ACCOUNT) == manifest
    config = descriptor_digest(place, manifest["config"])
    content = await client.blob(place, config, ACCOUNT)
    assert "sha256:" + hashlib.sha256(content).hexdigest() == config
    with pytest.raises(Invalid, match="more than the limit of 10 bytes"):
        await client.blob(place, config, ACCOUNT, 10)


async def test_a_sign_in_serves_all_requests_of_its_account_and_repository(
    fake: FakeRegistry, client: OciRegistryClient
) -> None:
    fake.page = 2
    for name in ("shop", "bank"):
        for number in range(5):
            fake.push(name, f"1.{number}")
    shop, bank = OciRepository(fake.host, "shop"), OciRepository(fake.host, "bank")
    for _ in range(2):
        await client.tags(shop, None)
    assert fake.tokens == 1
    await client.tags(shop, ACCOUNT)
    await client.tags(bank, None)
    assert fake.tokens == 3


async def test_a_build_time_is_asked_once_a_digest(
    fake: FakeRegistry, client: OciRegistryClient
) -> None:
    images, image = ImageRegistries(client), f"{fake.host}/shop"
    fake.push("shop", "b", THEN, index=True)
    await images.build_time(image, "b", None)
    before = len(fake.asked)
    assert await images.build_time(image, "b", None) == THEN
    assert len(fake.asked) == before + 1


async def test_the_date_of_a_digest_counts_for_its_own_image_only(
    fake: FakeRegistry, client: OciRegistryClient
) -> None:
    """An image with the digest of another must not set its date."""
    images = ImageRegistries(client)
    fake.scheme = ""
    fake.claim("evil", "a", fake.push("shop", "a", THEN))
    await images.build_time(f"{fake.host}/evil", "a", None)
    before = len(fake.asked)
    await images.build_time(f"{fake.host}/shop", "a", None)
    assert len(fake.asked) == before + 3


async def test_a_registry_rate_limit_carries_its_retry_after(
    fake: FakeRegistry, client: OciRegistryClient
) -> None:
    place = OciRepository(fake.host, "shop")
    with pytest.raises(NotFound):
        await client.tags(place, None)
    fake.refuse = 1
    with pytest.raises(Unavailable, match="429") as error:
        await client.tags(place, None)
    assert error.value.retry_after == 120


async def test_addresses_that_are_not_public_are_refused(fake: FakeRegistry) -> None:
    http = OutboundClient(AddressGuard())
    with pytest.raises(Unavailable, match="private address"):
        await OciRegistryClient(http, SystemClock()).tags(OciRepository(fake.host, "shop"), None)
    assert not fake.asked
    await http.close()


class Replies:
    """Answers every request with `reply`; remembers the URLs and headers."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.reply = HttpReply(status, headers, body)
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = MAX_REPLY_BYTES,
        redirects: int = 0,
    ) -> HttpReply:
        self.asked.append((url, headers))
        return self.reply


def tags_of(*tags: object) -> Replies:
    return Replies(200, {}, orjson.dumps({"tags": tags}))


@pytest.mark.parametrize(
    "replies",
    [
        Replies(200, {"link": '<http://[>; rel="next"'}, b'{"tags": 5}'),
        Replies(200, {"link": '<https://evil.test/v2/shop/tags/list?n=1>; rel="next"'}, b"{}"),
        Replies(200, {"link": '</v2/bank/tags/list?n=1>; rel="next"'}, b"{}"),
        Replies(200, {}, b"[]"),
        Replies(302, {"location": "http://["}),
        Replies(302, {"location": "http://registry.test/v2/shop/tags/list"}),
        Replies(401, {"www-authenticate": 'Bearer realm="https://["'}),
        Replies(401, {"www-authenticate": "Negotiate"}),
    ],
)
async def test_malformed_registry_responses_raise_unavailable(replies: Replies) -> None:
    with pytest.raises(Unavailable):
        await OciRegistryClient(replies, SystemClock()).tags(TEST, None)
    assert len(replies.asked) == 1 or replies.asked[1][0].startswith("https://registry.test/")


@pytest.mark.parametrize("host", ["registry.test", "127.0.0.1:5000"])
@pytest.mark.parametrize("realm", ["tokens.test", "127.0.0.1.tokens.test", "10.0.0.1"])
async def test_a_registry_never_hears_credentials_without_tls(host: str, realm: str) -> None:
    """It may name any place to sign in at, but none where others could listen."""
    challenge = f'Bearer realm="http://{realm}/token",service="x"'
    replies = Replies(401, {"www-authenticate": challenge})
    with pytest.raises(Unavailable, match=f"{realm} without TLS"):
        await OciRegistryClient(replies, SystemClock()).tags(OciRepository(host, "shop"), ACCOUNT)
    assert [headers for _, headers in replies.asked] == [{"accept": "application/json"}]


async def test_a_remote_registry_sends_no_credentials_to_this_machine() -> None:
    challenge = 'Bearer realm="http://127.0.0.1/token"'
    replies = Replies(401, {"www-authenticate": challenge})
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1 without TLS"):
        await OciRegistryClient(replies, SystemClock()).tags(TEST, ACCOUNT)


async def test_a_registry_gets_a_token_for_the_asked_repository_only() -> None:
    """Its challenge may name another scope."""
    challenge = 'Bearer realm="https://tokens.test/token",scope="repository:bank:push"'
    replies = Replies(401, {"www-authenticate": challenge})
    with pytest.raises(Unavailable, match="rejected the credentials"):
        await OciRegistryClient(replies, SystemClock()).tags(TEST, ACCOUNT)
    assert replies.asked[1][0].endswith("scope=repository%3Ashop%3Apull")


async def test_content_with_another_digest_is_refused() -> None:
    client = OciRegistryClient(Replies(200, {}, b"{}"), SystemClock())
    digest = "sha256:" + "0" * 64
    for read in (client.blob, client.manifest):
        with pytest.raises(Unavailable, match="does not match the digest"):
            await read(TEST, digest, None)


async def test_invalid_tags_are_ignored() -> None:
    """It would end up in messages of commits, and in files."""
    replies = tags_of("1.0", "a\nSigned-off-by: eve", "..", "\u0661", "x" * 129, 7)
    assert await OciRegistryClient(replies, SystemClock()).tags(TEST, None) == ["1.0"]


async def test_too_many_tags_are_said_and_not_cut() -> None:
    replies = tags_of(*(f"1.{number}" for number in range(MAX_TAGS + 1)))
    with pytest.raises(Invalid, match="20,000 tags"):
        await OciRegistryClient(replies, SystemClock()).tags(TEST, None)


async def test_pages_without_an_end_are_said() -> None:
    replies = Replies(200, {"link": '</v2/shop/tags/list?n=1>; rel="next"'}, b'{"tags": ["1"]}')
    with pytest.raises(Invalid, match="50 pages"):
        await OciRegistryClient(replies, SystemClock()).tags(TEST, None)


@pytest.mark.parametrize("host", ["docker.io", "index.docker.io"])
async def test_docker_hub_is_asked_at_its_registry(host: str) -> None:
    replies = tags_of("1")
    await OciRegistryClient(replies, SystemClock()).tags(OciRepository(host, "library/a"), None)
    assert replies.asked[0][0].startswith("https://registry-1.docker.io/v2/library/a/")
