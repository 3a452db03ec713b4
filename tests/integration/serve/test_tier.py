"""A control plane whose git cache is elsewhere, or one replica among several."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import Invalid
from tests.integration.serve.conftest import ANY_PORT, Running, running, settings
from towline.demo.git_server import GitServer
from towline.demo.ports import free_ports
from towline.serve.git_cache_process import GitCacheProcess
from towline.serve.process import ControlPlaneProcess
from towline.settings import ServeSettings

KEY = "the key of control plane and replicas"
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{n: '{}'}}\n"


async def deliver(hub: Running, git_server: GitServer) -> None:
    """A service is rendered, and again after a commit."""
    repository = git_server.create_repository("shop")
    repository.commit({"web/a.yaml": MANIFEST.format(1)})
    cluster = await hub.cluster()
    id = await hub.repository(repository.url)
    service = await hub.service(cluster["id"], id, "web")
    await hub.service_until(service, lambda seen: seen["revision"])
    sha = repository.commit({"web/a.yaml": MANIFEST.format(2)})
    seen = await hub.service_until(service, lambda seen: seen["sha"] == sha)
    assert not seen["errors"]


def git(**peers: Any) -> dict[str, Any]:
    poll = {"seconds": 0.2, "seconds_with_webhook": 0.2}
    return {"poll": poll, "render": {"workers": 1}, "peers": {"key": KEY, **peers}}


async def test_a_control_plane_delivers_through_a_tier(
    tmp_path: Path, git_server: GitServer
) -> None:
    (port,) = free_ports(1)
    where = f"127.0.0.1:{port}"
    tier = GitCacheProcess(
        ServeSettings(
            target="gitcache",
            data=tmp_path / "tier",
            listen_peers=where,
            listen_metrics=ANY_PORT,
            git=git(name="a"),
        )
    )
    await tier.start()
    try:
        async with running(tmp_path / "data", git=git(servers=[where])) as hub:
            await deliver(hub, git_server)
            assert not (hub.data / "git" / "repositories").exists()
    finally:
        await tier.stop()


async def test_a_control_plane_can_be_a_replica_itself(
    tmp_path: Path, git_server: GitServer, redis_url: str
) -> None:
    more: dict[str, Any] = {"redis": redis_url, "listen_peers": f"127.0.0.1:{free_ports(1)[0]}"}
    quick = {"heartbeat_seconds": 0.1, "lease_seconds": 1.0}
    async with running(tmp_path / "data", git=git(name="a", **quick), **more) as hub:
        assert hub.addresses.peers == more["listen_peers"]
        await deliver(hub, git_server)


async def test_replicas_without_a_key_do_not_start(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"git\.peers\.key"):
        await ControlPlaneProcess(
            settings(
                tmp_path / "data", redis="redis://127.0.0.1:1/0", listen_replicas="127.0.0.1:0"
            )
        ).start()
