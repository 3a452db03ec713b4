"""Signatures of OCI artifacts: one that cosign 2.6 made, and others by the same specification."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature, signed_digest
from core.signatures.trusted import read_signers
from core.spec.bundle import digest_of
from core.spec.source_signatures import (
    MAX_EVIDENCE_BYTES,
    Evidence,
    SignatureRule,
    SignerSet,
    check_signatures,
    decode_evidence,
)
from core.spec.statements.attestation import SignedSource
from tests.fakes.clock import START

_MADE = json.loads((Path(__file__).parent / "cosign_signature.json").read_text())
KEY, LAYER = _MADE["key"], _MADE["layer"]
SIGNED = ArtifactSignature(
    _MADE["manifest"].encode(), _MADE["payload"].encode(), base64.b64decode(_MADE["signature"])
)
PRIVATE = {
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "ed25519": Ed25519PrivateKey.generate(),
    "rsa": rsa.generate_private_key(65537, 2048),
}


def public_pem(kind: str) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return PRIVATE[kind].public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def sign(kind: str, payload: bytes) -> bytes:
    key = PRIVATE[kind]
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(payload)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(payload, padding.PKCS1v15(), hashes.SHA256())
    return key.sign(payload, ec.ECDSA(hashes.SHA256() if kind == "p256" else hashes.SHA384()))


def test_a_signature_that_cosign_made_is_accepted() -> None:
    signer = read_signers("shop-cosign", KEY).verify_artifact(LAYER, [SIGNED])
    assert signer.method == "cosign" and signer.key.startswith("sha256:")
    assert signed_digest(SIGNED.payload) == digest_of(SIGNED.manifest)


@pytest.mark.parametrize("kind", PRIVATE)
def test_all_kinds_of_keys_are_accepted(kind: str) -> None:
    signed = replace(SIGNED, signature=sign(kind, SIGNED.payload))
    read_signers("k", public_pem(kind)).verify_artifact(LAYER, [signed])
    with pytest.raises(Invalid, match="the signer is not allowed"):
        read_signers("k", KEY).verify_artifact(LAYER, [signed])


@pytest.mark.parametrize(
    ("signatures", "reason"),
    [
        ([], "it is not signed"),
        ([replace(SIGNED, payload=SIGNED.payload + b" ")], "the signer is not allowed"),
        ([replace(SIGNED, manifest=SIGNED.manifest + b" ")], "is of another artifact"),
        ([replace(SIGNED, signature=b"")], "the signer is not allowed"),
    ],
)
def test_a_changed_signature_is_refused(signatures: list[ArtifactSignature], reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as refused:
        read_signers("shop-cosign", KEY).verify_artifact(LAYER, signatures)
    assert "shop-cosign (cosign key sha256:" in refused.value.message


def test_a_signature_of_another_chart_is_refused() -> None:
    with pytest.raises(Invalid, match="is of another artifact"):
        read_signers("k", KEY).verify_artifact("sha256:" + "0" * 64, [SIGNED])


@pytest.mark.parametrize(
    "payload", [b"{}", b"[]", b"no json", b'{"critical": {"type": "x", "image": {}}}']
)
def test_a_signed_payload_of_another_form_is_refused(payload: bytes) -> None:
    signed = replace(SIGNED, payload=payload, signature=sign("p256", payload))
    with pytest.raises(Invalid, match="is of another artifact"):
        read_signers("k", public_pem("p256")).verify_artifact(LAYER, [signed])


def test_evidence_of_a_chart_reaches_the_agent() -> None:
    source = SignedSource("oci://registry.example.org/charts", "web", "1.0.0", LAYER)
    keys = SignerSet("shop-cosign", KEY)
    rule = SignatureRule("oci://registry.example.org/*", ("web",), (keys,))
    evidence = decode_evidence(Evidence(artifacts=(SIGNED,)).encode())
    assert check_signatures([rule], [source], evidence, START)[source].method == "cosign"
    with pytest.raises(Invalid, match="chart web 1.0.0 of oci"):
        check_signatures([rule], [source], Evidence(), START)


def test_short_and_malformed_keys_are_refused() -> None:
    short = rsa.generate_private_key(65537, 1024).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = short.public_bytes(serialization.Encoding.PEM, form).decode()
    for text in (pem, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"):
        with pytest.raises(Invalid):
            read_signers("k", text)


def test_evidence_is_measured_before_it_is_parsed() -> None:
    for data in (
        b"[" * (MAX_EVIDENCE_BYTES + 1),
        json.dumps({"commits": ["not base64"] * 257, "artifacts": []}).encode(),
    ):
        with pytest.raises(Invalid, match="too large"):
            decode_evidence(data)
    with pytest.raises(Invalid, match="unknown form"):
        decode_evidence(b'{"commits": 7, "artifacts": []}')
