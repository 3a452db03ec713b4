"""Sigstore bundles (sigstore: protobuf-specs, bundle 0.1 to 0.3) with an entry of a Rekor log.

The log's signed promise gives the time at which the certificate, which lives for minutes, was used.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

import orjson
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from core.errors import Invalid
from core.json_object import JsonMapping
from core.signatures.artifact import signed_digest
from core.signatures.cosign_key import CosignKey, cosign_key
from core.signatures.inclusion import InclusionProof

BUNDLE_MEDIA_TYPE = "application/vnd.dev.sigstore.bundle"
MAX_BUNDLE_BYTES = 65536
_STATEMENT = "application/vnd.in-toto+json"
_COSIGN_SIGN = "https://sigstore.dev/cosign/sign/v1"
_MAX_TIME = 253402300799


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of a transparency log; `promise` is the log's signature of it.

    `proof` is the proof of its inclusion; None: the bundle has none.
    """

    body: str
    integrated_time: int
    log_index: int
    log_id: str
    promise: bytes
    proof: InclusionProof | None

    @property
    def integrated_at(self) -> datetime:
        """Time at which the log took the entry."""
        return datetime.fromtimestamp(self.integrated_time, UTC)

    def check(self, logs: Iterable[CosignKey]) -> None:
        """Raises Invalid unless one of these logs has signed the entry, and proves that it contains
        the entry, if the bundle has a proof."""
        fields = {
            "body": self.body,
            "integratedTime": self.integrated_time,
            "logID": self.log_id,
            "logIndex": self.log_index,
        }
        signed = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        key = next((log for log in logs if log.fingerprint == f"sha256:{self.log_id}"), None)
        if key is None:
            raise Invalid(f"it is in the transparency log {self.log_id[:64]}, which is not trusted")
        if not key.is_signature_of(self.promise, signed):
            raise Invalid("the signature of the transparency log is wrong")
        if self.proof is not None:
            self.proof.check(_decode_base64(self.body), key)


@dataclass(frozen=True, slots=True)
class SigstoreBundle:
    """A signature, the certificate of its key, and its entry in a log.

    `payload` is the signed content; with `payload_type` it is in an envelope of DSSE.
    """

    certificate: x509.Certificate
    payload: bytes
    payload_type: str
    signature: bytes
    entry: LogEntry

    @property
    def subjects(self) -> frozenset[str]:
        """Digests of the manifests that are signed; empty for a signature of anything else."""
        if not self.payload_type:
            return frozenset(filter(None, [signed_digest(self.payload)]))
        try:
            statement = orjson.loads(self.payload)
            if (self.payload_type, statement["predicateType"]) != (_STATEMENT, _COSIGN_SIGN):
                return frozenset()
            return frozenset(f"sha256:{each['digest']['sha256']}" for each in statement["subject"])
        except (ValueError, LookupError, TypeError):
            return frozenset()

    def check(self, logs: Iterable[CosignKey]) -> None:
        """Raises Invalid unless the certificate's key signed the payload, and a log says so."""
        self.entry.check(logs)
        if not self._is_recorded():
            raise Invalid("the entry of the transparency log is of another signature")
        try:
            key = cosign_key(self.certificate.public_key())
        except (ValueError, UnsupportedAlgorithm):
            raise Invalid("the key of the certificate is not supported") from None
        kind = self.payload_type.encode()
        envelope = b"DSSEv1 %d %b %d " % (len(kind), kind, len(self.payload)) if kind else b""
        if not key.is_signature_of(self.signature, envelope + self.payload):
            raise Invalid("the signature is wrong")

    def _is_recorded(self) -> bool:
        """Reports whether the entry is of this signature, payload and certificate."""
        try:
            entry = orjson.loads(base64.b64decode(self.entry.body, validate=True))
            spec, kind = entry["spec"], (entry["kind"], entry["apiVersion"])
            if kind == ("hashedrekord", "0.0.1") and not self.payload_type:
                digest, signature = spec["data"]["hash"], spec["signature"]["content"]
                certificate = spec["signature"]["publicKey"]["content"]
            elif kind == ("dsse", "0.0.1") and self.payload_type:
                (signed,) = spec["signatures"]
                digest, signature = spec["payloadHash"], signed["signature"]
                certificate = signed["verifier"]
            else:
                return False
            recorded_certificate = x509.load_pem_x509_certificate(
                base64.b64decode(certificate, validate=True)
            )
            recorded = (
                digest["algorithm"],
                digest["value"],
                _decode_base64(signature),
                recorded_certificate,
            )
        except (ValueError, LookupError, TypeError):
            return False
        sha256 = hashlib.sha256(self.payload).hexdigest()
        return recorded == ("sha256", sha256, self.signature, self.certificate)


@lru_cache(64)
def read_bundle(data: bytes, payload: bytes = b"") -> SigstoreBundle:
    """Reads a bundle. `payload` is the signed content if it is not in the bundle. Invalid."""
    if len(data) > MAX_BUNDLE_BYTES:
        raise Invalid("the Sigstore bundle is too large")
    try:
        raw = orjson.loads(data)
        material = raw["verificationMaterial"]
        certificate = x509.load_der_x509_certificate(
            _decode_base64(_certificate(material)["rawBytes"])
        )
        entry = _entry(material["tlogEntries"][0])
        if (envelope := raw.get("dsseEnvelope")) is None:
            signature = _decode_base64(raw["messageSignature"]["signature"])
            return SigstoreBundle(certificate, payload, "", signature, entry)
        (signed,) = envelope["signatures"]
        kind, body = str(envelope["payloadType"]), _decode_base64(envelope["payload"])
        if not kind:
            raise ValueError("an envelope without the type of its payload")
        return SigstoreBundle(certificate, body, kind, _decode_base64(signed["sig"]), entry)
    except (ValueError, LookupError, TypeError, AttributeError, UnsupportedAlgorithm):
        raise Invalid(
            "the Sigstore bundle has another form: a certificate and an entry of a Rekor log of "
            "version 1 are expected"
        ) from None


def _certificate(material: JsonMapping) -> JsonMapping:
    """The certificate; bundles before 0.3 have it in a chain."""
    if "certificate" in material:
        return material["certificate"]
    return material["x509CertificateChain"]["certificates"][0]


def _entry(raw: JsonMapping) -> LogEntry:
    seconds = int(raw["integratedTime"])
    if not 0 < seconds <= _MAX_TIME:
        raise ValueError("an entry without a time")
    return LogEntry(
        str(raw["canonicalizedBody"]),
        seconds,
        int(raw["logIndex"]),
        _decode_base64(raw["logId"]["keyId"]).hex(),
        _decode_base64(raw["inclusionPromise"]["signedEntryTimestamp"]),
        InclusionProof.read(proof) if (proof := raw.get("inclusionProof")) is not None else None,
    )


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
