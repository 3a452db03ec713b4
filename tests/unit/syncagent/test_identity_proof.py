"""Proofs of identity: the tokens that count, the names that they give, and Secrets without one."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid, Unauthenticated
from core.id_tokens import parse_keys
from core.mux.codec import MAX_PROOF, Open, add_proof, split_proof
from syncagent.tunnel.guard import ForwardingRefused, Guard, ImpersonationPolicy
from syncagent.tunnel.id_token_proofs import IdentityProofs, PinnedKeys, ProofRules
from syncagent.tunnel.proof import RequestIdentity, names_secrets
from tests.fakes.clock import FakeClock
from tests.fakes.issuer import FakeIssuer

ISSUER = "https://id.example.org"
RULES = ProofRules(ISSUER, ("eu-1",))
CLAIMED = b"Impersonate-User: root\r\nImpersonate-Group: admins\r\n"
ADA = b"Impersonate-User: ada@example.org\r\nImpersonate-Group: oidc:platform\r\n"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def issuer(clock: FakeClock) -> FakeIssuer:
    made = FakeIssuer(clock)
    made.url = ISSUER
    made.claims["aud"] = "eu-1"
    return made


def proofs_of(issuer: FakeIssuer, rules: ProofRules = RULES) -> IdentityProofs:
    """The agent's side, with the issuer's present keys pinned."""
    return IdentityProofs(rules, PinnedKeys(rules.issuer, parse_keys(issuer.jwks())), issuer.clock)


async def test_a_token_gives_its_name_and_groups_and_is_cached(issuer: FakeIssuer) -> None:
    proofs, token = proofs_of(issuer), issuer.token().encode()
    assert proofs.cached_block(token) is None
    assert await proofs.verify(token) == ADA
    assert proofs.cached_block(token) == ADA
    assert proofs.cached_block(token[:-1]) is None


async def test_a_cached_proof_ends_with_its_token(issuer: FakeIssuer, clock: FakeClock) -> None:
    proofs, token = proofs_of(issuer), issuer.token(exp=clock.now().timestamp() + 60).encode()
    await proofs.verify(token)
    await clock.advance(89)
    assert proofs.cached_block(token) == ADA
    await clock.advance(1)
    assert proofs.cached_block(token) is None
    with pytest.raises(Unauthenticated, match="expired"):
        await proofs.verify(token)


async def test_a_withdrawn_key_counts_for_five_minutes_at_most(
    issuer: FakeIssuer, clock: FakeClock
) -> None:
    proofs, token = proofs_of(issuer), issuer.token(exp=clock.now().timestamp() + 3600).encode()
    await proofs.verify(token)
    await clock.advance(300)
    assert proofs.cached_block(token) is None


def public_pem(issuer: FakeIssuer) -> str:
    return (
        issuer.key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def unsigned(issuer: FakeIssuer, algorithm: str = "none") -> str:
    """A token with another algorithm in its header and no signature."""
    _, body, _ = issuer.token().split(".")
    head = json.dumps({"alg": algorithm, "typ": "JWT", "kid": issuer.kid}).encode()
    return f"{base64.urlsafe_b64encode(head).rstrip(b'=').decode()}.{body}."


def shared_secret(issuer: FakeIssuer) -> str:
    """A token signed by HMAC with the public key as its secret."""
    signed, _, _ = unsigned(issuer, "HS256").rpartition(".")
    mac = hmac.new(public_pem(issuer).encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def rsa_with_the_same_kid(issuer: FakeIssuer) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    body = {"iss": ISSUER, "aud": "eu-1", "sub": "u1", "email": "root@example.org"}
    return jwt.encode(body, key, "RS256", {"kid": issuer.kid})


def foreign_key(issuer: FakeIssuer) -> str:
    other = FakeIssuer(issuer.clock)
    other.url, other.claims = issuer.url, issuer.claims
    return other.token()


REFUSED: dict[str, tuple[Callable[[FakeIssuer], str], str]] = {
    "expired": (lambda i: i.token(exp=i.clock.now().timestamp() - 31), "expired"),
    "not yet valid": (lambda i: i.token(nbf=i.clock.now().timestamp() + 31), "not valid yet"),
    "wrong issuer": (
        lambda i: i.token(iss="https://evil.example.org"),
        f"evil.example.org; this cluster accepts proofs of {ISSUER}",
    ),
    "wrong audience": (lambda i: i.token(aud="us-1"), "another audience, not for eu-1"),
    "no audience": (lambda i: i.token(aud=None), "another audience"),
    "too old": (lambda i: i.token(iat=i.clock.now().timestamp() - 3631), "older than 60 minutes"),
    "no time of issue": (lambda i: i.token(iat=None), "older than 60 minutes"),
    "unknown key id": (lambda i: i.token(header={"kid": "k9"}), "no key 'k9' for ES256, only k1"),
    "algorithm none": (unsigned, "'none' are not accepted"),
    "HMAC with the public key": (shared_secret, "'HS256' are not accepted"),
    "RSA with the kid of an EC key": (rsa_with_the_same_kid, "no key 'k1' for RS256, only k1"),
    "another key with the same kid": (foreign_key, "signature"),
    "unverified address": (lambda i: i.token(email_verified=False), "not verified"),
    "no name": (lambda i: i.token(email=None), "no usable claim 'email'"),
    "a header in the name": (lambda i: i.token(email="a\r\nImpersonate-Group: x"), "no usable"),
    "a name of the system": (lambda i: i.token(email="system:admin"), "reserved prefix"),
    "too long": (lambda i: i.token(pad="x" * MAX_PROOF), "exceeds"),
    "no token": (lambda i: "a.b.c", "invalid token"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused_proofs_name_the_expected_value(issuer: FakeIssuer, case: str) -> None:
    make, said = REFUSED[case]
    proofs, token = proofs_of(issuer), make(issuer).encode()
    with pytest.raises(Unauthenticated, match=".*") as refused:
        await proofs.verify(token)
    assert said in refused.value.message
    assert proofs.cached_block(token) is None


NAMES = st.text(max_size=40)


@given(
    email=st.one_of(NAMES, st.integers(), st.none(), st.lists(NAMES)),
    groups=st.one_of(NAMES, st.none(), st.integers(), st.lists(st.one_of(NAMES, st.integers()))),
    prefix=st.sampled_from(["", "oidc:", "system:"]),
    allowed=st.sampled_from([(), ("oidc:*",), ("devs",)]),
)
def test_any_claims_give_one_valid_identity_or_a_refusal(
    email: object, groups: object, prefix: str, allowed: tuple[str, ...]
) -> None:
    """The agent's own guard accepts each block; no name of the system is in one."""
    rules = ProofRules(ISSUER, ("a",), groups_prefix=prefix, groups=allowed)
    try:
        block = rules.identity_block({"email": email, "groups": groups})
    except Unauthenticated:
        return
    Guard(ImpersonationPolicy()).check(block, b"GET /x HTTP/1.1\r\n\r\n")
    lines = block.decode().split("\r\n")[:-1]
    assert lines[0] == f"Impersonate-User: {email}"
    given_groups = [groups] if isinstance(groups, str) else groups
    assert isinstance(given_groups, list) or len(lines) == 1
    for line in lines[1:]:
        group = line.removeprefix("Impersonate-Group: ")
        assert group.startswith(prefix) and not group.startswith("system:")
        assert isinstance(given_groups, list) and group.removeprefix(prefix) in given_groups


def test_prefixes_and_listed_groups_bound_what_a_token_gives() -> None:
    rules = ProofRules(
        ISSUER,
        ("a",),
        username_claim="sub",
        username_prefix="id:",
        groups_prefix="",
        groups=("dev*", "ops", "towline:*"),
    )
    claims = {"sub": "u1", "groups": ["devs", "system:masters", "hr", "ops", "towline:unproven"]}
    lines = rules.identity_block(claims).decode().split("\r\n")
    assert lines == [
        "Impersonate-User: id:u1",
        "Impersonate-Group: devs",
        "Impersonate-Group: ops",
        "",
    ]


def test_an_issuer_without_an_audience_is_refused() -> None:
    with pytest.raises(Invalid, match="audience"):
        ProofRules(ISSUER, ())


def opened(identity: bytes, path: str = "/api/v1/pods") -> Open:
    return Open(f"GET {path} HTTP/1.1\r\n\r\n".encode(), identity, b"i" * 16)


async def test_only_the_proof_is_impersonated(issuer: FakeIssuer) -> None:
    """The control plane's claim has no effect beside a proof, nor any group without one."""
    proofs, token = proofs_of(issuer), issuer.token().encode()
    identity = RequestIdentity(Guard(ImpersonationPolicy()), proofs)
    first = opened(add_proof(CLAIMED, token))
    assert identity.admit(first).proof == token
    assert await identity.prove(token) == ADA
    again = opened(add_proof(b"Impersonate-User: system:admin\r\n", token))
    assert not identity.admit(again).proof
    assert again.identity == ADA
    without = opened(CLAIMED)
    assert b"unproven" in identity.admit(without).response_fields
    assert without.identity == (
        b"Impersonate-User: towline:unproven:root\r\nImpersonate-Group: towline:unproven\r\n"
    )


async def test_without_an_issuer_a_proof_is_malformed(issuer: FakeIssuer) -> None:
    identity = RequestIdentity(Guard(ImpersonationPolicy()), None)
    with pytest.raises(ForwardingRefused, match="malformed"):
        identity.admit(opened(add_proof(CLAIMED, issuer.token().encode())))


SECRETS = (
    "/api/v1/secrets",
    "/api/v1/secrets?watch=1",
    "/api/v1/namespaces/shop/secrets/db",
    "/api/v1/watch/namespaces/shop/secrets",
    "/api/v1/watch/secrets",
    "/api/v1/namespaces/shop/%73ecrets",
    "//api//v1/namespaces/shop/secrets/",
    "/api/v1/namespaces%2Fshop%2Fsecrets",
    "/apis/example.org/v1/namespaces/shop/secrets",
)
OTHERS = (
    "/api/v1/pods",
    "/api/v1/namespaces/secrets",
    "/api/v1/namespaces/secrets/pods",
    "/api/v1/namespaces/shop/configmaps/secrets",
    "/api/v1/pods?fieldSelector=secrets",
    "/version",
)


@pytest.mark.parametrize("path", SECRETS)
async def test_unproven_users_reach_no_secret(issuer: FakeIssuer, path: str) -> None:
    identity = RequestIdentity(Guard(ImpersonationPolicy()), proofs_of(issuer))
    with pytest.raises(ForwardingRefused, match="proof of identity"):
        identity.admit(opened(CLAIMED, path))


@pytest.mark.parametrize("path", OTHERS)
def test_other_paths_are_no_secrets(path: str) -> None:
    assert not names_secrets(opened(b"", path).head)


@given(token=st.text(alphabet="abc.-_", min_size=1))
def test_a_proof_survives_the_wire(token: str) -> None:
    assert split_proof(add_proof(CLAIMED, token.encode())) == (CLAIMED, token.encode())


def test_a_name_cannot_contain_a_proof() -> None:
    block = b"Impersonate-User: xTowline-Proof: t\r\n"
    assert split_proof(block) == (block, b"")
