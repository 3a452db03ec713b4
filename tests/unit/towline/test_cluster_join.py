"""The client that joins a cluster, against API servers with older certificates."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from core.errors import Invalid, Unavailable
from tests.fakes.local_server import LocalServer
from tests.fakes.tls import TestAuthority
from towline.cluster_join import open_cluster

_VERSION = json.dumps(
    {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
    | dict.fromkeys(("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion"), "x")
    | {"platform": "linux/amd64"}
).encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(_VERSION)}"
    writer.write(head.encode() + b"\r\n\r\n" + _VERSION)


def _server(authority: TestAuthority) -> LocalServer:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.certificate, authority.key)
    return LocalServer(_serve, tls=tls)


def _kubeconfig(folder: Path, port: int, authority: TestAuthority) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority.ca)}
    path = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "here",
    }
    path.write_text(json.dumps(config))
    return path


async def test_an_older_cluster_joins(tmp_path: Path) -> None:
    """Its certificates have no key identifiers, which Python 3.13 requires by default."""
    authority = TestAuthority(tmp_path, strict=False)
    async with _server(authority) as server:
        cluster = open_cluster(_kubeconfig(tmp_path, server.port, authority), None, "older")
        assert await asyncio.to_thread(cluster.version) == "v1.36.3"


async def test_another_authority_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = TestAuthority(tmp_path / "other")
    async with _server(TestAuthority(tmp_path)) as server:
        cluster = open_cluster(_kubeconfig(tmp_path, server.port, other), None, "strange")
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await asyncio.to_thread(cluster.version)


def test_an_authority_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    authority.ca.write_text("no certificate")
    with pytest.raises(Invalid, match="kubeconfig is not usable"):
        open_cluster(_kubeconfig(tmp_path, 6443, authority), None, "strange")
