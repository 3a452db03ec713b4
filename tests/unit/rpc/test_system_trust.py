"""The system's authorities change while a program runs."""

import json
from pathlib import Path

import pytest

from core.rpc.http2_channel import client_tls
from syncagent.kube.access import from_kubeconfig
from tests.fakes.clock import FakeClock
from tests.fakes.tls import TestAuthority


@pytest.fixture
def authorities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's file, without authorities yet."""
    file = tmp_path / "authorities.pem"
    file.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "absent"))
    return file


def trust(authorities: Path) -> None:
    folder = authorities.parent / "authority"
    folder.mkdir()
    authorities.write_bytes(TestAuthority(folder).ca.read_bytes())


def test_a_new_connection_trusts_the_authorities_of_now(authorities: Path) -> None:
    """An agent needed a restart to reach a control plane with a new authority."""
    before = client_tls(None)
    assert before.get_ca_certs() == [] and client_tls(None) is before
    trust(authorities)
    assert len(client_tls(None).get_ca_certs()) == 1


async def test_an_api_server_without_an_authority_of_its_own_is_verified_by_those_of_now(
    authorities: Path,
) -> None:
    path = authorities.parent / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    clock = FakeClock()
    tls = from_kubeconfig(path, None, clock).tls
    assert tls is not None and tls().get_ca_certs() == []
    trust(authorities)
    await clock.advance(1.0)
    assert len(tls().get_ca_certs()) == 1
