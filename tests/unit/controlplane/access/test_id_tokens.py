"""Claims of ID tokens, and tokens that a trust rule accepts by the keys that it carries."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from controlplane.access.model.sign_in import Claims, Issuer
from controlplane.access.oidc.issuers import OidcClient, OidcIssuers
from controlplane.access.oidc.tokens import validate_claims
from core.errors import NotFound, Unauthenticated
from core.id_tokens import LEEWAY_SECONDS
from core.json_object import JsonObject
from tests.fakes.clock import START, FakeClock
from tests.fakes.issuer import CLIENT, FakeIssuer

URL = "https://idp.example.org"
NOW = int(START.timestamp())
ADA: JsonObject = {"iss": URL, "aud": CLIENT, "sub": "ada", "iat": NOW, "exp": NOW + 300}
OTHER_AUDIENCE = "issued for another audience"


def validated(
    *, groups_claim: str = "groups", trust_email: bool = False, **changed: object
) -> Claims:
    """The claims of Ada's token with changes; None leaves a claim out."""
    claims = {name: value for name, value in {**ADA, **changed}.items() if value is not None}
    return validate_claims(
        claims,
        issuer=URL,
        audience=CLIENT,
        now=START,
        groups_claim=groups_claim,
        trust_email=trust_email,
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"iss": f"{URL}/"}, "from another issuer"),
        ({"iss": f"{URL}.attacker.org"}, "from another issuer"),
        ({"iss": [URL]}, "from another issuer"),
        ({"iss": None}, "from another issuer"),
        ({"sub": None}, "has no subject"),
        ({"sub": ""}, "has no subject"),
        ({"sub": 7}, "has no subject"),
        ({"sub": ["ada"]}, "has no subject"),
        ({"sub": "a" * 513}, "has no subject"),
        ({"aud": None}, OTHER_AUDIENCE),
        ({"aud": f"{CLIENT}-dev"}, OTHER_AUDIENCE),
        ({"aud": f"x {CLIENT}"}, OTHER_AUDIENCE),
        ({"aud": []}, OTHER_AUDIENCE),
        ({"aud": {CLIENT: True}}, OTHER_AUDIENCE),
        ({"azp": "grafana"}, "for another authorized party"),
        ({"aud": [CLIENT, "grafana"], "azp": "grafana"}, "for another authorized party"),
        ({"azp": ""}, "for another authorized party"),
        ({"exp": None}, "has no expiry"),
        ({"exp": NOW - LEEWAY_SECONDS}, "has expired"),
        ({"nbf": NOW + LEEWAY_SECONDS + 1}, "not valid yet"),
        ({"iat": NOW + LEEWAY_SECONDS + 1}, "not valid yet"),
    ],
)
def test_an_id_token_that_is_not_for_this_installation_says_why(
    changed: JsonObject, reason: str
) -> None:
    """Operators find the cause in the message: the wrong audience, or a clock that is late."""
    with pytest.raises(Unauthenticated, match=reason):
        validated(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"aud": ["grafana", CLIENT]},
        {"azp": CLIENT},
        {"sub": "a" * 512},
        {"exp": NOW - LEEWAY_SECONDS + 1},
        {"nbf": NOW + LEEWAY_SECONDS, "iat": NOW + LEEWAY_SECONDS},
        {"iat": None},
    ],
)
def test_an_id_token_at_the_limits_is_accepted(changed: JsonObject) -> None:
    """Clocks of two servers differ by seconds."""
    claims = validated(**changed)
    given = {**ADA, **changed}
    assert (claims.issuer, claims.subject) == (URL, given["sub"])
    assert claims.expires_at == START + timedelta(seconds=int(given["exp"]) - NOW)


@pytest.mark.parametrize(
    ("said", "if_untrusted", "if_trusted"),
    [
        ({"email_verified": True}, True, True),
        ({"email_verified": "true"}, True, True),
        ({}, False, True),
        ({"email_verified": False}, False, False),
        ({"email_verified": "false"}, False, False),
        ({"email_verified": 1}, False, False),
        ({"email_verified": "True, really"}, False, False),
        ({"email_verified": ["true"]}, False, False),
    ],
)
def test_an_address_is_verified_only_if_somebody_says_so(
    said: JsonObject, if_untrusted: bool, if_trusted: bool
) -> None:
    """A verified address opens the account of that address; an operator vouches for a provider that
    says nothing, and never against what it says.
    """
    found = validated(email="ada@example.org", **said)
    assert (found.email, found.email_verified) == ("ada@example.org", if_untrusted)
    assert validated(email="ada@example.org", trust_email=True, **said).email_verified is if_trusted


@pytest.mark.parametrize("email", [None, 7, ["ada@example.org"], "a" * 243 + "@example.org"])
def test_an_address_that_is_none_is_left_out_and_not_cut(email: object) -> None:
    """The beginning of a long address is the address of somebody else."""
    assert validated(email=email).email == ""
    longest = "a" * 242 + "@example.org"
    assert validated(email=longest).email == longest


def test_people_are_named_by_their_name_or_else_their_user_name() -> None:
    assert validated(name="Ada", preferred_username="al").name == "Ada"
    assert validated(name="", preferred_username="al").name == "al"
    assert validated().name == ""
    assert validated(name="n" * 300).name == "n" * 255


@pytest.mark.parametrize(
    ("claim", "groups"),
    [
        (None, None),
        ("admins", ("admins",)),
        (["admins", "platform"], ("admins", "platform")),
        ([], ()),
        (["admins", 7, None, ["owners"], "g" * 513, "g" * 512], ("admins", "g" * 512)),
        ({"admins": True}, None),
        (7, None),
    ],
)
def test_groups_are_read_from_the_claim_that_the_operator_names(
    claim: object, groups: tuple[str, ...] | None
) -> None:
    """A token without the claim changes no membership; an empty list ends them all."""
    assert validated(groups_claim="roles", roles=claim, groups=["owners"]).groups == groups
    assert validated(groups=claim).groups == groups


values = st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.lists(st.text())


@given(st.dictionaries(st.sampled_from([*ADA, "azp", "nbf", "email", "name", "groups"]), values))
def test_a_token_with_any_claims_is_for_us_or_refused(changed: dict[str, Any]) -> None:
    """Whatever a provider signs, no other error reaches the caller."""
    try:
        claims = validated(**changed)
    except Unauthenticated:
        return
    given: dict[str, Any] = {**ADA, **{n: v for n, v in changed.items() if v is not None}}
    assert given["iss"] == URL and given["sub"] == claims.subject != ""
    assert given["aud"] == CLIENT or CLIENT in given["aud"]
    assert given.get("azp", CLIENT) == CLIENT


@pytest.fixture
def issuer() -> FakeIssuer:
    """The issuer of a pipeline's tokens, which no network reaches."""
    issuer = FakeIssuer(FakeClock())
    issuer.url = "https://ci.example.org"
    return issuer


@pytest.fixture
async def issuers(issuer: FakeIssuer) -> AsyncIterator[OidcIssuers]:
    corp = OidcClient(Issuer("corp", URL, "Corp"), CLIENT)
    found = OidcIssuers([corp], issuer.clock)
    yield found
    await found.close()


async def test_the_keys_of_a_trust_rule_stand_for_an_issuer_that_cannot_be_asked(
    issuer: FakeIssuer, issuers: OidcIssuers
) -> None:
    """Its tokens need the signature, the issuer and the audience as those of any other."""
    keys = json.dumps(issuer.jwks())
    claims = await issuers.verify_for_audience(
        issuer.token(sub="repo:shop"), issuer.url, CLIENT, keys
    )
    assert (claims.issuer, claims.subject) == (issuer.url, "repo:shop")
    stranger = FakeIssuer(issuer.clock)
    stranger.url = issuer.url
    for token in (
        stranger.token(sub="repo:shop"),
        issuer.token(sub="repo:shop", aud="grafana"),
        issuer.token(sub="repo:shop", iss="https://other.example.org"),
        issuer.token(sub="repo:shop", exp=NOW - 60),
        issuer.token(sub="repo:shop", header={"kid": "another"}),
        issuer.token(sub="repo:shop", header={"kid": "shared"}),
    ):
        with pytest.raises(Unauthenticated):
            await issuers.verify_for_audience(token, issuer.url, CLIENT, keys)


async def test_a_trust_rule_accepts_who_asked_for_a_token_that_is_for_us_alone(
    issuer: FakeIssuer, issuers: OidcIssuers
) -> None:
    """Google and Entra name the service account that asked for its token. A token that is also for
    another program may have been given to that one, which could use it here.
    """
    keys = json.dumps(issuer.jwks())

    async def subject(audience: str | list[str]) -> str:
        token = issuer.token(sub="11223344", aud=audience, azp="11223344")
        return (await issuers.verify_for_audience(token, issuer.url, CLIENT, keys)).subject

    assert await subject(CLIENT) == await subject([CLIENT]) == "11223344"
    with pytest.raises(Unauthenticated, match="for another authorized party"):
        await subject([CLIENT, "grafana"])


@pytest.mark.parametrize("keys", ["", "{", "[]", "7", "{}", '{"keys": {}}', '{"keys": ["text"]}'])
async def test_a_trust_rule_with_unreadable_keys_accepts_no_token(
    issuer: FakeIssuer, issuers: OidcIssuers, keys: str
) -> None:
    """And does not ask the issuer instead."""
    with pytest.raises(Unauthenticated, match="no key matches this token"):
        await issuers.verify_for_audience(issuer.token(sub="x"), issuer.url, CLIENT, keys)


async def test_a_token_without_a_key_id_needs_the_only_key_that_fits(
    issuer: FakeIssuer, issuers: OidcIssuers
) -> None:
    """Among keys of other types it is still the only one; of two that fit, none is tried."""

    async def subject(token: str, *keys: JsonObject) -> str:
        text = json.dumps({"keys": list(keys)})
        claims = await issuers.verify_for_audience(token, issuer.url, CLIENT, text)
        return claims.subject

    curve = issuer.jwks()["keys"][-1]
    issuer.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    own = json.loads(RSAAlgorithm.to_jwk(issuer.key.public_key())) | {"kid": "k1"}
    body = {**ADA, "iss": issuer.url, "sub": "repo:shop"}
    unnamed = jwt.encode(body, issuer.key, "RS256")
    assert await subject(unnamed, curve, own) == "repo:shop"
    twin = {**own, "kid": "k2"}
    with pytest.raises(Unauthenticated, match="no key matches this token"):
        await subject(unnamed, own, twin)
    assert await subject(issuer.token(sub="repo:shop"), own, twin) == "repo:shop"
    with pytest.raises(Unauthenticated, match="no key matches this token"):
        await subject(unnamed, curve)


async def test_a_token_of_an_issuer_that_is_no_provider_is_not_asked_about(
    issuer: FakeIssuer, issuers: OidcIssuers
) -> None:
    """A stranger must not make this installation send requests to a place of its choice."""
    assert issuers.unverified_issuer(issuer.token(sub="x")) == issuer.url
    with pytest.raises(Unauthenticated, match="issuer is not trusted"):
        await issuers.verify(issuer.token(sub="x"))
    with pytest.raises(NotFound, match="unknown identity provider 'other'"):
        await issuers.authorization_url("other", "https://t/cb", "s", "n", "c")
    assert [each.name for each in issuers.configured()] == ["corp"]
