"""Texts sealed with the shared key open; others do not."""

from hypothesis import given
from hypothesis import strategies as st

from gitcache.domain.message_auth import MessageAuthenticator, derive_key

SEAL = MessageAuthenticator("k" * 32)


@given(st.text(), st.binary())
def test_a_sealed_text_opens(place: str, text: bytes) -> None:
    assert SEAL.verify(place, SEAL.sign(place, text)) == text


@given(st.binary())
def test_nothing_else_is(sealed: bytes) -> None:
    assert SEAL.verify("state shop", sealed) is None


@given(st.binary(), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_byte_breaks_the_seal(text: bytes, at: int, change: int) -> None:
    sealed = bytearray(SEAL.sign("state shop", text))
    sealed[at % len(sealed)] ^= change
    assert SEAL.verify("state shop", bytes(sealed)) is None


def test_a_seal_is_for_one_place_and_one_key() -> None:
    sealed = SEAL.sign("state shop", b"x")
    assert SEAL.verify("state other", sealed) is None
    assert MessageAuthenticator("j" * 32).verify("state shop", sealed) is None


def test_each_purpose_has_a_key_of_its_own() -> None:
    made = {derive_key("k" * 32, purpose) for purpose in ("authority", "announcements", "x")}
    assert len(made) == 3 and all(len(one) == 32 for one in made)
