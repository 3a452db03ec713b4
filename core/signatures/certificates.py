"""Certificates of signers: authorities, identities, validity and revocation (RFC 5280)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from core.errors import Invalid
from core.signatures.kind import SignerText
from core.wildcards import check_pattern, matches

_SIGNING_USAGES = {ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.EMAIL_PROTECTION}
_SIGNING_USAGES |= {ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}


@dataclass(frozen=True, slots=True)
class CertificateIdentity:
    """Pattern of an e-mail address, or with `://` of a URI, among a certificate's names."""

    pattern: str

    @classmethod
    def read(cls, text: str) -> "CertificateIdentity":
        """Reads an identity. Raises Invalid."""
        check_pattern(text, "signers.keys")
        if "://" in text:
            return cls(text)
        name, at, domain = text.rpartition("@")
        if not at:
            raise Invalid(f"{text[:60]!r} is neither an e-mail address nor a URI")
        return cls(f"{name}@{domain.lower()}")

    def matching_name(self, certificate: x509.Certificate) -> str:
        """Returns the name of a certificate that fits; empty: none does."""
        names = _emails(certificate) if "://" not in self.pattern else _uris(certificate)
        return next((name for name in names if matches(self.pattern, name)), "")


@dataclass(frozen=True, slots=True)
class CertificateAuthorities:
    """Trusted authorities, and lists of the certificates that they have revoked."""

    certificates: tuple[x509.Certificate, ...]
    revoked: tuple[x509.CertificateRevocationList, ...] = ()

    def __str__(self) -> str:
        return " or ".join(subject(certificate) for certificate in self.certificates[:3])

    def chain(
        self, certificate: x509.Certificate, others: Iterable[x509.Certificate], time: datetime
    ) -> list[x509.Certificate]:
        """Returns the path from a certificate that may sign to an authority, at a moment.

        Raises Invalid: there is none, or a certificate on it is revoked.
        """
        # By default a client of TLS is verified. `_may_sign` checks the usage of a signer instead.
        usage = (x509.ExtendedKeyUsage, Criticality.AGNOSTIC, None)
        builder = PolicyBuilder().store(Store(list(self.certificates))).time(time)
        builder = builder.extension_policies(
            ca_policy=ExtensionPolicy.webpki_defaults_ca().may_be_present(*usage),
            ee_policy=ExtensionPolicy.webpki_defaults_ee().may_be_present(*usage),
        )
        try:
            path = builder.build_client_verifier().verify(certificate, list(others)).chain
        except (VerificationError, UnsupportedAlgorithm, ValueError) as error:
            raise Invalid(
                f"the certificate of {subject(certificate)}, which {issuer(certificate)} issued, "
                f"leads to no trusted authority: {error}"
            ) from None
        if not _may_sign(certificate):
            raise Invalid(
                f"the certificate of {subject(certificate)} may not sign: it has another purpose"
            )
        for each in path:
            if any(_revokes(revoked, each) for revoked in self.revoked):
                raise Invalid(f"the certificate of {subject(each)} is revoked")
        return path


def read_authorities(text: SignerText) -> CertificateAuthorities:
    """Takes the authorities and revocation lists of a text. Raises Invalid."""
    try:
        certificates = tuple(
            x509.load_pem_x509_certificate(block.text.encode())
            for block in text.take_blocks("CERTIFICATE")
        )
        revoked = tuple(
            x509.load_pem_x509_crl(block.text.encode()) for block in text.take_blocks("X509 CRL")
        )
    except ValueError:
        raise Invalid("a certificate or revocation list is malformed") from None
    for certificate in certificates:
        if not _is_authority(certificate):
            raise Invalid(f"the certificate of {subject(certificate)} is no certificate authority")
    for each in revoked:
        if not any(_has_issued(certificate, each) for certificate in certificates):
            raise Invalid(
                f"the revocation list of {each.issuer.rfc4514_string()[:200]} is of no authority "
                "of the same set"
            )
    return CertificateAuthorities(certificates, revoked)


def subject(certificate: x509.Certificate) -> str:
    """The subject of a certificate, or its first name if it has none; for people."""
    names = [*_emails(certificate), *_uris(certificate)]
    return (certificate.subject.rfc4514_string() or next(iter(names), "(no name)"))[:200]


def issuer(certificate: x509.Certificate) -> str:
    """The issuer of a certificate, for people."""
    return certificate.issuer.rfc4514_string()[:200] or "(no name)"


def certificate_fingerprint(certificate: x509.Certificate) -> str:
    """`sha256:…` of a certificate."""
    return "sha256:" + certificate.fingerprint(hashes.SHA256()).hex()


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _emails(certificate: x509.Certificate) -> list[str]:
    """The e-mail addresses, with the domain in lower case: it has no case (RFC 5321)."""
    extension = _alternative_names(certificate)
    addresses = extension.get_values_for_type(x509.RFC822Name) if extension is not None else []
    parts = [address.rpartition("@") for address in addresses]
    return [f"{name}@{domain.lower()}" for name, at, domain in parts if at]


def _uris(certificate: x509.Certificate) -> list[str]:
    extension = _alternative_names(certificate)
    return (
        extension.get_values_for_type(x509.UniformResourceIdentifier)
        if extension is not None
        else []
    )


def _may_sign(certificate: x509.Certificate) -> bool:
    """Reports whether the usages of a certificate, if it has any, permit signatures."""
    for extension in certificate.extensions:
        value = extension.value
        if isinstance(value, x509.KeyUsage):
            if not (value.digital_signature or value.content_commitment):
                return False
        elif isinstance(value, x509.ExtendedKeyUsage) and not _SIGNING_USAGES & set(value):
            return False
    return True


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        kind = x509.BasicConstraints
        return certificate.extensions.get_extension_for_class(kind).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _has_issued(certificate: x509.Certificate, revoked: x509.CertificateRevocationList) -> bool:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return False
    is_supported = isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey)
    return (
        is_supported and certificate.subject == revoked.issuer and revoked.is_signature_valid(key)
    )


def _revokes(revoked: x509.CertificateRevocationList, certificate: x509.Certificate) -> bool:
    if revoked.issuer != certificate.issuer:
        return False
    serial = certificate.serial_number
    return revoked.get_revoked_certificate_by_serial_number(serial) is not None
