"""Measures an agent's verification of evidence: of a commit, and of the images of a bundle."""

import base64
import time
from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs7

from bench.report import BenchReport
from core.runtime.clock import SystemClock
from core.signatures.artifact import ArtifactSignature
from core.signatures.commit import object_id
from core.spec.image_signatures import ImageSignatureRule, check_images
from core.spec.source_signatures import (
    Evidence,
    SignatureRule,
    SignerSet,
    check_signatures,
    decode_evidence,
)
from core.spec.statements.attestation import SignedSource
from tests.fakes.authority import FakeAuthority, email
from tests.fakes.security_key import SecurityKey, with_signature
from tests.fakes.sigstore import FakeSigstore

ROUNDS, CALLS = 21, 20
NOW = SystemClock().now()
URL = "https://git.example.org/shop.git"
MOMENT = int(NOW.timestamp())
UNSIGNED = b"tree %b\nauthor Ada <a@x> %d +0000\ncommitter Ada <a@x> %d +0000\n\nchange\n" % (
    b"1" * 40,
    MOMENT,
    MOMENT,
)
DIGESTS = [f"sha256:{number:064x}" for number in range(5)]
IMAGES = [f"registry.example.org/shop/web@{digest}" for digest in DIGESTS]


def timed(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call: other load does not count."""
    began = time.process_time()
    for _ in range(CALLS):
        work()
    return (time.process_time() - began) * 1000 / CALLS


def commit_by_ssh() -> tuple[bytes, SignerSet]:
    """A commit that an SSH key has signed."""
    ada = SecurityKey()
    return with_signature(UNSIGNED, ada.sign(UNSIGNED)), SignerSet("keys", f"ada {ada.line}")


def commit_by_certificate() -> tuple[bytes, SignerSet]:
    """A commit that a certificate of an intermediate authority has signed."""
    root = FakeAuthority.root()
    people = root.intermediate("People")
    ada = people.issue(email("ada@example.org"))
    options = [pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary]
    builder = pkcs7.PKCS7SignatureBuilder().set_data(UNSIGNED)
    builder = builder.add_signer(ada.certificate, ada.key, hashes.SHA256())
    builder = builder.add_certificate(people.certificate)
    body = base64.encodebytes(builder.sign(serialization.Encoding.DER, options)).decode().strip()
    armored = f"-----BEGIN SIGNED MESSAGE-----\n{body}\n-----END SIGNED MESSAGE-----"
    signers = SignerSet("people", f"x509 ada@example.org\n{root.pem}")
    return with_signature(UNSIGNED, armored), signers


def images_by_key() -> tuple[list[ArtifactSignature], SignerSet]:
    """Images that a key of cosign has signed."""
    sigstore, key = FakeSigstore(), ec.generate_private_key(ec.SECP256R1())
    payloads = [sigstore.sign(digest).payload for digest in DIGESTS]
    found = [
        ArtifactSignature(b"", payload, key.sign(payload, ec.ECDSA(hashes.SHA256())))
        for payload in payloads
    ]
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return found, SignerSet("cosign", pem.decode())


def image_without_key() -> tuple[list[ArtifactSignature], SignerSet]:
    """An image that an identity has signed without a key."""
    sigstore = FakeSigstore()
    return [sigstore.attest(DIGESTS[0])], SignerSet("ci", sigstore.text())


def of_commit(data: bytes, signers: SignerSet) -> Callable[[], object]:
    """Verification of a commit, from the bytes that the agent received."""
    sha = object_id(data)
    encoded = Evidence({sha: data}).encode()
    source = SignedSource(URL, "web", sha, "d" * 40)
    rules = (SignatureRule(URL, signed_by=(signers,)),)
    return lambda: check_signatures(rules, [source], decode_evidence(encoded), NOW)


def of_images(signatures: Sequence[ArtifactSignature], signers: SignerSet) -> Callable[[], object]:
    """Verification of images, from the bytes that the agent received."""
    encoded = Evidence(artifacts=tuple(signatures)).encode()
    rules = (ImageSignatureRule("registry.example.org/*", (signers,)),)
    images = IMAGES[: len(signatures)]
    return lambda: check_images(rules, images, decode_evidence(encoded))


def main() -> None:
    works = {
        "a commit by an SSH key": of_commit(*commit_by_ssh()),
        "a commit by a certificate": of_commit(*commit_by_certificate()),
        "5 images by a key": of_images(*images_by_key()),
        "an image without a key": of_images(*image_without_key()),
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            found[name].append(timed(work))
    report = BenchReport("evidence")
    for name, values in found.items():
        report.add(name, values, "ms", goal=2.0)
    report.write()


if __name__ == "__main__":
    main()
