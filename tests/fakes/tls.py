"""A certificate authority of a test's own, and what it signs for 127.0.0.1."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from towline.certificate_authority import SIGNS_CERTIFICATES

_SINCE = datetime(2020, 1, 1, tzinfo=UTC)
_UNTIL = _SINCE + timedelta(days=36500)


class TestAuthority:
    """`ca`, `certificate` and `key` are PEM files in `folder`; the certificate names `host`
    besides 127.0.0.1 and is good until then. `strict`: they have all that RFC 5280 wants, which
    those of many clusters have not."""

    __test__ = False

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "localhost",
        until: datetime = _UNTIL,
        strict: bool = True,
    ) -> None:
        self.ca, self.certificate, self.key = (
            folder / name for name in ("ca.pem", "server.pem", "server.key")
        )
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _builder("test authority", ca_key.public_key(), "test authority")
        ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        if strict:
            own = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
            ca = ca.add_extension(SIGNS_CERTIFICATES, critical=True).add_extension(
                own, critical=False
            )
        self.ca.write_bytes(_pem(ca.sign(ca_key, hashes.SHA256())))
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        leaf = _builder("127.0.0.1", key.public_key(), "test authority", until)
        leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if strict:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
            leaf = leaf.add_extension(issuer, critical=False)
        self.certificate.write_bytes(_pem(leaf.sign(ca_key, hashes.SHA256())))
        self.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))


def _builder(
    name: str, key: ec.EllipticCurvePublicKey, issuer: str, until: datetime = _UNTIL
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_SINCE)
        .not_valid_after(until)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
