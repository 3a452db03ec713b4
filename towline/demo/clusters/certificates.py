"""The certificates and keys of one cluster, made anew at each start."""

import base64
import ipaddress
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
# Clients whose clock is a little behind must not find the certificates in their future.
_SLACK = timedelta(minutes=10)

# Python from 3.13 on verifies strictly (RFC 5280) and asks for this and for key identifiers.
_SIGNS_CERTIFICATES = x509.KeyUsage(
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

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files of one certificate and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files, in one folder, that the programs of a cluster are started with."""

    authority: Path
    server: Credentials
    kubelet: Credentials
    admin: Credentials
    service_accounts: Path


def make_certificates(folder: Path, now: datetime) -> Certificates:
    """Write an authority, what it signs and the key of service-account tokens to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    issuer = _Authority(folder, now)
    service_accounts = folder / "service-accounts.key"
    _write_key(service_accounts, rsa.generate_private_key(65537, 2048))
    local = ["localhost", "127.0.0.1"]
    return Certificates(
        authority=issuer.certificate,
        server=issuer.sign(
            "server", "kube-apiserver", names=[*local, "kubernetes.default.svc", "10.0.0.1"]
        ),
        kubelet=issuer.sign("kubelet", "kubelet", names=local),
        admin=issuer.sign("admin", "admin", organization="system:masters"),
        service_accounts=service_accounts,
    )


def write_kubeconfig(path: Path, name: str, server: str, certificates: Certificates) -> None:
    """Write the administrator's kubeconfig with one context, `name`; it needs no other file."""
    cluster = {"server": server, "certificate-authority-data": _base64(certificates.authority)}
    user = {
        "client-certificate-data": _base64(certificates.admin.certificate),
        "client-key-data": _base64(certificates.admin.key),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "current-context": name,
    }
    write_private(path, json.dumps(config, indent=2).encode())


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)


class _Authority:
    def __init__(self, folder: Path, now: datetime) -> None:
        self._folder = folder
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("towline-demo")
        self.certificate = folder / "ca.crt"
        _write_certificate(self.certificate, self._self_signed())

    def sign(
        self, file: str, common_name: str, *, organization: str = "", names: list[str] | None = None
    ) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            self._builder(_subject(common_name, organization), key)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        made = Credentials(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        _write_certificate(made.certificate, builder.sign(self._key, hashes.SHA256()))
        _write_key(made.key, key)
        return made

    def _self_signed(self) -> x509.Certificate:
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .add_extension(identifier, critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _SLACK)
            .not_valid_after(self._now + LIFETIME)
        )


def _subject(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: _PrivateKey) -> None:
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_private(path, encoded)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
