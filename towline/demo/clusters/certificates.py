"""Certificates and keys of one cluster, created at each start."""

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa

from core.runtime.atomic_files import write_atomically
from towline.certificate_authority import CertificateAuthority, CertificatePair, write_key


@dataclass(frozen=True, slots=True)
class ClusterCertificates:
    """Certificate and key files of a cluster's programs."""

    authority: Path
    server: CertificatePair
    kubelet: CertificatePair
    admin: CertificatePair
    service_accounts: Path


def make_certificates(folder: Path, now: datetime) -> ClusterCertificates:
    """Writes a CA, its certificates, and the key for service-account tokens to `folder`."""
    issuer = CertificateAuthority.create(folder, "towline-demo", now)
    service_accounts = folder / "service-accounts.key"
    write_key(service_accounts, rsa.generate_private_key(65537, 2048))
    local = ["localhost", "127.0.0.1"]
    return ClusterCertificates(
        authority=issuer.certificate,
        server=issuer.sign(
            "server", "kube-apiserver", now, names=[*local, "kubernetes.default.svc", "127.64.0.1"]
        ),
        kubelet=issuer.sign("kubelet", "kubelet", now, names=local),
        admin=issuer.sign("admin", "admin", now, organization="system:masters"),
        service_accounts=service_accounts,
    )


def write_kubeconfig(path: Path, name: str, server: str, certificates: ClusterCertificates) -> None:
    """Writes a self-contained kubeconfig of the administrator, with one context `name`."""
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
    write_atomically(path, json.dumps(config, indent=2).encode())


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
