"""Signatures of commits by certificates (gpg.format=x509): gpgsm, smimesign and gitsign."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from cryptography import x509

from core.errors import Invalid
from core.signatures.certificates import (
    CertificateAuthorities,
    CertificateIdentity,
    certificate_fingerprint,
    issuer,
    read_authorities,
    subject,
)
from core.signatures.cms import CmsSignature, read_cms
from core.signatures.commit import SignedCommit
from core.signatures.kind import CommitSigners, SignerText, read_options
from core.signatures.signer import VerifiedSigner

_METHOD = "x509"
_AT_COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class CertifiedSigner:
    """A line of a set: an identity, and the authorities of the set that may certify it.

    `at_commit` judges the validity of certificates at the commit's own time only. Else they must
    also be valid now, because the commit's time is what its author says.
    """

    identity: CertificateIdentity
    authorities: CertificateAuthorities
    at_commit: bool = False

    def __str__(self) -> str:
        return f"{self.identity.pattern} by a certificate of {self.authorities}"

    def verify(
        self, signature: CmsSignature, name: str, commit: SignedCommit, now: datetime
    ) -> VerifiedSigner:
        """Verifies the certificate of a signature. Raises Invalid."""
        certificate = signature.signer
        chain = self.authorities.chain(certificate, signature.others, commit.committed_at)
        times = {"when it was signed": signature.signed_at or commit.committed_at}
        if not self.at_commit:
            times["now"] = now
        for when, time in times.items():
            _check_validity(chain, when, time)
        return VerifiedSigner(name, certificate_fingerprint(certificate), _METHOD)


class X509Signers(CommitSigners[CertifiedSigner]):
    """Identities with certificates of trusted authorities."""

    method = _METHOD
    armor = "SIGNED MESSAGE"

    @classmethod
    def read(cls, text: SignerText) -> Self:
        lines = text.take_lines(_METHOD)
        if not lines:
            return cls()
        authorities = read_authorities(text)
        if not authorities.certificates:
            raise Invalid(
                f"the line {_METHOD} {lines[0][:60]} needs the certificate of an authority"
            )
        return cls(tuple(_read_line(line, authorities) for line in lines))

    def describe_keys(self) -> Iterator[str]:
        return map(str, self.keys)

    def verify(self, signature: bytes, commit: SignedCommit, now: datetime) -> VerifiedSigner:
        parsed = read_cms(signature)
        certificate = parsed.signer
        matching = [
            (key, name) for key in self.keys if (name := key.identity.matching_name(certificate))
        ]
        if matching:
            parsed.check(commit.payload)
        refusal: Invalid | None = None
        for key, name in matching:
            try:
                return key.verify(parsed, name, commit, now)
            except Invalid as error:
                refusal = error
        raise refusal or Invalid(
            f"the signer is not allowed: {subject(certificate)}, certified by {issuer(certificate)}"
        )


def _read_line(line: str, authorities: CertificateAuthorities) -> CertifiedSigner:
    identity, _, options = line.partition(" ")
    valid_at = read_options(options.strip(), {"valid-at"}).get("valid-at")
    if valid_at not in {None, _AT_COMMIT}:
        raise Invalid(f'valid-at="{valid_at}" is not supported: use valid-at="{_AT_COMMIT}"')
    return CertifiedSigner(CertificateIdentity.read(identity), authorities, valid_at is not None)


def _check_validity(chain: list[x509.Certificate], when: str, time: datetime) -> None:
    for each in chain:
        start, end = each.not_valid_before_utc, each.not_valid_after_utc
        if not start <= time <= end:
            raise Invalid(
                f"the certificate of {subject(each)} was not valid {when}: it is valid from "
                f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
            )
