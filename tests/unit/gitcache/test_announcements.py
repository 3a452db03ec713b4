"""Pushes announced by webhooks, and proof of their origin."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcache.domain.announcements import MAX_REFS, PROVIDERS, Pusher, announced_refs, read_pusher
from gitcache.domain.signatures import is_genuine

A, B, NONE = "a" * 40, "b" * 40, "0" * 40
SECRET = "correct horse"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "ref",
                    "after",
                    "push",
                    "changes",
                    "new",
                    "target",
                    "refId",
                    "resource",
                    "refUpdates",
                    "refs",
                    "name",
                    "type",
                    "hash",
                    "toHash",
                    "sender",
                    "pusher",
                    "login",
                    "email",
                    "user_username",
                    "actor",
                ]
            )
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("provider", "payload", "refs"),
    [
        ("github", {"ref": "refs/heads/main", "after": A}, {"refs/heads/main": A}),
        ("gitea", {"ref": "refs/tags/v1", "after": A}, {"refs/tags/v1": A}),
        (
            "gitlab",
            {"ref": "refs/tags/v1", "after": B, "checkout_sha": A},
            {"refs/tags/v1": A},
        ),
        (
            "bitbucket",
            {
                "push": {
                    "changes": [
                        {"new": {"type": "branch", "name": "main", "target": {"hash": A}}},
                        {"new": {"type": "tag", "name": "v1", "target": {"hash": B}}},
                        {"new": None, "old": {"type": "branch", "name": "gone"}},
                    ]
                }
            },
            {"refs/heads/main": A, "refs/tags/v1": B},
        ),
        (
            "bitbucket",
            {
                "changes": [
                    {"refId": "refs/heads/main", "toHash": A},
                    {"ref": {"id": "refs/heads/dev"}, "toHash": B},
                ]
            },
            {"refs/heads/main": A, "refs/heads/dev": B},
        ),
        (
            "azure",
            {
                "resource": {
                    "refUpdates": [
                        {"name": "refs/heads/main", "newObjectId": A},
                        {"name": "refs/heads/dev", "newObjectId": B},
                    ]
                }
            },
            {"refs/heads/main": A, "refs/heads/dev": B},
        ),
        ("plain", {"refs": {"refs/heads/main": A}}, {"refs/heads/main": A}),
        ("github", {"ref": "refs/heads/gone", "after": NONE}, {}),
        ("github", {"zen": "ping"}, {}),
        ("github", {"ref": "main", "after": A}, {}),
        ("github", {"ref": "refs/heads/" + "x" * 600, "after": A}, {}),
        ("github", {"ref": "refs/heads/main", "after": "A" * 40}, {}),
        ("github", {"ref": "refs/heads/main", "after": A[:39]}, {}),
        ("nobody", {"ref": "refs/heads/main", "after": A}, {}),
    ],
)
def test_all_refs_of_a_push_are_announced(provider: str, payload: Any, refs: dict) -> None:
    assert announced_refs(provider, payload) == refs


@given(st.sampled_from(sorted(PROVIDERS)), json_values)
def test_no_payload_crashes_a_reader(provider: str, payload: Any) -> None:
    for ref, sha in announced_refs(provider, payload).items():
        assert ref.startswith("refs/") and len(sha) in {40, 64}
    account = read_pusher(provider, payload)
    assert account is None or account.name or account.email


@pytest.mark.parametrize(
    ("provider", "payload", "account"),
    [
        (
            "github",
            {"sender": {"login": "ada"}, "pusher": {"name": "ada", "email": "a@example.org"}},
            Pusher("ada", "a@example.org"),
        ),
        (
            "gitlab",
            {"user_username": "ada", "user_name": "Ada", "user_email": "a@example.org"},
            Pusher("ada", "a@example.org"),
        ),
        ("gitlab", {"user_username": "ada", "user_email": "[REDACTED]"}, Pusher("ada")),
        (
            "gitea",
            {"pusher": {"login": "ada", "email": "a@example.org"}},
            Pusher("ada", "a@example.org"),
        ),
        ("bitbucket", {"actor": {"nickname": "ada"}}, Pusher("ada")),
        (
            "bitbucket",
            {"actor": {"name": "ada", "emailAddress": "a@example.org"}},
            Pusher("ada", "a@example.org"),
        ),
        (
            "azure",
            {"resource": {"pushedBy": {"displayName": "Ada", "uniqueName": "a@example.org"}}},
            Pusher("Ada", "a@example.org"),
        ),
        (
            "gitea",
            {"pusher": {"username": "ada", "email": "a@example.org"}},
            Pusher("ada", "a@example.org"),
        ),
        (
            "azure",
            {"resource": {"pushedBy": {"uniqueName": "a@example.org"}}},
            Pusher("", "a@example.org"),
        ),
        ("plain", {"pusher": {"login": "ada"}}, None),
        ("github", {"commits": [{"author": {"email": "a@example.org"}}]}, None),
        ("gitea", {"pusher": {"login": "a\nb", "email": "x" * 300 + "@example.org"}}, None),
    ],
)
def test_the_account_that_pushed_is_read(
    provider: str, payload: Any, account: Pusher | None
) -> None:
    """Never an author of a commit, whom anybody can write."""
    assert read_pusher(provider, payload) == account


def test_the_number_of_refs_is_bounded() -> None:
    refs = {f"refs/heads/{number}": A for number in range(500)}
    assert len(announced_refs("plain", {"refs": refs})) == MAX_REFS


def _hmac(body: bytes) -> str:
    return hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


BODY = json.dumps({"ref": "x"}).encode()
GENUINE = {
    "github": {"x-hub-signature-256": "sha256=" + _hmac(BODY)},
    "gitea": {"x-gitea-signature": _hmac(BODY)},
    "bitbucket": {"x-hub-signature": "sha256=" + _hmac(BODY)},
    "plain": {"x-hub-signature-256": "sha256=" + _hmac(BODY)},
    "gitlab": {"x-gitlab-token": SECRET},
    "azure": {"authorization": "Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode()},
}


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_a_genuine_hook_is_accepted_and_a_changed_one_is_not(provider: str) -> None:
    headers = GENUINE[provider]
    assert is_genuine(provider, SECRET, headers, BODY)
    assert not is_genuine(provider, "other", headers, BODY)
    assert not is_genuine(provider, SECRET, {}, BODY)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer " + base64.b64encode(f"u:{SECRET}".encode()).decode(),
        "Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode() + "!",
    ],
)
def test_only_basic_authentication_proves_a_hook_of_azure(header: str) -> None:
    assert not is_genuine("azure", SECRET, {"authorization": header}, BODY)


@pytest.mark.parametrize("provider", ["github", "gitea", "bitbucket", "plain"])
def test_a_signature_covers_the_body(provider: str) -> None:
    assert not is_genuine(provider, SECRET, GENUINE[provider], BODY + b" ")


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_nothing_is_genuine_without_a_secret(provider: str) -> None:
    """An HMAC with an empty key is one that anybody can make."""
    empty = hmac.new(b"", BODY, hashlib.sha256).hexdigest()
    headers = {
        name: empty for name in ("x-hub-signature-256", "x-gitea-signature", "x-hub-signature")
    }
    headers |= {"x-gitlab-token": "", "authorization": "Basic " + base64.b64encode(b":").decode()}
    assert not is_genuine(provider, "", headers, BODY)


@given(st.sampled_from(sorted(PROVIDERS)), st.text(), st.binary())
def test_no_header_crashes_the_check(provider: str, value: str, body: bytes) -> None:
    headers = dict.fromkeys(
        ("x-hub-signature-256", "x-hub-signature", "x-gitlab-token", "authorization"), value
    )
    assert is_genuine(provider, SECRET, headers, body) is (provider == "gitlab" and value == SECRET)
