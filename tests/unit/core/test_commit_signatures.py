"""Commits and signatures that somebody made to hurt the reader: each is refused with a reason."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.signatures.commit import object_id, read_commit
from core.signatures.kind import SignerText
from core.signatures.openpgp_packets import read_signature
from core.signatures.ssh import SshSigners
from core.signatures.trusted import read_signers
from tests.fakes.clock import START
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
        signers.verify_commit(commit, START)
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


@pytest.mark.parametrize(
    "options",
    [
        "namespaces=file",
        "valid-before=20250101",
        'valid-before="20250101"trailing',
        'valid-before="20250101",',
        ',valid-before="20250101"',
        'valid-before="20250101",7',
        "namespaces",
        'namespaces=""',
        'namespaces="git",namespaces="file"',
        'namespaces="a\\',
        "cert-authority",
    ],
)
def test_options_that_are_not_understood_are_refused(options: str) -> None:
    """They restrict the key: a reader that skips them trusts it for more."""
    with pytest.raises(Invalid):
        read_signers("k", f"ada {options} {ADA.line}")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (ADA.line, ""),
        (f"{ADA.line} Ada's laptop", "Ada's laptop"),
        (f'"ada@x,bob y" {ADA.line}', "ada@x,bob y"),
        (f'ada@x namespaces="git,a b"\t{ADA.line} "note', "ada@x"),
    ],
)
def test_lines_that_ssh_keygen_reads_are_read(line: str, name: str) -> None:
    (signer,) = SshSigners.read(SignerText(line)).keys
    assert signer.name == name


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN A-----" * 3855,
        "-----BEGIN A-----\n" * 3640,
        "a" + " " * 65000 + "b",
        "a" * 65000,
        'a="' * 21000,
        "ada " + 'namespaces="git",' * 3800 + ADA.line,
        "x\n" * 32000,
        "x509 a@x\n" * 7000,
    ],
)
def test_no_text_takes_long_to_refuse(text: str) -> None:
    began = time.process_time()
    with pytest.raises(Invalid):
        read_signers("k", text)
    assert time.process_time() - began < 0.5
