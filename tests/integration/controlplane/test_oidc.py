"""Identity providers, real over HTTP: whose tokens are believed, and who people are here."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import ECAlgorithm

from controlplane.access.model.scim import UserPush
from controlplane.access.model.sign_in import Issuer
from controlplane.access.model.trust_rules import TrustRuleSpec
from controlplane.access.oidc.issuers import OidcClient, OidcIssuers
from controlplane.access.operations.groups import GroupChange
from controlplane.access.operations.role_bindings import BindingDraft
from controlplane.access.operations.scim import ScimDirectory
from controlplane.access.operations.sign_in import ProviderReply
from controlplane.access.operations.trust_rules import TrustRuleChange
from controlplane.access.ports import UserStore
from controlplane.authorization import INSTALLATION, Verb
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.platform.parts import given
from core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated, Unavailable
from core.identity import TokenKind, new_token
from core.outbound.issuers import IssuerHttpClient, check_url
from tests.fakes.issuer import CLIENT, FakeIssuer
from tests.fakes.local_server import LocalServer
from tests.fakes.tls import TestAuthority
from tests.integration.controlplane.conftest import World
from tests.integration.controlplane.signin import REDIRECT, AccessOperations, access_operations
from tests.integration.controlplane.test_directory import PUSHES, account


@pytest.fixture
async def access(world: World) -> AsyncIterator[AccessOperations]:
    async with access_operations(world) as opened:
        yield opened


def at(issuer: FakeIssuer, seconds: int) -> int:
    return int(issuer.clock.now().timestamp()) + seconds


def shared_secret(issuer: FakeIssuer) -> str:
    """HS256 with the public key as secret: what a confused verifier would take."""
    public = issuer.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    header = {"alg": "HS256", "typ": "JWT", "kid": issuer.kid}
    claims = {"iss": issuer.url, "aud": CLIENT, "sub": "u1", "exp": at(issuer, 60)}
    signed = b".".join(_part(json.dumps(one).encode()) for one in (header, claims))
    proof = hmac.new(public, signed, hashlib.sha256).digest()
    return (signed + b"." + _part(proof)).decode()


def _part(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def unsigned(issuer: FakeIssuer) -> str:
    claims = {"iss": issuer.url, "aud": CLIENT, "sub": "u1", "exp": at(issuer, 60)}
    return jwt.encode(claims, "", "none")


def by_a_stranger(issuer: FakeIssuer) -> str:
    """Right in everything but the key, whose id is that of the true one."""
    other = FakeIssuer(issuer.clock)
    other.url = issuer.url
    return other.token()


def of_another_type(issuer: FakeIssuer) -> str:
    """An RSA signature under the id of an EC key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"iss": issuer.url, "aud": CLIENT, "sub": "u1", "exp": at(issuer, 60)}
    return jwt.encode(claims, key, "RS256", {"kid": issuer.kid})


def with_its_own_key(issuer: FakeIssuer) -> str:
    """The header brings a key along, as if it were to be trusted."""
    other = FakeIssuer(issuer.clock)
    other.url, other.kid = issuer.url, "mine"
    own = json.loads(ECAlgorithm.to_jwk(other.key.public_key()))
    return other.token(header={"jwk": own, "jku": "http://127.0.0.1:1/jwks", "x5u": "http://x"})


BAD: dict[str, Callable[[FakeIssuer], str]] = {
    "another audience": lambda i: i.token(aud="grafana"),
    "an audience that only begins alike": lambda i: i.token(aud="towline-dev"),
    "no audience": lambda i: i.token(aud=None),
    "many audiences, made for another": lambda i: i.token(aud=[CLIENT, "x"], azp="x"),
    "another issuer": lambda i: i.token(iss="https://accounts.example.org"),
    "the issuer with a slash more": lambda i: i.token(iss=f"{i.url}/"),
    "another tenant": lambda i: i.token(iss=f"{i.url}/tenant-b"),
    "no issuer": lambda i: i.token(iss=None),
    "expired": lambda i: i.token(exp=at(i, -31)),
    "no expiry": lambda i: i.token(exp=None),
    "an expiry that is text": lambda i: i.token(exp="2099-01-01"),
    "an endless expiry": lambda i: i.token(exp=1e300),
    "not yet good": lambda i: i.token(nbf=at(i, 120)),
    "of the future": lambda i: i.token(iat=at(i, 120)),
    "nobody": lambda i: i.token(sub=None),
    "an empty subject": lambda i: i.token(sub=""),
    "a subject without end": lambda i: i.token(sub="x" * 513),
    "no signature": unsigned,
    "a shared secret": shared_secret,
    "a stranger's key": by_a_stranger,
    "another type of key": of_another_type,
    "a key it brings along": with_its_own_key,
    "a key id that is a path": lambda i: i.token(header={"kid": "../../../../dev/null"}),
    "a key id that is a query": lambda i: i.token(header={"kid": "' OR 1=1 --"}),
    "the id of a symmetric key": lambda i: i.token(header={"kid": "shared"}),
    "something critical": lambda i: i.token(header={"crit": ["b64"], "b64": False}),
    "too long": lambda i: i.token(padding="x" * 50_000),
    "cut": lambda i: i.token()[:-4],
    "changed": lambda i: i.token()[:-6] + "AAAAAA",
    "an agent's token": lambda i: new_token(TokenKind.AGENT),
    "a bootstrap token": lambda i: new_token(TokenKind.BOOTSTRAP),
    "three dots": lambda i: "..",
    "an array": lambda i: "W10.W10.W10",
}


async def test_no_other_token_gets_in(access: AccessOperations) -> None:
    """The matrix: each is refused with a sentence, and makes nobody."""
    let_in = []
    for what, make in BAD.items():
        try:
            await access.identity.authenticate(make(access.issuer))
            let_in.append(what)
        except Unauthenticated:
            pass
    assert let_in == []
    async with access.world.deps.store.read() as tx:
        assert await tx[UserStore].all() == []


async def test_an_agents_call_takes_no_token_of_a_person(access: AccessOperations) -> None:
    """Nor does a person's ID token open the agents' access."""
    with pytest.raises(Unauthenticated, match="deploy token"):
        await access.identity.authenticate_agent(access.issuer.token())


async def test_an_id_token_is_a_bearer_token(access: AccessOperations) -> None:
    """At the API and the access; its user is made with the first, and is the same with the next."""
    first = await access.identity.authenticate(access.issuer.token())
    again = await access.identity.authenticate(access.issuer.token(iat=at(access.issuer, -1)))
    assert (first.id, first.email) == (again.id, "ada@example.org")
    assert first.expires_at is not None and first.policy.grants == ()


async def test_new_keys_are_found_and_forged_ids_cost_nothing(access: AccessOperations) -> None:
    """After a rotation the next token fetches the keys; unknown ids do at most every 10 s."""
    await access.identity.authenticate(access.issuer.token())
    access.issuer.rotate()
    await access.world.clock.advance(11)
    await access.identity.authenticate(access.issuer.token())
    asked = access.issuer.asked.count("jwks")
    for number in range(20):
        with pytest.raises(Unauthenticated):
            await access.identity.authenticate(access.issuer.token(header={"kid": f"no{number}"}))
    assert access.issuer.asked.count("jwks") == asked


async def test_known_keys_serve_while_the_provider_is_away(access: AccessOperations) -> None:
    """Known users can sign in again; users who need the provider get an error that it is away."""
    await access.identity.authenticate(access.issuer.token())
    access.issuer.is_away = True
    await access.world.clock.advance(3601)
    await access.identity.authenticate(access.issuer.token(jti="again"))
    with pytest.raises(Unavailable, match="status 503"):
        await access.signin.begin_oidc("corp", REDIRECT, "/", "10.0.0.1")


async def test_a_provider_that_is_away_is_asked_every_ten_seconds(access: AccessOperations) -> None:
    """Also while nobody has come before; known keys stay, and are renewed once it is back."""
    access.issuer.is_away = True
    for _ in range(5):
        with pytest.raises(Unavailable, match="status 503"):
            await access.identity.authenticate(access.issuer.token())
    assert access.issuer.asked == ["discovery"]
    access.issuer.is_away = False
    await access.world.clock.advance(11)
    await access.identity.authenticate(access.issuer.token())
    access.issuer.is_away = True
    await access.world.clock.advance(3601)
    asked = len(access.issuer.asked)
    for number in range(5):
        await access.identity.authenticate(access.issuer.token(jti=f"{number}"))
    assert len(access.issuer.asked) == asked + 1
    access.issuer.is_away = False
    await access.world.clock.advance(11)
    await access.identity.authenticate(access.issuer.token(jti="back"))
    assert access.issuer.asked[asked + 1 :] == ["discovery", "jwks"]


async def test_a_known_key_waits_for_no_fetch(access: AccessOperations) -> None:
    """A forged key id makes the issuer's metadata wait; the others sign in meanwhile."""
    await access.identity.authenticate(access.issuer.token())
    await access.world.clock.advance(11)
    access.issuer.answers.clear()
    forged = access.issuer.token(header={"kid": "forged"})
    waiting = asyncio.ensure_future(access.identity.authenticate(forged))
    async with asyncio.timeout(5):
        while access.issuer.asked[-2:] != ["jwks", "jwks"]:
            await asyncio.sleep(0.01)
        await access.identity.authenticate(access.issuer.token(jti="other"))
    assert not waiting.done()
    access.issuer.answers.set()
    with pytest.raises(Unauthenticated):
        await waiting


async def test_a_browser_signs_in_by_code_with_proof(access: AccessOperations) -> None:
    """Code, PKCE, state and nonce; then a session that ends when it is idle."""
    actor = await access.by_provider()
    assert actor.email == "ada@example.org"
    (session,) = await access.identity.sessions(actor)
    assert session.source == "10.0.0.1"
    assert session.last_used_at is not None


async def test_a_state_serves_once_and_in_its_browser(access: AccessOperations) -> None:
    """Neither a second use nor another browser gets a session."""
    begun = await access.signin.begin_oidc("corp", REDIRECT, "/", "10.0.0.1")
    code, state = await access.issuer.visit(begun.url, access.http)
    with pytest.raises(Unauthenticated, match="another browser"):
        await access.signin.finish_oidc(
            ProviderReply(REDIRECT, state, code), "of somebody else", ""
        )
    with pytest.raises(Unauthenticated, match="already used"):
        await access.signin.finish_oidc(ProviderReply(REDIRECT, state, code), begun.browser, "")


async def test_a_replayed_nonce_is_refused(access: AccessOperations) -> None:
    """An ID token of another sign-in does not complete this one."""
    access.issuer.claims["nonce"] = "of-yesterday"
    begun = await access.signin.begin_oidc("corp", REDIRECT, "/", "10.0.0.1")
    code, state = await access.issuer.visit(begun.url, access.http)
    with pytest.raises(Unauthenticated, match="another browser"):
        await access.signin.finish_oidc(ProviderReply(REDIRECT, state, code), begun.browser, "")


async def test_states_are_long_and_never_the_same(access: AccessOperations) -> None:
    """256 bits each (C21)."""
    urls = [
        (await access.signin.begin_oidc("corp", REDIRECT, "/", "10.0.0.1")).url for _ in range(5)
    ]
    from_query = [dict(part.split("=") for part in url.split("?")[1].split("&")) for url in urls]
    for name in ("state", "nonce", "code_challenge"):
        values = {one[name] for one in from_query}
        assert len(values) == 5 and all(len(value) >= 43 for value in values)


async def test_an_unknown_provider_is_not_found(access: AccessOperations) -> None:
    with pytest.raises(NotFound, match="unknown identity provider"):
        await access.signin.begin_oidc("other", REDIRECT, "/", "10.0.0.1")


async def test_groups_are_what_the_provider_says(access: AccessOperations) -> None:
    """Joining gives the group's role, leaving takes it, at the next sign-in; own groups stay."""
    world = access.world
    change = GroupChange("platform", issuer=access.issuer.url)
    group = await world.groups.create(world.admin, change)
    other = await world.groups.create(world.admin, GroupChange("friends"))
    draft = BindingDraft(Role.EDITOR, INSTALLATION, group="platform")
    await world.bindings.create(world.admin, draft)
    actor = await access.by_provider()
    assert [grant.role.id for grant in actor.policy.grants] == [Role.EDITOR]
    await world.groups.add_member(world.admin, other.id, actor.id)
    access.issuer.claims["groups"] = ["sales"]
    again = await access.by_provider()
    assert again.policy.grants == ()
    assert {one.id for one in await world.groups.of_actor(again)} == {other.id}
    assert group.id not in {one.id for one in await world.groups.of_actor(again)}


async def test_whoever_the_provider_lets_go_is_out_everywhere(world: World) -> None:
    """Without a group that is needed there is no entry, and what was opened before ends."""
    async with access_operations(world, "platform") as access:
        actor = await access.by_provider()
        _, secret = await access.identity.create_token(actor, "laptop")
        await access.identity.authenticate(secret)
        access.issuer.claims["groups"] = ["former"]
        with pytest.raises(Forbidden, match="none of the required groups"):
            await access.by_provider()
        access.identity.drop_user(actor.id)
        with pytest.raises(Unauthenticated, match="revoked"):
            await access.identity.authenticate(secret)


async def test_an_address_is_taken_over_only_if_the_provider_vouches(
    access: AccessOperations,
) -> None:
    """Otherwise whoever can type an address at the provider would become its owner here."""
    world = access.world
    await world.people.upsert(world.admin, "ada@example.org", None, Role.ADMIN)
    access.issuer.claims["email_verified"] = False
    with pytest.raises(Conflict, match="does not verify"):
        await access.by_provider()
    access.issuer.claims["email_verified"] = True
    actor = await access.by_provider()
    assert actor.may(Verb.WRITE, (await world.cluster()).target)


async def test_an_unverified_address_is_nobodys(access: AccessOperations) -> None:
    """A stranger of the provider cannot take an address before its owner signs in."""
    group = await access.world.groups.create(
        access.world.admin, GroupChange(name="cluster-admins", issuer=access.issuer.url)
    )
    for unverified in (False, None, "no", 1):
        sub = f"stranger-{unverified}"
        claims = {"sub": sub, "email": "boss@example.org", "email_verified": unverified}
        access.issuer.claims |= {**claims, "groups": []}
        stranger = await access.by_provider()
        assert stranger.email == f"{sub}@{access.issuer.url.partition('://')[2]}"
    access.issuer.claims |= {"sub": "boss", "email_verified": True, "groups": ["cluster-admins"]}
    boss = await access.by_provider()
    assert boss.email == "boss@example.org" and boss.id != stranger.id
    assert [found.id for found in await access.world.groups.of_actor(boss)] == [group.id]
    assert await access.world.groups.of_actor(stranger) == []


async def test_a_directory_takes_over_no_account_with_an_unverified_address(
    access: AccessOperations,
) -> None:
    """The person that it pushes gets an account of their own."""
    world = access.world
    directory = ScimDirectory(world.deps, {"corp@service-accounts": access.issuer.url})
    corp = account("corp", PUSHES)
    access.issuer.claims = {"sub": "stranger", "email": "boss@example.org", "email_verified": False}
    stranger = await access.by_provider()
    user = await directory.add_user(corp, UserPush("boss@example.org", "Boss", "boss-id", True))
    assert user.id != stranger.id
    access.issuer.claims = {"sub": "boss-id", "email": "boss@example.org", "email_verified": True}
    assert (await access.by_provider()).id == user.id


@pytest.mark.parametrize("email", ["ci@service-accounts", "CI@Service-Accounts", "a\u202e@b.org"])
async def test_no_provider_gives_a_reserved_or_deceptive_address(
    access: AccessOperations, email: str
) -> None:
    access.issuer.claims |= {"email": email, "email_verified": True}
    with pytest.raises(Invalid):
        await access.by_provider()


@pytest.mark.parametrize(("claim", "trusted"), [(None, True), (False, False)])
async def test_addresses_of_a_trusted_provider_need_no_claim(
    access: AccessOperations, claim: bool | None, trusted: bool
) -> None:
    """Entra ID sends none; a provider that denies the address is believed."""
    client = OidcClient(Issuer("corp", access.issuer.url), CLIENT, trust_email=True)
    issuers = OidcIssuers([client], access.world.clock)
    token = access.issuer.token(email_verified=claim)
    assert (await issuers.verify(token)).email_verified is trusted
    await issuers.close()


@pytest.mark.parametrize("names_itself", [False, True])
async def test_replies_name_their_issuer(access: AccessOperations, names_itself: bool) -> None:
    """RFC 9207: required of an issuer that announces it, and checked if given."""
    access.issuer.names_itself = names_itself
    await access.issuers.check_reply("corp", access.issuer.url)
    for issuer in ("https://evil.example.org", "" if names_itself else f"{access.issuer.url}/"):
        with pytest.raises(Unauthenticated, match="not of"):
            await access.issuers.check_reply("corp", issuer)
    if not names_itself:
        await access.issuers.check_reply("corp", "")


async def test_nobody_signs_in_as_a_service_account(access: AccessOperations) -> None:
    """Whatever address a provider vouches for."""
    robot = await access.world.accounts.create(access.world.admin, "robot")
    access.issuer.claims |= {"email": robot.email, "email_verified": True}
    with pytest.raises(Conflict, match="service account"):
        await access.by_provider()


def test_providers_are_asked_over_tls_only() -> None:
    """But on this machine."""
    check_url("http://127.0.0.1:8000/x")
    for url in ("http://idp.example.org", "file:///etc/passwd", "gopher://x", "http://10.0.0.1"):
        with pytest.raises(Invalid, match="needs an https URL"):
            check_url(url)


async def test_a_provider_with_a_strangers_certificate_is_not_believed(tmp_path: Path) -> None:
    """TLS is verified, always (C20); the authority that settings name is enough."""
    authority = TestAuthority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    strict, trusting = IssuerHttpClient(), IssuerHttpClient(authority.ca)
    async with LocalServer(_hello, tls=context) as server:
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(Unavailable, match="(?i)certificate"):
            await strict.get(url)
        assert await trusting.get(url) == {}
    await strict.close()
    await trusting.close()


async def test_no_issuer_is_asked_at_a_metadata_service() -> None:
    """A rule of trust may name any issuer."""
    client = IssuerHttpClient()
    for url in ("https://169.254.169.254", "https://[::ffff:a9fe:a9fe]", "https://192.0.0.192"):
        with pytest.raises(Unavailable, match="link-local or special"):
            await client.get(url)
    await client.close()


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
    await writer.drain()


async def exchange_rule(access: AccessOperations, **fields: Any) -> str:
    """A service account that trusts tokens of a CI; its id."""
    account = await access.world.accounts.create(access.world.admin, "deployer")
    keys = json.dumps(access.issuer.jwks())
    rule: dict[str, Any] = {"issuer": "https://ci.example.org", "audience": "towline-ci"}
    rule |= {"subject": "repo:acme/shop:*", "claims": {"environment": "prod"}, "keys": keys}
    rule |= {"service_account_id": account.id, **fields}
    change = TrustRuleChange("ci", given(TrustRuleSpec, **rule))
    await access.trust_rules.create(access.world.admin, change)
    return account.id


def of_ci(access: AccessOperations, **claims: Any) -> str:
    given: dict[str, Any] = {"iss": "https://ci.example.org", "aud": "towline-ci"}
    given |= {"sub": "repo:acme/shop:ref:refs/heads/main", "environment": "prod", **claims}
    return access.issuer.token(**given)


async def test_a_pipelines_token_becomes_one_of_its_service_account(
    access: AccessOperations,
) -> None:
    """RFC 8693: short-lived, without any secret kept at the CI."""
    account = await exchange_rule(access)
    row, secret = await access.accounts.exchange(of_ci(access), "10.1.1.1")
    actor = await access.identity.authenticate(secret)
    assert (actor.id, actor.email) == (account, "deployer@service-accounts")
    assert row.expires_at is not None
    with pytest.raises(Forbidden, match="cannot create tokens"):
        await access.identity.create_token(actor, "for good")
    await access.world.clock.advance(3601)
    with pytest.raises(Unauthenticated, match="expired"):
        await access.identity.authenticate(secret)


NOT_NAMED: list[dict[str, Any]] = [
    {"sub": "repo:acme/other:ref:refs/heads/main"},
    {"sub": "repo:acme/shop"},
    {"environment": "dev"},
    {"environment": None},
    {"aud": "towline"},
    {"iss": "https://other.example.org"},
    {"exp": 1},
]


async def test_only_what_a_rule_names_is_exchanged(access: AccessOperations) -> None:
    """Another repository, branch-less subject, environment, audience, issuer, or time."""
    await exchange_rule(access)
    for claims in NOT_NAMED:
        with pytest.raises(Unauthenticated):
            await access.accounts.exchange(of_ci(access, **claims))
    await access.accounts.exchange(of_ci(access))


async def test_a_rule_trusts_somebody_in_particular(access: AccessOperations) -> None:
    """Everything, plain HTTP and endless lives are refused."""
    for fields in (
        {"subject": "*", "claims": {}},
        {"issuer": "http://ci.example.org"},
        {"minutes": 100_000},
    ):
        with pytest.raises(Invalid):
            await exchange_rule(access, **fields)
        async with access.world.deps.store.write() as tx:
            for user in await tx[UserStore].all():
                await tx[UserStore].remove(user.id)
