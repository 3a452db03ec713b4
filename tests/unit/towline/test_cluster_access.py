"""Kubeconfigs of users: tokens, client certificates and exec plugins."""

import json
from pathlib import Path

import pytest

from core.errors import Invalid
from syncagent.kube.access import ApiServerAccess
from tests.fakes.clock import FakeClock
from tests.fakes.tls import TestAuthority
from towline.cluster_access import from_kubeconfig


def read(folder: Path, user: dict[str, object], cluster: dict[str, object]) -> ApiServerAccess:
    """Reads a kubeconfig with this user and this cluster."""
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"} | cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return from_kubeconfig(path, None, FakeClock())


def plugin(folder: Path, status: dict[str, object]) -> dict[str, object]:
    """A user whose plugin prints this status, and counts its runs."""
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    (folder / "answer").write_text(json.dumps(answer))
    command = folder / "plugin"
    command.write_text(f"#!/bin/sh\necho run >> {folder}/runs\ncat {folder}/answer\n")
    command.chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(command),
            "interactiveMode": "Never",
        }
    }


async def test_a_token_authenticates_requests(tmp_path: Path) -> None:
    access = read(tmp_path, {"token": "good"}, {})
    assert access.server == "http://127.0.0.1:1"
    assert await access.headers() == {"Authorization": "Bearer good"}
    assert access.tls is None and not access.certified


async def test_without_a_credential_requests_are_anonymous(tmp_path: Path) -> None:
    assert await read(tmp_path, {}, {}).headers() == {}


async def test_an_expired_token_of_a_plugin_is_renewed(tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "first", "expirationTimestamp": "2020-01-01T00:00:00Z"})
    access = read(tmp_path, user, {})
    plugin(tmp_path, {"token": "second"})
    assert await access.headers() == {"Authorization": "Bearer second"}


async def test_a_plugin_runs_once_for_several_requests(tmp_path: Path) -> None:
    access = read(tmp_path, plugin(tmp_path, {"token": "t"}), {})
    for _ in range(3):
        assert await access.headers() == {"Authorization": "Bearer t"}
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_plugin_can_return_a_client_certificate(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    certificate, key = authority.certificate.read_text(), authority.key.read_text()
    status: dict[str, object] = {"clientCertificateData": certificate, "clientKeyData": key}
    server: dict[str, object] = {
        "server": "https://127.0.0.1:1",
        "certificate-authority": str(authority.ca),
    }
    access = read(tmp_path, plugin(tmp_path, status), server)
    assert access.certified and access.token is None
    assert access.tls is not None and access.tls().check_hostname


@pytest.mark.parametrize("content", ["", "text", "a: [", "{}", "contexts: []", None])
def test_an_unusable_file_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Invalid, match="config is not usable"):
        from_kubeconfig(path, None, FakeClock())


def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    read(tmp_path, {}, {})
    with pytest.raises(Invalid, match="other"):
        from_kubeconfig(tmp_path / "config", "other", FakeClock())


def test_a_user_that_impersonates_is_refused(tmp_path: Path) -> None:
    """The library would send requests with the permissions of the user itself."""
    with pytest.raises(Invalid, match=r"impersonates another one \(as\)"):
        read(tmp_path, {"token": "t", "as": "dev"}, {})


async def test_a_proxy_and_a_server_name_are_kept(tmp_path: Path) -> None:
    access = read(tmp_path, {}, {"proxy-url": "http://proxy:3128", "tls-server-name": "kubernetes"})
    assert (access.proxy, access.server_name) == ("http://proxy:3128", "kubernetes")
