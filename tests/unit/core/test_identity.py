"""Ids sort by time, tokens are recognised by their form."""

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from core.identity import (
    TokenKind,
    is_local_id,
    local_id,
    new_id,
    new_token,
    token_hash,
    token_kind,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_ids_are_uuids_of_version_7_that_sort_by_time() -> None:
    """RFC 9562: 48 bits of milliseconds, then version, variant and random bits."""
    ids = [new_id(NOW + timedelta(milliseconds=number)) for number in range(50)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 50
    for one in map(UUID, ids):
        assert (one.version, one.variant) == (7, "specified in RFC 4122")


@given(st.sampled_from(TokenKind))
def test_a_token_names_its_kind(kind: TokenKind) -> None:
    """Prefix, 43 characters of secret, 6 of checksum."""
    token = new_token(kind)
    assert token_kind(token) is kind
    assert len(token) == 4 + 43 + 6
    assert token not in token_hash(token) and len(token_hash(token)) == 64


@given(st.sampled_from(TokenKind), st.integers(4, 52), st.characters(codec="ascii"))
def test_a_mistyped_token_is_no_token(kind: TokenKind, place: int, char: str) -> None:
    """One wrong character anywhere behind the prefix is noticed without a look anywhere."""
    token = new_token(kind)
    mistyped = token[:place] + char + token[place + 1 :]
    assert token_kind(mistyped) is (kind if mistyped == token else None)


@given(st.text())
def test_any_text_can_be_asked(text: str) -> None:
    """Garbage is no token and raises nothing."""
    assert token_kind(text) is None


def test_ids_of_one_moment_sort_by_the_order_of_their_making() -> None:
    ids = [new_id(NOW) for _ in range(1000)]
    assert ids == sorted(set(ids))
    assert all(UUID(one).version == 7 and UUID(one).variant == RFC_4122 for one in ids)


def test_an_id_tells_its_millisecond() -> None:
    later = NOW + timedelta(microseconds=1999)
    assert UUID(new_id(later)).int >> 80 == int(later.timestamp() * 1000)


@given(st.uuids(), st.text())
def test_only_uuids_of_version_5_in_canonical_form_are_local(id: UUID, name: str) -> None:
    made = local_id("cluster", name)
    assert is_local_id(made)
    assert is_local_id(str(id)) == (id.variant == RFC_4122 and id.version == 5)
    for other in (made.upper(), f"{{{made}}}", made.replace("-", ""), f"{made}\n", name):
        assert not is_local_id(other) or other == made


def test_an_id_of_the_control_plane_is_not_local() -> None:
    """So no service of the control plane passes for one that the cluster defines."""
    assert not is_local_id(new_id(datetime(2026, 1, 1, tzinfo=UTC)))
