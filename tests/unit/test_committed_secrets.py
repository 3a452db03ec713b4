"""No secret of anybody is in the repository: by the forms that secrets of the usual kinds have."""

import re
import subprocess
from pathlib import Path

import pytest

from core.identity import TokenKind, new_token, token_kind

ROOT = Path(__file__).parents[2]
FORMS = {
    b"PRIVATE KEY-----": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:\\n|\s)+[A-Za-z0-9+/=]{60}",
    b"AKIA": rb"\bAKIA[0-9A-Z]{16}\b",
    b"ASIA": rb"\bASIA[0-9A-Z]{16}\b",
    b"gh": rb"\bgh[pousr]_[0-9A-Za-z]{36}\b",
    b"github_pat_": rb"\bgithub_pat_[0-9A-Za-z_]{60,}",
    b"glpat-": rb"\bglpat-[0-9A-Za-z_-]{20}",
    b"xox": rb"\bxox[abprs]-[0-9A-Za-z-]{20,}",
    b"hvs.": rb"\bhvs\.[0-9A-Za-z_-]{24,}",
    b"AIza": rb"\bAIza[0-9A-Za-z_-]{35}\b",
    b"sk_live_": rb"\bsk_live_[0-9A-Za-z]{20,}",
    b"AGE-SECRET-KEY-1": rb"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b",
    b".eyJ": rb"\beyJ[0-9A-Za-z_-]{16,}\.eyJ[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}",
}
"""What each must contain, which is quick to look for, and all of its form."""
OURS = re.compile(rb"tw[a-z]_[0-9A-Za-z]{40,}")


def secrets_in(data: bytes) -> list[bytes]:
    """Likely secrets, cut so that no report shows them."""
    ours = [one for one in OURS.findall(data) if token_kind(one.decode()) is not None]
    others = [one for mark, form in FORMS.items() if mark in data for one in re.findall(form, data)]
    return [one[:12] for one in [*others, *ours]]


def test_no_tracked_file_holds_a_secret() -> None:
    """Covers every kind of file; the tests make their secrets when they run."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    found = {str(one): secrets_in(one.read_bytes()) for one in files if one.is_file()}
    assert len(found) > 1000
    assert {name: secrets for name, secrets in found.items() if secrets} == {}


@pytest.mark.parametrize(
    "text",
    [
        "key: AKIA" + "ABCDEFGH12345678",
        "url = https://x:" + "ghp_" + "a1" * 18 + "@github.com",
        "-----BEGIN EC " + "PRIVATE KEY-----\n" + "MHcCAQEE" * 8,
        '"-----BEGIN ' + "PRIVATE KEY-----\\n" + "MHcCAQEE" * 8 + '\\n"',
        "AGE-SECRET-" + "KEY-1" + "Q" * 58,
        "Bearer eyJ" + "hbGciOiJSUzI1NiIs.eyJ" + "zdWIiOiIxMjM0NTY3.c2lnbmF0dXJlc2lnbmF0dXJl",
        pytest.param(f"token={new_token(TokenKind.AGENT)}", id="a token of ours"),
    ],
)
def test_known_secret_formats_are_found(text: str) -> None:
    assert len(secrets_in(text.encode())) == 1
    assert all(len(one) <= 12 for one in secrets_in(text.encode()))
