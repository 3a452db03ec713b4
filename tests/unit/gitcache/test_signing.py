"""The signing key of a render tier: its file, its rotations, and the sources that it signs."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Conflict, Invalid
from core.spec.statements.attestation import AttestationStatement, SignedSource, Signer, TrustedKeys
from core.spec.statements.signing_keys import follow_rotations, public_key
from gitcache.render.signing import RenderSigner, SigningKeyFile, SigningSources
from tests.fakes.clock import FakeClock

DIGEST = "sha256:" + "0" * 64
SHOP = SignedSource("https://git.example.org/shop.git", "deploy/web", "c0", "d0")


def tier(file: SigningKeyFile) -> RenderSigner:
    return RenderSigner(file.load(), FakeClock(), rotations=file.rotations())


def test_the_first_start_makes_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = SigningKeyFile(tmp_path / "git" / "signing.key")
    made = file.load_or_create()
    assert file.load_or_create().key_id == made.key_id
    assert file.path.stat().st_mode & 0o777 == 0o600 and file.rotations() == ()


def test_a_key_of_openssl_is_read(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "signing.key"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    assert SigningKeyFile(path).load().key_id == Signer(key).key_id
    other = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(other.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    with pytest.raises(Invalid, match="not Ed25519"):
        SigningKeyFile(path).load()
    path.write_bytes(b"short")
    with pytest.raises(Invalid, match="32 bytes"):
        SigningKeyFile(path).load()
    with pytest.raises(Invalid, match="cannot be read"):
        SigningKeyFile(tmp_path / "none").load()


def test_each_rotation_extends_the_chain(tmp_path: Path) -> None:
    file = SigningKeyFile(tmp_path / "signing.key")
    first = file.load_or_create()
    for _ in range(2):
        old, new = file.rotate()
        assert old.key_id != new.key_id == file.load().key_id
    present = follow_rotations(first.key_id, tier(file).identity)
    assert present.public_bytes_raw() == file.load().public_raw


def test_a_rotation_that_stopped_halfway_is_named(tmp_path: Path) -> None:
    """The chain was written, the key was not: another rotation would fork the chain."""
    file = SigningKeyFile(tmp_path / "signing.key")
    file.load_or_create()
    before = file.path.read_bytes()
    file.rotate()
    file.path.write_bytes(before)
    with pytest.raises(Conflict, match="already replaces"):
        file.rotate()


def test_a_statement_of_a_former_key_is_signed_again(tmp_path: Path) -> None:
    file = SigningKeyFile(tmp_path / "signing.key")
    old = file.load_or_create().sign(AttestationStatement(DIGEST, (SHOP,)))
    file.rotate()
    renewed = tier(file).renew(old)
    keys = TrustedKeys([public_key(file.load().public_raw)])
    assert keys.verify(DIGEST, renewed).sources == (SHOP,)
    stranger = Signer(Ed25519PrivateKey.generate()).sign(AttestationStatement(DIGEST, (SHOP,)))
    assert tier(file).renew(stranger) == stranger, "an agent's own render: not ours to sign"


@pytest.mark.parametrize(
    ("pattern", "signed"),
    [
        ("https://git.example.org/*", True),
        ("https://git.example.org/shop", True),
        ("https://git.example.org/shop#deploy", True),
        ("https://git.example.org/*?ref=main", True),
        ("https://git.example.org/shop?ref=main#deploy", True),
        ("https://git.example.org/shop?ref=main#base", False),
        ("https://git.example.org/shop#dep", False),
        ("https://git.example.org/shop#base", False),
        ("https://git.example.org", False),
        ("https://evil.example.org/*", False),
    ],
)
def test_only_listed_sources_are_signed(pattern: str, signed: bool) -> None:
    sources = SigningSources((pattern,))
    signer = RenderSigner(Signer(Ed25519PrivateKey.generate()), FakeClock(), sources=sources)
    statement = AttestationStatement(DIGEST, (SHOP,))
    if signed:
        signer.sign(statement)
        evil = SignedSource("https://evil.example.org/base.git", "", "c1", "d1")
        with pytest.raises(Invalid, match=r"https://evil\.example\.org"):
            signer.sign(AttestationStatement(DIGEST, (SHOP, evil)))
        return
    with pytest.raises(Invalid, match=r"git\.signing\.sources"):
        signer.sign(statement)


def test_one_entry_is_enough_for_a_source_and_none_covers_a_way_out_of_its_folder() -> None:
    sources = SigningSources(("https://evil.example.org/*", "https://git.example.org/shop#deploy"))
    signer = RenderSigner(Signer(Ed25519PrivateKey.generate()), FakeClock(), sources=sources)
    signer.sign(AttestationStatement(DIGEST, (SHOP,)))
    outside = replace(SHOP, path="deploy/../secret")
    with pytest.raises(Invalid, match=r"git\.signing\.sources"):
        signer.sign(AttestationStatement(DIGEST, (outside,)))


def test_a_bundle_without_a_source_is_not_signed_where_sources_are_listed() -> None:
    signer = Signer(Ed25519PrivateKey.generate())
    listed = RenderSigner(signer, FakeClock(), sources=SigningSources(("*",)))
    with pytest.raises(Invalid, match="has none"):
        listed.sign(AttestationStatement(DIGEST, ()))
    RenderSigner(signer, FakeClock()).sign(AttestationStatement(DIGEST, ()))
