"""Required signatures of sources, and the evidence that proves them.

The render tier collects the evidence: signed commit objects and signatures of artifacts. It checks
the rules of a project's fence with it. The agent checks the rules of its own tenants with the same
evidence, and takes no other word for it: a commit object proves itself by its id.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import orjson

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature
from core.signatures.commit import object_id, read_commit
from core.signatures.signer import VerifiedSigner
from core.spec.statements.attestation import SignedSource
from core.wildcards import matches_any

if TYPE_CHECKING:
    from core.signatures.trusted import TrustedSigners

MAX_EVIDENCE_BYTES = 262144
MAX_SIGNATURES = 256


@dataclass(frozen=True, slots=True)
class SignerSet:
    """Keys and identities whose signatures are trusted."""

    name: str
    """Name of the set, such as `shop-keys`."""
    keys: str
    """Text with SSH public keys in the format of Git's allowed signers file, one a line, and public
    keys of GPG and cosign in PEM. Lines `x509 IDENTITY` and `keyless IDENTITY issuer="URL"` trust
    certificates of the authorities in PEM. Limit: 65,536 characters."""

    def read(self) -> "TrustedSigners":
        """Reads the keys. Raises Invalid."""
        # The verification needs 1.5 MB, and most agents need no signatures.
        from core.signatures.trusted import read_signers

        return read_signers(self.name, self.keys)


def read_signer_sets(sets: Iterable[SignerSet]) -> "TrustedSigners":
    """Reads the keys of several sets. Raises Invalid."""
    from core.signatures.trusted import merge_signers

    return merge_signers(each.read() for each in sets)


@dataclass(frozen=True, slots=True)
class SignatureRule:
    """Sources that need a signature by one of these sets; without a set they need none.

    `url` and `charts` are patterns. With `charts` the rule is about charts, else about commits and
    artifacts.
    """

    url: str
    charts: tuple[str, ...] = ()
    signed_by: tuple[SignerSet, ...] = ()

    def covers(self, source: SignedSource) -> bool:
        """Reports whether the rule is about a source."""
        if self.url != source.url and not matches_any((self.url,), source.url):
            return False
        if source.is_chart or self.charts:
            return source.is_chart and matches_any(self.charts, source.path)
        return True


@dataclass(frozen=True, slots=True)
class Evidence:
    """Objects of commits, by their id, and signatures of charts and images."""

    commits: Mapping[str, bytes] = field(default_factory=dict)
    artifacts: tuple[ArtifactSignature, ...] = ()

    def encode(self) -> bytes:
        """Encodes what is signed as JSON; empty without any, or beyond the limits."""
        signed = [data for _, data in sorted(self.commits.items()) if b"\ngpgsig" in data]
        if not signed and not self.artifacts or len(self.artifacts) > MAX_SIGNATURES:
            return b""
        artifacts = [
            [
                _encode_base64(part)
                for part in (each.manifest, each.payload, each.signature, each.bundle)
            ]
            for each in self.artifacts
        ]
        commits = [_encode_base64(data) for data in signed]
        encoded = orjson.dumps({"artifacts": artifacts, "commits": commits})
        return encoded if len(encoded) <= MAX_EVIDENCE_BYTES else b""


def decode_evidence(data: bytes) -> Evidence:
    """Decodes evidence. Raises Invalid for another form."""
    if not data:
        return Evidence()
    too_large = Invalid("the evidence of signatures is too large")
    if len(data) > MAX_EVIDENCE_BYTES:
        raise too_large
    try:
        raw = orjson.loads(data)
        if max(len(raw["commits"]), len(raw["artifacts"])) > MAX_SIGNATURES:
            raise too_large
        objects = [_decode_base64(text) for text in raw["commits"]]
        artifacts = tuple(
            ArtifactSignature(*map(_decode_base64, parts)) for parts in raw["artifacts"]
        )
    except (ValueError, LookupError, TypeError, binascii.Error):
        raise Invalid("the evidence of signatures has an unknown form") from None
    commits = {object_id(each, size): each for each in objects for size in (40, 64)}
    return Evidence(commits, artifacts)


def check_signatures(
    rules: Sequence[SignatureRule],
    sources: Iterable[SignedSource],
    evidence: Evidence,
    now: datetime,
) -> dict[SignedSource, VerifiedSigner]:
    """Returns the signers of the sources that need a signature.

    Raises Invalid for a source that no rule covers, and for one whose signature is missing or
    wrong; the message names the source, the signer that was found and those that were expected.
    """
    if not rules:
        return {}
    return {
        source: signer
        for source in sources
        if (signer := _signer_of(rules, source, evidence, now)) is not None
    }


def needs_chart_signatures(rules: Iterable[SignatureRule]) -> bool:
    """Reports whether a rule asks for signatures of charts."""
    return any(rule.charts and rule.signed_by for rule in rules)


def needs_artifact_signatures(rules: Iterable[SignatureRule]) -> bool:
    """Reports whether a rule asks for signatures of commits or artifacts."""
    return any(rule.signed_by and not rule.charts for rule in rules)


def _signer_of(
    rules: Sequence[SignatureRule], source: SignedSource, evidence: Evidence, now: datetime
) -> VerifiedSigner | None:
    covering = [rule for rule in rules if rule.covers(source)]
    if not covering:
        raise Invalid(f"no source rule allows {source.url}, {source.path or '/'}")
    if any(not rule.signed_by for rule in covering):
        return None
    trusted = read_signer_sets(signers for rule in covering for signers in rule.signed_by)
    if source.is_chart or source.is_artifact:
        return _signer_of_artifact(trusted, source, evidence)
    data = evidence.commits.get(source.revision)
    if data is None:
        raise Invalid(
            f"commit {source.revision[:12]} of {source.url} is not signed, or came without its "
            f"object; expected a signature of {trusted.expected()}"
        )
    return trusted.verify_commit(read_commit(source.revision, data), now)


def _signer_of_artifact(
    trusted: "TrustedSigners", source: SignedSource, evidence: Evidence
) -> VerifiedSigner:
    digest = source.digest if source.is_chart else source.revision
    try:
        return trusted.verify_artifact(digest, evidence.artifacts)
    except Invalid as error:
        raise Invalid(f"{source}: {error.message}") from None


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
