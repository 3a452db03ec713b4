"""Commits and signatures that somebody made to hurt the reader: each is refused with a reason."""

import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.signatures.commit import object_id, read_commit
from core.signatures.openpgp_packets import read_signature
from core.signatures.trusted import read_signers
from tests.fakes.security_key import SecurityKey, with_signature

ADA = SecurityKey()


def commit_at(seconds: int) -> bytes:
    who = b"Ada <a@x> %d +0000" % seconds
    return b"tree " + b"1" * 40 + b"\nauthor " + who + b"\ncommitter " + who + b"\n\nchange\n"


@pytest.mark.parametrize("seconds", [253402300800, 999999999999])
def test_a_commit_past_the_calendar_is_refused(seconds: int) -> None:
    data = commit_at(seconds)
    with pytest.raises(Invalid, match=f"of the time {seconds}"):
        read_commit(object_id(data), data)
    last = commit_at(253402300799)
    assert read_commit(object_id(last), last).committed_at.year == 9999


@given(st.binary(max_size=400), st.integers(0, 400))
def test_a_changed_commit_is_read_or_refused(noise: bytes, at: int) -> None:
    unsigned = commit_at(1700000000)
    signed = with_signature(unsigned, ADA.sign(unsigned))
    data = signed[:at] + noise + signed[at + len(noise) :]
    signers = read_signers("k", f"ada {ADA.line}")
    try:
        commit = read_commit(object_id(data), data)
        signers.verify_commit(commit, datetime.now(UTC))
    except Invalid:
        return
    assert commit.payload == unsigned


def test_an_expiry_of_more_bytes_than_openpgp_has_is_cut() -> None:
    """RFC 9580 gives four bytes to the subpackets 3 and 9."""
    created = bytes([5, 2]) + struct.pack(">I", 1700000000)
    expires = bytes([13, 3]) + b"\xff" * 12
    hashed = created + expires
    body = bytes([4, 0, 22, 8]) + struct.pack(">H", len(hashed)) + hashed + b"\0\0\0\0"
    end = read_signature(body).expiry()
    assert end is not None and end.year == 2159
