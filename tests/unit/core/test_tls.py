"""Verification of servers whose authority is older than the strict checks of RFC 5280."""

import ssl
from pathlib import Path

import pytest

from core.tls import client_context
from tests.fakes.tls import TestAuthority


def shake_hands(authority: TestAuthority, context: ssl.SSLContext, host: str) -> None:
    """Connects a client to a server of the authority in memory. Raises SSLCertVerificationError."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(authority.certificate, authority.key)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(down, up, server_hostname=host)
    server = serving.wrap_bio(up, down, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.fixture
def older(tmp_path: Path) -> TestAuthority:
    """An authority like that of a cluster that was created years ago."""
    return TestAuthority(tmp_path, strict=False)


def test_an_older_authority_is_trusted(older: TestAuthority) -> None:
    """Strict verification, the default of Python 3.13, would refuse it."""
    shake_hands(older, client_context(file=older.ca), "localhost")
    shake_hands(older, client_context(text=older.ca.read_text()), "127.0.0.1")
    strict = older.client_context()
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    with pytest.raises(ssl.SSLCertVerificationError, match="Key Identifier|keyid"):
        shake_hands(older, strict, "localhost")


def test_all_other_checks_stay(older: TestAuthority, tmp_path: Path) -> None:
    """Neither another name nor another authority is accepted."""
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(older, client_context(file=older.ca), "example.org")
    (tmp_path / "other").mkdir()
    other = TestAuthority(tmp_path / "other", strict=False)
    with pytest.raises(ssl.SSLCertVerificationError, match="signature|self-signed|unable to get"):
        shake_hands(older, client_context(file=other.ca), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(older, client_context(), "localhost")


def test_an_unreadable_authority_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        client_context(file=tmp_path / "missing.crt")
    with pytest.raises(ssl.SSLError):
        client_context(text="no certificate")
