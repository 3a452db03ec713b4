"""Signatures of commits by certificates: gpgsm and OpenSSL sign, and verify as we do."""

import base64
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from core.errors import Invalid
from core.runtime.clock import SystemClock
from core.signatures.commit import SignedCommit, object_id, read_commit
from core.signatures.trusted import merge_signers, read_signers
from tests.fakes.authority import (
    FakeAuthority,
    IssuedCertificate,
    PrivateKey,
    email,
    rsa_key,
    uri,
)
from tests.fakes.security_key import with_signature
from tests.integration.gitcache import signing
from tests.integration.gitcache.signing import SignedRepository

NOW = SystemClock().now()
DAY = timedelta(days=1)
ADA = email("ada@example.org")
CONTENT = b"tree 1\n\nchange\n"
KEYS: dict[str, PrivateKey] = {
    "rsa": rsa_key(),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
}


@dataclass(frozen=True, slots=True)
class OpenSsl:
    """The program openssl with a root, and an authority below it."""

    folder: Path
    root: FakeAuthority
    below: FakeAuthority

    def sign(self, signer: IssuedCertificate, *options: str, content: bytes = CONTENT) -> bytes:
        """Signs a content; returns the signature."""
        (self.folder / "key.pem").write_bytes(signer.key_pem)
        (self.folder / "signer.pem").write_text(signer.pem)
        (self.folder / "below.pem").write_text(self.below.pem)
        words = ("-signer", "signer.pem", "-inkey", "key.pem", "-certfile", "below.pem", *options)
        return self._run("-sign", *words, given=content).stdout

    def accepts(self, signature: bytes, *options: str, content: bytes = CONTENT) -> bool:
        """The verdict of `openssl cms -verify`."""
        (self.folder / "root.pem").write_text(self.root.pem)
        (self.folder / "content").write_bytes(content)
        words = ("-content", "content", "-CAfile", "root.pem", "-purpose", "smimesign", *options)
        return self._run("-verify", *words, given=signature).returncode == 0

    def _run(self, *words: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
        form = "-inform" if "-verify" in words else "-outform"
        command = ["openssl", "cms", *words, "-binary", form, "DER"]
        return subprocess.run(
            command, check=False, capture_output=True, input=given, cwd=self.folder
        )


@pytest.fixture
def openssl(tmp_path: Path) -> OpenSsl:
    root = FakeAuthority.root()
    return OpenSsl(tmp_path, root, root.intermediate("People"))


def refusal(signature: bytes, text: str, when: datetime = NOW, now: datetime = NOW) -> str:
    """Our reason to refuse a signature of the content; empty: we accept it."""
    armored = base64.b64encode(signature).decode()
    commit = SignedCommit("c" * 40, "t", when, CONTENT, "SIGNED MESSAGE", armored)
    try:
        read_signers("shop", text).verify_commit(commit, now)
    except Invalid as error:
        return error.message
    return ""


def trusting(openssl: OpenSsl, line: str = "x509 ada@example.org", more: str = "") -> str:
    return f"{line}\n{openssl.root.pem}{more}"


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("options", [(), ("-keyid",), ("-md", "sha384")], ids=str)
def test_signatures_of_openssl_are_accepted(
    openssl: OpenSsl, kind: str, options: tuple[str, ...]
) -> None:
    signature = openssl.sign(openssl.below.issue(ADA, key=KEYS[kind]), *options)
    assert openssl.accepts(signature)
    assert refusal(signature, trusting(openssl)) == ""
    assert not openssl.accepts(signature, content=b"other")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-nodetach",), "is not detached"),
        (("-noattr",), "no signed attributes"),
        (("-nocerts",), "without the certificate"),
        (("-md", "sha1"), "an algorithm that is not supported"),
        (("-keyopt", "rsa_padding_mode:pss"), "an algorithm that is not supported"),
    ],
)
def test_forms_that_are_not_supported_are_named(
    openssl: OpenSsl, options: tuple[str, ...], reason: str
) -> None:
    signature = openssl.sign(openssl.below.issue(ADA, key=KEYS["rsa"]), *options)
    assert signature
    assert reason in refusal(signature, trusting(openssl))


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("x509 ada@example.org", True),
        ("x509 ada@EXAMPLE.org", True),
        ("x509 *@example.org", True),
        ("x509 spiffe://example.org/ci/*", True),
        ("x509 eve@example.org", False),
        ("x509 *@example.com", False),
        ("x509 https://example.org/*", False),
        ("x509 example.org/ci/*@*", False),
    ],
)
def test_an_identity_is_an_address_or_a_uri(openssl: OpenSsl, line: str, accepted: bool) -> None:
    names = (ADA, uri("spiffe://example.org/ci/web@example.com"))
    reason = refusal(openssl.sign(openssl.below.issue(*names)), trusting(openssl, line))
    assert (reason == "") == accepted
    if not accepted:
        assert "the signer is not allowed: CN=Ada, certified by CN=People" in reason
        assert "by a certificate of CN=Shop CA" in reason


def test_each_set_trusts_its_own_authorities(openssl: OpenSsl) -> None:
    """Two sets of a rule are read together; an authority must not certify the other set's names."""
    other = FakeAuthority.root("Other CA")
    signature = openssl.sign(openssl.below.issue(email("bob@example.com")))
    signers = [
        read_signers("shop", trusting(openssl)),
        read_signers("other", f"x509 bob@example.com\n{other.pem}"),
    ]
    armored = base64.b64encode(signature).decode()
    commit = SignedCommit("c" * 40, "t", NOW, CONTENT, "SIGNED MESSAGE", armored)
    with pytest.raises(Invalid, match="leads to no trusted authority"):
        merge_signers(signers).verify_commit(commit, NOW)


def test_certificates_of_other_authorities_and_purposes_are_refused(openssl: OpenSsl) -> None:
    stranger = FakeAuthority.root().intermediate("People")
    foreign = openssl.sign(stranger.issue(ADA))
    server = openssl.sign(openssl.below.issue(ADA, usages=[ExtendedKeyUsageOID.SERVER_AUTH]))
    for signature, reason in ((foreign, "no trusted authority"), (server, "may not sign")):
        assert not openssl.accepts(signature)
        assert reason in refusal(signature, trusting(openssl))


def test_a_leaf_certifies_nobody(openssl: OpenSsl) -> None:
    leaf = openssl.below.issue(email("eve@example.org"))
    forged = FakeAuthority(leaf.key, leaf.certificate).issue(ADA)
    signature = openssl.sign(forged, "-certfile", "below.pem")
    assert not openssl.accepts(signature)
    assert "no trusted authority" in refusal(signature, trusting(openssl))
    with pytest.raises(Invalid, match="is no certificate authority"):
        read_signers("shop", f"x509 ada@example.org\n{leaf.pem}")


def test_revoked_certificates_are_refused(openssl: OpenSsl) -> None:
    signer = openssl.below.issue(ADA)
    signature = openssl.sign(signer)
    revoked = openssl.below.revoke(signer.certificate) + openssl.root.revoke()
    (openssl.folder / "crl.pem").write_text(revoked)
    assert openssl.accepts(signature)
    assert not openssl.accepts(signature, "-crl_check_all", "-CRLfile", "crl.pem")
    text = trusting(openssl, more=openssl.below.pem + revoked)
    assert "CN=Ada is revoked" in refusal(signature, text)
    others = openssl.below.revoke(openssl.below.issue(ADA).certificate)
    assert refusal(signature, trusting(openssl, more=openssl.below.pem + others)) == ""
    with pytest.raises(Invalid, match="of no authority of the same set"):
        read_signers("shop", trusting(openssl, more=revoked))


@pytest.mark.parametrize(
    ("line", "committed", "now", "reason"),
    [
        ("x509 ada@example.org", 1, 1, ""),
        ("x509 ada@example.org", 1, 40, "was not valid now"),
        ("x509 ada@example.org", 40, 40, "no trusted authority"),
        ("x509 ada@example.org", -9, 1, "no trusted authority"),
        ('x509 ada@example.org valid-at="commit"', 1, 40, ""),
        ('x509 ada@example.org valid-at="commit"', 40, 40, "no trusted authority"),
        ('x509 ada@example.org valid-at="commit"', -9, 1, "no trusted authority"),
    ],
)
def test_validity_is_judged_at_the_commit_and_now_unless_a_line_says_otherwise(
    openssl: OpenSsl, line: str, committed: int, now: int, reason: str
) -> None:
    """The certificate is valid from yesterday for 30 days; times are days from now."""
    signature = openssl.sign(openssl.below.issue(ADA))
    found = refusal(signature, trusting(openssl, line), NOW + committed * DAY, NOW + now * DAY)
    assert (reason in found) if reason else found == ""


def test_the_time_of_the_signature_counts_beside_that_of_the_commit(openssl: OpenSsl) -> None:
    """OpenSSL signs now, with a certificate that has expired: a backdated commit hides it."""
    old = openssl.below.issue(ADA, valid=(NOW - 90 * DAY, 30 * DAY))
    signature = openssl.sign(old)
    text = trusting(openssl, 'x509 ada@example.org valid-at="commit"')
    assert not openssl.accepts(signature)
    assert "was not valid when it was signed" in refusal(signature, text, NOW - 80 * DAY)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x509 ada@example.org", "needs the certificate of an authority"),
        ("x509 ada", "neither an e-mail address nor a URI"),
        ("x509 a?a@example.org", "is not a pattern"),
        ('x509 ada@example.org valid-at="now"', "is not supported"),
        ('x509 ada@example.org issuer="x"', "is not supported"),
        ("x509", "is not a pattern"),
    ],
)
def test_lines_that_are_not_understood_are_refused(
    openssl: OpenSsl, text: str, reason: str
) -> None:
    with pytest.raises(Invalid, match=reason):
        read_signers("shop", text if "needs" in reason else trusting(openssl, text))
    with pytest.raises(Invalid, match="block of the kind CERTIFICATE"):
        read_signers("shop", openssl.root.pem)


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path for the home of gpgsm, because the path of its socket has a limit."""
    folder = Path(tempfile.mkdtemp(prefix="gpgsm"))
    yield folder / "home"
    signing.stop_agent(folder / "home")
    shutil.rmtree(folder, ignore_errors=True)


def verdict(repository: SignedRepository, id: str, text: str) -> str:
    """Our reason to refuse a commit; empty: we accept it."""
    try:
        commit = read_commit(id, repository.object(id))
        read_signers("shop", text).verify_commit(commit, NOW + timedelta(minutes=5))
    except Invalid as error:
        return error.message
    return ""


def test_commits_signed_by_gpgsm_are_accepted_as_git_does(tmp_path: Path, home: Path) -> None:
    root = FakeAuthority.root(key=rsa_key())
    below = root.intermediate("People", rsa_key())
    signer = below.issue(ADA, key=rsa_key())
    fingerprint = signing.gpgsm_home(home, signer, below, root)
    repository = signing.x509_repository(tmp_path / "r", home, fingerprint)
    signed = repository.commit("-S")
    unsigned = repository.commit("--no-gpg-sign", content="b: 2\n")
    moved = repository.store(
        with_signature(repository.object(unsigned), _armor(repository.object(signed)))
    )
    text = f"x509 ada@example.org\n{root.pem}"
    assert repository.accepts(signed) and verdict(repository, signed, text) == ""
    for id, reason in ((unsigned, "it is not signed"), (moved, "not of this content")):
        assert not repository.accepts(id)
        assert reason in verdict(repository, id, text)
    other = f"x509 ada@example.org\n{FakeAuthority.root().pem}"
    (home / "trustlist.txt").write_text("")
    signing.stop_agent(home)
    assert not repository.accepts(signed)
    assert "no trusted authority" in verdict(repository, signed, other)


def _armor(data: bytes) -> str:
    commit = read_commit(object_id(data), data)
    return f"-----BEGIN {commit.armor}-----\n{commit.signature}\n-----END {commit.armor}-----"
