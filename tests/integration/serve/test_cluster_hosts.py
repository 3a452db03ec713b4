"""Addresses of clusters by host name, in the whole program."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from proxy.settings import DataPlane, ProxySettings
from tests.integration.serve.conftest import Running, running, settings
from tests.integration.serve.test_managers import towline
from tests.integration.serve.test_ways_in import AWAY, session
from tests.planes import chosen_plane

DOMAIN = "clusters.example.org"
HOST = f"dev.{DOMAIN}"


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Running]:
    """A control plane that also answers to any name."""
    proxy = ProxySettings(data_plane=chosen_plane(DataPlane.AUTO), cluster_domain=DOMAIN)
    async with running(tmp_path / "data", proxy=proxy, hosts=("*",)) as one:
        yield one


async def status(hub: Running, host: str, path: str, **headers: str) -> int:
    headers = {"Host": host, **headers}
    async with hub.http.get(f"{hub.url}{path}", headers=headers) as answer:
        return answer.status


async def test_nothing_but_the_cluster_is_at_its_host(hub: Running) -> None:
    """No console, no API, no sign-in, no probe; a session of the console is no credential."""
    await hub.cluster()
    token = {"Authorization": f"Bearer {hub.token}"}
    cookie = {"Cookie": f"towline_session={await session(hub)}", "X-Towline-CSRF": "1"}
    for path in ("/", "/gql", "/healthz", "/version", "/oauth/session", "/k8s/clusters/dev/api"):
        assert await status(hub, HOST, path, **token) == AWAY
        assert await status(hub, f"{HOST.upper()}.:8443", path, **token) == AWAY
        assert await status(hub, HOST, path, **cookie) == 401
        assert await status(hub, f"none.{DOMAIN}", path, **token) in (403, 404)
        assert await status(hub, f"a.{HOST}", path, **token) == 404
    for host in ("towline.example.org", DOMAIN):
        assert await status(hub, host, "/version") == 200
        assert await status(hub, host, "/k8s/clusters/dev/api", **token) == AWAY
        assert await status(hub, host, "/k8s/clusters/dev/api", **cookie) == AWAY


async def test_the_certificate_is_for_the_names_of_all_clusters(hub: Running) -> None:
    """For no name below them, and no longer one of the console's."""
    trusting = ssl.create_default_context(cafile=str(hub.data / "tls" / "ca.crt"))
    host, _, port = hub.addresses.https.rpartition(":")
    for name in (HOST, "localhost"):
        _, writer = await asyncio.open_connection(host, port, ssl=trusting, server_hostname=name)
        writer.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(host, port, ssl=trusting, server_hostname=f"a.{HOST}")


async def test_kubeconfigs_have_the_names_of_clusters(hub: Running) -> None:
    """At the port of the control plane that the user has."""
    await hub.cluster()
    code, output = await towline(hub, "kubeconfig", "--all")
    assert code == 0, output
    made = yaml.safe_load(output)
    (cluster,) = made["clusters"]
    assert cluster["cluster"]["server"] == f"http://{HOST}:{hub.url.rpartition(':')[2]}"
    (user,) = made["users"]
    assert hub.url in user["user"]["exec"]["args"]


@pytest.mark.parametrize(
    "more",
    [
        {"auth": {"public_url": f"https://{HOST}"}},
        {"hosts": [f"*.{DOMAIN}"]},
        {"tls": {"names": [f"TOWLINE.{DOMAIN}"]}},
    ],
)
def test_names_of_clusters_are_none_of_the_console(more: dict[str, Any], tmp_path: Path) -> None:
    """The console would be hidden behind a cluster of that name."""
    proxy = ProxySettings(cluster_domain=DOMAIN)
    with pytest.raises(ValidationError, match="whose names are those of clusters"):
        settings(tmp_path, proxy=proxy, **more)
    assert settings(tmp_path, proxy=proxy, auth={"public_url": f"https://{DOMAIN}"})
