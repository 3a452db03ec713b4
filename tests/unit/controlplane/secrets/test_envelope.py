"""Sealed values: whoever has the database has no value, and can move none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.secrets.backends.envelope import EnvelopeSealer, load_or_make_key
from core.errors import Invalid, TowlineError

KEY, OTHER = b"k" * 32, b"o" * 32
SEALED = EnvelopeSealer(KEY).seal(b"value", "secret:1")


@given(st.binary(max_size=64), st.text(max_size=16))
def test_a_value_is_opened_in_its_own_row_only(plain: bytes, context: str) -> None:
    sealer = EnvelopeSealer(KEY)
    sealed = sealer.seal(plain, context)
    assert sealer.open(sealed, context) == plain
    assert sealer.seal(plain, context) != sealed, "equal values look different"
    with pytest.raises(TowlineError, match="moved to another row"):
        sealer.open(sealed, context + "x")


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_no_byte_of_a_sealed_value_can_be_changed(position: int, bits: int) -> None:
    altered = bytearray(SEALED)
    altered[position] ^= bits
    with pytest.raises(TowlineError, match="altered|another key"):
        EnvelopeSealer(KEY).open(bytes(altered), "secret:1")


@given(st.integers(0, len(SEALED) - 1))
def test_a_part_of_a_sealed_value_is_none(length: int) -> None:
    with pytest.raises(TowlineError):
        EnvelopeSealer(KEY).open(SEALED[:length], "secret:1")


def test_a_new_data_key_seals_and_the_old_one_still_opens() -> None:
    sealer = EnvelopeSealer(KEY)
    old = sealer.seal(b"old", "c")
    assert sealer.is_current(old) and not sealer.has_key("second")
    sealer.add_key("second", OTHER)
    assert sealer.has_key("second") and sealer.is_current(old)
    sealer.seal_with("second")
    new = sealer.seal(b"new", "c")
    assert (sealer.is_current(old), sealer.is_current(new)) == (False, True)
    assert (sealer.open(old, "c"), sealer.open(new, "c")) == (b"old", b"new")
    assert EnvelopeSealer(OTHER).open(new, "c") == b"new"
    with pytest.raises(TowlineError, match="with another key: start with the key that belongs"):
        EnvelopeSealer(KEY).open(new, "c")


def test_sealed_manifests_stay_those_of_the_key_file() -> None:
    """A rebuilt installation has new data keys."""
    sealer = EnvelopeSealer(KEY)
    sealer.add_key("second", OTHER)
    sealer.seal_with("second")
    assert sealer.manifest_key.public == EnvelopeSealer(KEY).manifest_key.public
    assert sealer.manifest_key.public != EnvelopeSealer(OTHER).manifest_key.public


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_has_32_bytes(length: int) -> None:
    for use in (EnvelopeSealer, lambda key: EnvelopeSealer(KEY).add_key("second", key)):
        with pytest.raises(Invalid, match=f"has {length} bytes; expected 32"):
            use(b"k" * length)


def test_a_key_file_is_made_once_for_its_owner(tmp_path: Path) -> None:
    """An interrupted start may leave an empty one, with which nothing was sealed."""
    path = tmp_path / "store.key"
    path.touch()
    first = load_or_make_key(path)
    assert len(first) == 32 and load_or_make_key(path) == first
    assert path.stat().st_mode & 0o077 == 0
    assert load_or_make_key(tmp_path / "other.key") != first
