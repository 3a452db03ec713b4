"""Certificate authorities of tests, and certificates that they issue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from core.runtime.clock import SystemClock

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
MAIL = (ExtendedKeyUsageOID.EMAIL_PROTECTION,)


def rsa_key() -> rsa.RSAPrivateKey:
    """Makes an RSA key."""
    return rsa.generate_private_key(65537, 2048)


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate and its key."""

    key: PrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """The certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


@dataclass(frozen=True, slots=True)
class FakeAuthority(IssuedCertificate):
    """A certificate authority."""

    @classmethod
    def root(cls, name: str = "Shop CA", key: PrivateKey | None = None) -> "FakeAuthority":
        """Makes an authority that certifies itself."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        start = SystemClock().now() - timedelta(days=3650)
        certificate = _certificate(name, key, name, key, (start, timedelta(days=7300)), ca=True)
        return cls(key, certificate)

    def intermediate(self, name: str, key: PrivateKey | None = None) -> "FakeAuthority":
        """Makes an authority below this one."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        start = self.certificate.not_valid_before_utc
        valid = (start, timedelta(days=7300))
        return FakeAuthority(key, _certificate(name, key, self.name, self.key, valid, ca=True))

    def issue(
        self,
        *names: x509.GeneralName,
        key: PrivateKey | None = None,
        valid: tuple[datetime, timedelta] | None = None,
        usages: Sequence[x509.ObjectIdentifier] = MAIL,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> IssuedCertificate:
        """Issues a certificate with these names, by default from yesterday for a month."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        valid = valid or (SystemClock().now() - timedelta(days=1), timedelta(days=30))
        more = [x509.SubjectAlternativeName(names), *extensions]
        if usages:
            more.append(x509.ExtendedKeyUsage(usages))
        certificate = _certificate("Ada", key, self.name, self.key, valid, more)
        return IssuedCertificate(key, certificate)

    def revoke(self, *certificates: x509.Certificate) -> str:
        """Makes a revocation list in PEM."""
        now = SystemClock().now()
        builder = x509.CertificateRevocationListBuilder(self.certificate.subject)
        builder = builder.last_update(now).next_update(now + timedelta(days=1))
        for certificate in certificates:
            entry = x509.RevokedCertificateBuilder(certificate.serial_number, now).build()
            builder = builder.add_revoked_certificate(entry)
        made = builder.sign(self.key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def name(self) -> str:
        """Common name of the authority."""
        (name,) = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(name.value)


def email(address: str) -> x509.GeneralName:
    """An e-mail address of a certificate."""
    return x509.RFC822Name(address)


def uri(address: str) -> x509.GeneralName:
    """A URI of a certificate."""
    return x509.UniformResourceIdentifier(address)


def _certificate(
    subject: str,
    key: PrivateKey,
    issuer: str,
    issuer_key: PrivateKey,
    valid: tuple[datetime, timedelta],
    more: Sequence[x509.ExtensionType] = (),
    *,
    ca: bool = False,
) -> x509.Certificate:
    start, duration = valid
    usage = x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
        key.public_key(),
        x509.random_serial_number(),
        start,
        start + duration,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
    builder = builder.add_extension(usage, critical=True)
    public, above = key.public_key(), issuer_key.public_key()
    for extension in (
        x509.SubjectKeyIdentifier.from_public_key(public),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(above),
        *more,
    ):
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
