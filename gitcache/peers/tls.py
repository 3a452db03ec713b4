"""Mutual TLS between replicas and control planes, based on their shared key.

Each process derives the same CA from the key (an RFC 8032 private key by RFC 5869) and signs its
own certificate at start. Nothing is stored on disk, and nothing needs manual renewal.
"""

import ssl
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gitcache.domain.message_auth import derive_key

_LIFETIME = timedelta(days=3650)
_CLOCK_SKEW = timedelta(days=1)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Towline git cache")])


@dataclass(frozen=True, slots=True)
class PeerTlsContexts:
    """TLS 1.3 contexts for both ends; each requires a certificate of the derived CA."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def make_tls_contexts(shared_key: str, name: str, now: datetime) -> PeerTlsContexts:
    """Makes the contexts of one replica; `name` is only informational in its certificate."""
    authority = Ed25519PrivateKey.from_private_bytes(derive_key(shared_key, "authority"))
    key = Ed25519PrivateKey.generate()
    anchor = _certificate(_NAME, authority, authority, now, is_authority=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    certificate = _certificate(subject, key, authority, now, is_authority=False)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain, trusted = private + certificate, anchor.decode()
    return PeerTlsContexts(
        _context(ssl.PROTOCOL_TLS_SERVER, chain, trusted),
        _context(ssl.PROTOCOL_TLS_CLIENT, chain, trusted),
    )


def _context(protocol: int, chain: bytes, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Addresses of replicas change; the shared key is their identity.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=trusted)
    with tempfile.NamedTemporaryFile() as file:
        # The ssl module reads only files; this one is private and deleted at once.
        file.write(chain)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _certificate(
    subject: x509.Name,
    key: Ed25519PrivateKey,
    signer: Ed25519PrivateKey,
    now: datetime,
    *,
    is_authority: bool,
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(_key_usage(is_authority), critical=True)
    )
    if not is_authority:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        names = x509.SubjectAlternativeName([x509.DNSName("towline-gitcache")])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, None).public_bytes(Encoding.PEM)


def _key_usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
