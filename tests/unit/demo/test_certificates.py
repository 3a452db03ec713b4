"""A cluster's certificates are good for exactly what they are made for."""

import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from towline.demo.clusters.certificates import (
    ClusterCertificates,
    make_certificates,
    write_kubeconfig,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> ClusterCertificates:
    """One set for all tests here: keys take time."""
    return make_certificates(tmp_path_factory.mktemp("certificates"), NOW)


def load(path: Path) -> x509.Certificate:
    """A certificate from its file."""
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.mark.parametrize("name", ["localhost", "kubernetes.default.svc"])
def test_the_server_is_trusted_under_its_names(
    certificates: ClusterCertificates, name: str
) -> None:
    """A verifier that knows the authority accepts the server now, and not in two years."""
    builder = PolicyBuilder().store(Store([load(certificates.authority)]))
    server = load(certificates.server.certificate)
    now = builder.time(NOW).build_server_verifier(x509.DNSName(name))
    assert now.verify(server, [])[0] == server
    late = builder.time(NOW + timedelta(days=730)).build_server_verifier(x509.DNSName(name))
    with pytest.raises(VerificationError):
        late.verify(server, [])


def test_the_administrator_is_in_the_group_that_may_all(certificates: ClusterCertificates) -> None:
    """Kubernetes reads user and groups from the subject."""
    subject = load(certificates.admin.certificate).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "admin"
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:masters"


def test_keys_are_their_owners_alone(certificates: ClusterCertificates) -> None:
    """No key can be read by another user."""
    for key in (certificates.server.key, certificates.admin.key, certificates.service_accounts):
        assert key.stat().st_mode & 0o077 == 0


def test_key_and_certificate_belong_together(certificates: ClusterCertificates) -> None:
    """OpenSSL takes each pair."""
    for pair in (certificates.server, certificates.kubelet, certificates.admin):
        ssl.create_default_context().load_cert_chain(pair.certificate, pair.key)


def test_the_kubeconfig_needs_no_other_file(
    certificates: ClusterCertificates, tmp_path: Path
) -> None:
    """Certificates are in it, and only its owner can read it."""
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "dev", "https://127.0.0.1:1", certificates)
    config = json.loads(path.read_text())
    assert config["current-context"] == "dev"
    assert set(config["clusters"][0]["cluster"]) == {"server", "certificate-authority-data"}
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert path.stat().st_mode & 0o777 == 0o600
