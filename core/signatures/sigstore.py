"""Signatures of OCI artifacts without a key: a certificate for an identity, and a log's promise.

Everything is verified offline, with the authorities and the keys of logs in the set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from cryptography import x509

from core.errors import Invalid
from core.signatures.artifact import ArtifactSignature
from core.signatures.ber import read_values
from core.signatures.certificate_log import check_certificate_log
from core.signatures.certificates import (
    CertificateAuthorities,
    CertificateIdentity,
    certificate_fingerprint,
    read_authorities,
    subject,
)
from core.signatures.cosign_key import CosignKey, read_cosign_key
from core.signatures.kind import ArtifactSigners, SignerText, read_options
from core.signatures.signer import VerifiedSigner
from core.signatures.sigstore_bundle import SigstoreBundle, read_bundle
from core.wildcards import check_pattern, matches

_KEYLESS = "keyless"
_REQUIRED = "required"
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_ISSUER_BEFORE = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_UTF8 = 0x0C


@dataclass(frozen=True, slots=True)
class KeylessSigner:
    """A line of a set: an identity of an OIDC issuer, and who may certify and log it.

    `needs_inclusion`: a promise of the log is not enough, but its proof. `needs_sct`: a log of
    certificates must have promised to contain the certificate.
    """

    identity: CertificateIdentity
    issuer: str
    authorities: CertificateAuthorities
    logs: tuple[CosignKey, ...]
    needs_inclusion: bool = False
    needs_sct: bool = False

    def __str__(self) -> str:
        return f"{self.identity.pattern} of {self.issuer} by a certificate of {self.authorities}"

    def name(self, certificate: x509.Certificate) -> str:
        """Returns the name of a certificate, if the line is about it; else empty."""
        issued = matches(self.issuer, oidc_issuer(certificate))
        return self.identity.matching_name(certificate) if issued else ""

    def verify(self, bundle: SigstoreBundle, name: str) -> VerifiedSigner:
        """Verifies a bundle with this line. Raises Invalid."""
        bundle.check(self.logs)
        if self.needs_inclusion and bundle.entry.proof is None:
            raise Invalid("it has no proof of inclusion in the transparency log")
        chain = self.authorities.chain(bundle.certificate, (), bundle.entry.integrated_at)
        if self.needs_sct:
            check_certificate_log(bundle.certificate, chain[:2][-1], self.logs)
        key = certificate_fingerprint(bundle.certificate)
        return VerifiedSigner(name, key, _KEYLESS)


class SigstoreSigners(ArtifactSigners[KeylessSigner]):
    """Identities of OIDC issuers, certified by a Fulcio, in entries of a Rekor."""

    method = _KEYLESS

    @classmethod
    def read(cls, text: SignerText) -> Self:
        lines = text.take_lines(_KEYLESS)
        if not lines:
            return cls()
        authorities = read_authorities(text)
        # In such a set they sign entries of logs, and no artifact.
        logs = tuple(read_cosign_key(block.text) for block in text.take_blocks("PUBLIC KEY"))
        if not (authorities.certificates and logs):
            raise Invalid(
                f"the line {_KEYLESS} {lines[0][:60]} needs the certificates of an authority and "
                "the public key of a log in the same set, and x509 lines need another set"
            )
        return cls(tuple(_read_line(line, authorities, logs) for line in lines))

    def describe_keys(self) -> Iterator[str]:
        return map(str, self.keys)

    def verify(self, content: str, signatures: Sequence[ArtifactSignature]) -> VerifiedSigner:
        refusal = Invalid("it is not signed, or its signature is of another artifact")
        for signature in signatures:
            if not signature.bundle:
                continue
            try:
                bundle = read_bundle(signature.bundle, signature.payload)
                if signature.is_about(content, *bundle.subjects):
                    return self._verify_bundle(bundle)
            except Invalid as error:
                refusal = error
        raise refusal

    def _verify_bundle(self, bundle: SigstoreBundle) -> VerifiedSigner:
        certificate = bundle.certificate
        refusal: Invalid | None = None
        for key in self.keys:
            if not (name := key.name(certificate)):
                continue
            try:
                return key.verify(bundle, name)
            except Invalid as error:
                refusal = error
        raise refusal or Invalid(
            f"the signer is not allowed: {subject(certificate)} of the issuer "
            f"{oidc_issuer(certificate) or '(none)'}"
        )


def oidc_issuer(certificate: x509.Certificate) -> str:
    """The issuer of the identity's token, as Fulcio has written it; empty: there is none."""
    for extension in certificate.extensions:
        if not isinstance(extension.value, x509.UnrecognizedExtension):
            continue
        data = extension.value.value
        if extension.oid == _ISSUER:
            values = read_values(data)
            if [value.tag for value in values] == [_UTF8]:
                return values[0].content.decode("utf-8", "replace")[:512]
    try:
        older_extension = certificate.extensions.get_extension_for_oid(_ISSUER_BEFORE).value
    except x509.ExtensionNotFound:
        return ""
    assert isinstance(older_extension, x509.UnrecognizedExtension)
    return older_extension.value.decode("utf-8", "replace")[:512]


def _read_line(
    line: str, authorities: CertificateAuthorities, logs: tuple[CosignKey, ...]
) -> KeylessSigner:
    identity, _, text = line.partition(" ")
    options = read_options(text.strip(), {"issuer", "inclusion", "sct"})
    issuer = options.pop("issuer", None)
    if issuer is None:
        raise Invalid(f'the line {_KEYLESS} {line[:60]} needs issuer="https://…"')
    check_pattern(issuer, "signers.keys")
    for name, value in options.items():
        if value != _REQUIRED:
            raise Invalid(f'the option {name} has one value: {name}="{_REQUIRED}"')
    return KeylessSigner(
        CertificateIdentity.read(identity),
        issuer,
        authorities,
        logs,
        needs_inclusion="inclusion" in options,
        needs_sct="sct" in options,
    )
