"""Certificate authority for the control plane's first start, and for the demo.

Certificates pass the strict RFC 5280 checks of Python 3.13 and later.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from core.errors import Invalid
from core.runtime.atomic_files import write_atomically

LIFETIME = timedelta(days=365)
AUTHORITY_LIFETIME = timedelta(days=3650)
# Certificates must already be valid for clients with a slow clock.
_CLOCK_SKEW = timedelta(minutes=10)
SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """Signs certificates; stores them in a folder with its own certificate."""

    def __init__(
        self, folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> None:
        self._folder = folder
        self._key = key
        self._name = certificate.subject
        self.certificate = folder / "ca.crt"

    @classmethod
    def create(cls, folder: Path, name: str, now: datetime) -> "CertificateAuthority":
        """Creates an authority with a new key, in `ca.crt` and `ca.key` of the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        write_key(folder / "ca.key", ec.generate_private_key(ec.SECP256R1()))
        return cls.certify(folder, name, now)

    @classmethod
    def certify(cls, folder: Path, name: str, now: datetime) -> "CertificateAuthority":
        """Issues a new CA certificate for the key in the folder; existing trust stays valid.

        Invalid: the key cannot be read.
        """
        key = _read_authority_key(folder / "ca.key")
        certificate = _self_signed(_subject(name), key, now)
        _write_certificate(folder / "ca.crt", certificate)
        return cls(folder, certificate, key)

    @classmethod
    def open(cls, folder: Path) -> "CertificateAuthority":
        """Opens the authority in a folder. Raises Invalid if a file is missing or wrong."""
        certificate = _read_certificate(folder / "ca.crt")
        path = folder / "ca.key"
        if not path.exists():
            raise Invalid(
                f"{path} is missing: restore it from a backup; or delete ca.crt to create a new "
                "authority, and distribute the new ca.crt to agents and users"
            )
        key = _read_authority_key(path)
        if key.public_key() != certificate.public_key():
            raise Invalid(f"{path} does not match ca.crt: restore both files from the same backup")
        return cls(folder, certificate, key)

    def sign(
        self,
        file: str,
        common_name: str,
        now: datetime,
        *,
        organization: str = "",
        names: Sequence[str] = (),
    ) -> CertificatePair:
        """Signs a server and client certificate for the given DNS names and IP addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        subject = _subject(common_name, organization)
        builder = (
            _builder(subject, self._name, key, now, LIFETIME)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_alternative_name(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        pair = CertificatePair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        write_key(pair.key, key)
        _write_certificate(pair.certificate, builder.sign(self._key, hashes.SHA256()))
        return pair

    def has_signed(self, pair: CertificatePair) -> bool:
        """Returns true if this authority signed the certificate."""
        try:
            issuer = _read_certificate(self.certificate)
            _read_certificate(pair.certificate).verify_directly_issued_by(issuer)
        except (Invalid, InvalidSignature, ValueError, TypeError):
            return False
        return True


def check_certificate(pair: CertificatePair, now: datetime) -> None:
    """Raises Invalid unless the files are a matching pair and the certificate is valid now."""
    certificate = _read_certificate(pair.certificate)
    try:
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{pair.key} is not an unencrypted private key in PEM format") from error
    if key.public_key() != certificate.public_key():
        raise Invalid(f"{pair.key} does not match {pair.certificate}: use a matching pair")
    if certificate.not_valid_after_utc <= now:
        ended = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise Invalid(f"certificate {pair.certificate} expired on {ended}: renew it")
    if certificate.not_valid_before_utc > now + _CLOCK_SKEW:
        begins = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        raise Invalid(
            f"certificate {pair.certificate} is not valid before {begins}: "
            "check the clock of this machine"
        )


def _read_authority_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise Invalid(f"{path} is not a private key: restore it from a backup") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid(f"{path} is not an elliptic curve key: restore it from a backup")
    return key


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise Invalid(f"{path} is not a certificate in PEM format") from error


def certificate_names(certificate: Path) -> frozenset[str]:
    """DNS names and IP addresses of a certificate (PEM file)."""
    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        alternative_names = loaded.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = alternative_names.get_values_for_type(x509.IPAddress)
    return frozenset((*alternative_names.get_values_for_type(x509.DNSName), *map(str, addresses)))


def certificate_expiry(certificate: Path) -> datetime:
    """Expiry of a certificate (PEM file)."""
    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def write_key(path: Path, key: PrivateKey) -> None:
    """Writes an unencrypted private key with mode 0600."""
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_atomically(path, encoded)


def _self_signed(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.Certificate:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(subject, subject, key, now, AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(SIGNS_CERTIFICATES, critical=True)
        .add_extension(identifier, critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _subject(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)
