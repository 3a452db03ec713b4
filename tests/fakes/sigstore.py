"""A Fulcio and a Rekor of tests, and Sigstore bundles that they make."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from core.json_object import JsonObject
from core.signatures.artifact import ArtifactSignature
from tests.fakes.authority import FakeAuthority, IssuedCertificate, uri
from tests.fakes.clock import START

ISSUER = "https://token.example.org"
WORKFLOW = "https://git.example.org/shop/.github/workflows/release.yml@refs/heads/main"
STATEMENT = "application/vnd.in-toto+json"
SIGN = "https://sigstore.dev/cosign/sign/v1"
_ISSUER_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")


class FakeSigstore:
    """Signs for an identity as cosign does, at a time of `START` by default."""

    def __init__(self) -> None:
        self.fulcio = FakeAuthority.root("Fulcio")
        self.rekor = ec.generate_private_key(ec.SECP256R1())

    def text(self, line: str = f'keyless {WORKFLOW} issuer="{ISSUER}"') -> str:
        """A set of signers that trusts these two, and an identity."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        key = self.rekor.public_key().public_bytes(serialization.Encoding.PEM, form)
        return f"{line}\n{self.fulcio.pem}{key.decode()}"

    def certify(self, name: str = WORKFLOW, issuer: str = ISSUER) -> IssuedCertificate:
        """Certifies an identity for ten minutes."""
        value = b"\x0c" + bytes([len(issuer)]) + issuer.encode()
        return self.fulcio.issue(
            uri(name),
            valid=(START - timedelta(minutes=5), timedelta(minutes=10)),
            usages=(ExtendedKeyUsageOID.CODE_SIGNING,),
            extensions=[x509.UnrecognizedExtension(_ISSUER_OID, value)],
        )

    def sign(
        self, digest: str, signer: IssuedCertificate | None = None, at: datetime = START
    ) -> ArtifactSignature:
        """Signs a manifest as cosign before version 3: a payload and its signature."""
        signer = signer or self.certify()
        critical = {
            "identity": {"docker-reference": "registry.test/shop/web"},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        }
        payload = orjson.dumps({"critical": critical, "optional": None})
        signature = _sign(signer, payload)
        body = {
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": _sha256(payload)},
                "signature": {
                    "content": _text(signature),
                    "publicKey": {"content": _text(signer.pem.encode())},
                },
            },
        }
        content = {"messageSignature": {"signature": _text(signature)}}
        return ArtifactSignature(b"", payload, signature, self.bundle(signer, body, content, at))

    def attest(
        self,
        digest: str,
        signer: IssuedCertificate | None = None,
        *,
        predicate: str = SIGN,
        payload_type: str = STATEMENT,
    ) -> ArtifactSignature:
        """Signs a manifest as cosign from version 3: a statement in an envelope of DSSE."""
        signer = signer or self.certify()
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": digest.removeprefix("sha256:")}}],
            "predicateType": predicate,
        }
        payload = orjson.dumps(statement)
        kind = payload_type.encode()
        envelope = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
        signature = _text(_sign(signer, envelope))
        body = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "payloadHash": _sha256(payload),
                "signatures": [{"signature": signature, "verifier": _text(signer.pem.encode())}],
            },
        }
        signed = {"payload": _text(payload), "payloadType": payload_type}
        content = {"dsseEnvelope": signed | {"signatures": [{"sig": signature}]}}
        return ArtifactSignature(b"", b"", b"", self.bundle(signer, body, content, START))

    def bundle(
        self,
        signer: IssuedCertificate,
        body: Mapping[str, object],
        content: JsonObject,
        at: datetime,
    ) -> bytes:
        """Makes a bundle with an entry of the log."""
        der = self.rekor.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        log, seconds = hashlib.sha256(der).digest(), int(at.timestamp())
        encoded = _text(orjson.dumps(body))
        promised = {"body": encoded, "integratedTime": seconds, "logID": log.hex(), "logIndex": 7}
        promise = self.rekor.sign(orjson.dumps(promised), ec.ECDSA(hashes.SHA256()))
        entry = {
            "logIndex": "7",
            "logId": {"keyId": _text(log)},
            "integratedTime": str(seconds),
            "inclusionPromise": {"signedEntryTimestamp": _text(promise)},
            "canonicalizedBody": encoded,
        }
        der = signer.certificate.public_bytes(serialization.Encoding.DER)
        material = {"certificate": {"rawBytes": _text(der)}, "tlogEntries": [entry]}
        media_type = "application/vnd.dev.sigstore.bundle.v0.3+json"
        return orjson.dumps({"mediaType": media_type, "verificationMaterial": material, **content})


def _sign(signer: IssuedCertificate, data: bytes) -> bytes:
    assert isinstance(signer.key, ec.EllipticCurvePrivateKey)
    return signer.key.sign(data, ec.ECDSA(hashes.SHA256()))


def _sha256(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
