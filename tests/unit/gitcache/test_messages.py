"""Values between replicas, and what strangers could send instead."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.identity import RepositoryId
from core.spec.source import (
    Commit,
    GitCredentials,
    RenderedBundle,
    RenderRequest,
    RepositorySpec,
    RepositoryState,
)
from core.spec.statements.attestation import AttestationStatement, Signer
from gitcache.domain import messages

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
ID = RepositoryId("shop")
MESSAGES = (
    messages.STATE,
    messages.RENDER.query,
    messages.RENDER.result,
    messages.HINT.query,
    messages.TREES.query,
    messages.FOLLOW.query,
    messages.TREES.result,
    messages.LIVE_DIGESTS.query,
)


def test_a_state_comes_back_as_it_was() -> None:
    commit = Commit("a" * 40, "Ann <a@x>", "Grüße\n", NOW)
    state = RepositoryState(ID, {"main": commit}, frozenset({"x", "y"}), "why", NOW, None)
    assert messages.STATE.decode(messages.STATE.encode(state)) == state


def test_a_request_and_its_render_come_back_as_they_were() -> None:
    request = RenderRequest(ID, "a" * 40, "web", "raw", parameters={"a": {"b": [1, None]}})
    assert messages.RENDER.query.decode(messages.RENDER.query.encode(request)) == request
    signer = Signer.from_bytes(b"k" * 32)
    signed = signer.sign(AttestationStatement("sha256:" + "0" * 64, (), "raw"))
    rendered = replace(RenderedBundle("s", "d", 1, 2, True, ("web",)), attestation=signed)
    assert messages.RENDER.result.decode(messages.RENDER.result.encode(rendered)) == rendered


def test_a_spec_travels_with_its_credentials() -> None:
    spec = RepositorySpec(ID, "https://x", frozenset({"main"}), GitCredentials(private_key="k\nk"))
    wishes = messages.FollowUpdate((spec,), (ID,))
    assert messages.FOLLOW.query.decode(messages.FOLLOW.query.encode(wishes)) == wishes


@given(st.sampled_from(MESSAGES), st.binary())
def test_anything_else_is_refused_without_a_crash(message: messages.JsonCodec, data: bytes) -> None:
    try:
        message.decode(data)
    except Invalid:
        pass


def test_a_refusal_does_not_repeat_what_came() -> None:
    odd = b'[{"follow": [{"id": "x", "url": 5, "refs": "canary", "credentials": "canary"}]}]'
    with pytest.raises(Invalid) as caught:
        messages.FOLLOW.query.decode(odd)
    assert "canary" not in str(caught.value)


def test_a_message_beyond_the_limit_is_not_parsed() -> None:
    with pytest.raises(Invalid, match="more than"):
        messages.LIVE_DIGESTS.query.decode(b" " * (messages.MAX_MESSAGE + 1))


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_contents_that_are_joined_are_split_again(contents: list[bytes]) -> None:
    assert messages.split_contents(messages.join_contents(contents)) == contents


@given(st.binary(max_size=40))
def test_other_bytes_are_no_contents(data: bytes) -> None:
    try:
        contents = messages.split_contents(data)
    except Invalid:
        return
    assert messages.join_contents(contents) == data
