"""Stored credentials of a repository when a part of them changes."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from controlplane.repositories.model.credentials import auth_method_of, merge_credentials
from controlplane.repositories.model.repository import AuthMethod
from core.errors import Invalid
from core.spec.source import GitCredentials

PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


def private_key(algorithm: str = "ed25519", passphrase: str = "") -> str:
    key = Ed25519PrivateKey.generate() if algorithm == "ed25519" else RSA
    sealing = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    form = PrivateFormat.OpenSSH if algorithm == "ed25519" else PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(Encoding.PEM, form, sealing).decode()


RSA = generate_private_key(65_537, 2_048)
APP_KEY = private_key("rsa")
KEY = private_key()
APP = GitCredentials(app_id="1", installation_id="2", private_key=APP_KEY)
TOKEN = {"username": "bot", "password": "t0ken"}


def test_known_hosts_can_be_changed_without_the_key() -> None:
    before = {"private_key": "key", "known_hosts": "old"}
    after = merge_credentials(before, GitCredentials(known_hosts="new"))
    assert after == {"private_key": "key", "known_hosts": "new"}


def test_a_new_way_to_sign_in_replaces_the_old_one_as_a_whole() -> None:
    after = merge_credentials(TOKEN | {"authority": PEM}, GitCredentials(private_key=KEY))
    assert after == {"private_key": KEY, "authority": PEM}


def test_an_empty_text_removes_what_is_no_secret_and_keeps_a_password() -> None:
    after = merge_credentials(
        TOKEN | {"known_hosts": "x"}, GitCredentials(known_hosts="", password="")
    )
    assert after == TOKEN


@pytest.mark.parametrize(
    "given", [GitCredentials(proxy="http://evil.test:3128"), GitCredentials(authority=PEM)]
)
def test_a_stored_password_is_not_shown_to_a_way_chosen_later(given: GitCredentials) -> None:
    """An editor of the proxy and the trusted authority could else read the password."""
    with pytest.raises(Invalid, match="given again"):
        merge_credentials(TOKEN, given)
    with pytest.raises(Invalid, match="given again"):
        merge_credentials(TOKEN, GitCredentials(), other_route=True)


@pytest.mark.parametrize(
    ("before", "given"),
    [
        (TOKEN, GitCredentials(username="bot", password="new")),
        (TOKEN, GitCredentials(username="bot", password="t0ken")),
        ({"private_key": KEY}, GitCredentials(private_key=KEY)),
    ],
    ids=["new password", "same password", "same key"],
)
def test_with_the_secret_given_again_the_way_may_change(
    before: dict[str, str], given: GitCredentials
) -> None:
    """Also the present one: manifests have all secrets, and a refusal would confirm a guess."""
    changed = replace(given, proxy="http://proxy.test:3128")
    after = merge_credentials(before, changed, other_route=True)
    assert GitCredentials(**after) == changed


def test_a_stored_key_is_not_shown_to_a_way_chosen_later() -> None:
    with pytest.raises(Invalid, match="given again") as caught:
        merge_credentials({"private_key": KEY}, GitCredentials(proxy="http://evil.test:3128"))
    assert caught.value.field == "privateKey"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (GitCredentials(app_id="1"), "installationId"),
        (GitCredentials(app_id="1", installation_id="2"), "privateKey"),
        (GitCredentials(app_id="../x", installation_id="2", private_key=PEM), "appId"),
        (GitCredentials(app_id="1", installation_id="2", private_key=PEM), "privateKey"),
        (GitCredentials(app_id="1", installation_id="2", private_key=KEY), "privateKey"),
        (GitCredentials(private_key="ssh-ed25519 AAAA ada@example.org"), "privateKey"),
        (GitCredentials(private_key=KEY[:90]), "privateKey"),
        (GitCredentials(private_key=private_key(passphrase="x")), "privateKey"),
        (GitCredentials(client_certificate=PEM), "clientKey"),
        (GitCredentials(authority="no pem"), "authority"),
        (GitCredentials(proxy="socks5://x:1"), "proxy"),
        (GitCredentials(password="x" * 70_000), "password"),
        (GitCredentials(installation_id="2"), "appId"),
        (GitCredentials(app_id="1", installation_id="２", private_key=APP_KEY), "installationId"),
        *(
            (replace(APP, api_url=url), "apiUrl")
            for url in (
                "file:///etc",
                "ftp://github.example.org/api/v3",
                "https:///api/v3",
                "https://github.example.org:0/api/v3",
                "https://github.example.org:65536/api/v3",
                "https://github.example.org/api v3",
                "https://github.example.org/api\u200bv3",
                "https://github.example.org/api?token=x",
                "https://bot@github.example.org/api/v3",
            )
        ),
    ],
)
def test_unusable_credentials_are_refused_by_field(given: GitCredentials, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        merge_credentials({}, given)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("kept", "method"),
    [
        ({}, None),
        (TOKEN, AuthMethod.BASIC),
        ({"username": "bot"}, AuthMethod.BASIC),
        ({"password": "t0ken"}, AuthMethod.BASIC),
        ({"private_key": "k"}, AuthMethod.SSH),
        (merge_credentials({}, APP), AuthMethod.APP),
        ({"client_certificate": PEM}, AuthMethod.CERTIFICATE),
        ({"known_hosts": "x"}, None),
    ],
)
def test_the_authentication_method_follows_the_credentials(
    kept: dict[str, str], method: AuthMethod | None
) -> None:
    assert auth_method_of(kept) is method


@pytest.mark.parametrize("url", ["https://ghe.example.org:8443/api/v3", "http://ghe.test/api/v3"])
def test_an_app_of_an_own_github_is_accepted(url: str) -> None:
    assert merge_credentials({}, replace(APP, api_url=url))["api_url"] == url


@pytest.mark.parametrize("algorithm", ["ed25519", "rsa"])
def test_a_key_with_its_passphrase_is_accepted_without_trying_it(algorithm: str) -> None:
    """Deriving a key costs as much as whoever made the key wanted."""
    given = GitCredentials(private_key=private_key(algorithm, "open sesame"), passphrase="wrong")
    assert merge_credentials({}, given)["passphrase"] == "wrong"


def test_an_error_never_shows_the_key() -> None:
    with pytest.raises(Invalid) as caught:
        merge_credentials({}, GitCredentials(private_key=f"s3cret {KEY[40:]}"))
    assert "s3cret" not in str(caught.value) and KEY[60:80] not in str(caught.value)
