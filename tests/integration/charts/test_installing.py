"""A real API server takes what the charts render, and its controllers run it."""

import asyncio
import json
import shutil
import ssl
from pathlib import Path

import aiohttp
import pytest
import yaml

from charts.manifests import BASES, CHART_OF, ROOT, objects_of
from tests.integration.charts.conftest import Install, Release, running
from tests.unit.charts.rendering import VALUE_SETS, of_kind, settings_file, values_of
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.ports import free_ports

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize(("chart", "path"), VALUE_SETS)
def test_the_api_server_accepts_every_set_of_values(
    cluster: LocalCluster, chart: str, path: Path
) -> None:
    """All its validation and admission, without keeping the objects."""
    release = Release(chart, cluster, "default", yaml.safe_load(path.read_text()))
    said = release.apply("--dry-run=server").splitlines()
    assert len(said) == len(release.objects)
    assert all(line.endswith("created (server dry run)") for line in said)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("base", CHART_OF)
def test_the_api_server_accepts_the_plain_manifests(
    cluster: LocalCluster, tmp_path: Path, base: str
) -> None:
    """By an overlay that moves them into another namespace."""
    shutil.copytree(ROOT / BASES / base, tmp_path / base)
    overlay = {"namespace": "default", "resources": [base]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    said = cluster.kubectl("apply", "-k", str(tmp_path), "--dry-run=server").splitlines()
    assert len(said) == len(objects_of(base))
    assert all("(server dry run)" in line for line in said)


def test_the_agent_runs_in_a_restricted_namespace(
    cluster: LocalCluster, namespace: str, install: Install
) -> None:
    """Pod security admits its pod, and the Deployment becomes available."""
    cluster.kubectl("label", "namespace", namespace, RESTRICTED)
    release = install("towline-agent", values_of("towline-agent", "default"))
    name = of_kind(release.objects, "Deployment")["metadata"]["name"]
    cluster.kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout=50s")


async def test_the_control_plane_runs_in_a_restricted_namespace(
    cluster: LocalCluster, namespace: str, install: Install
) -> None:
    """Pod security admits its pod, which asks for the volume and waits for it."""
    cluster.kubectl("label", "namespace", namespace, RESTRICTED)
    release = install("towline", {})
    name = of_kind(release.objects, "StatefulSet")["metadata"]["name"]
    async with asyncio.timeout(50):
        while not (pods := _names(cluster, namespace, "pods")):
            await asyncio.sleep(0.1)
    assert pods == [f"{name}-0"]
    assert _names(cluster, namespace, "persistentvolumeclaims") == [f"data-{name}-0"]


async def test_the_control_plane_starts_and_drains_as_the_pod_says(
    cluster: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    """The pod's own command answers the pod's own probes, and ends within its grace period."""
    release = Release("towline", cluster, namespace, values_of("towline", "ingress"))
    ports = {8443: 0, 8444: 0, 8080: 0, 9090: 0}
    ports = dict(zip(ports, free_ports(len(ports)), strict=True))
    file = tmp_path / "towline.toml"
    text = settings_file(release.objects)
    for port, free in ports.items():
        text = text.replace(f"0.0.0.0:{port}", f"127.0.0.1:{free}")
    file.write_text(text.replace("/var/lib/towline", str(tmp_path / "data")))
    places = {"/etc/towline/towline.toml": str(file), "/tmp": str(tmp_path)}
    async with running(release, places, log=tmp_path / "serve.log") as process:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = release.container[probe]["httpGet"]
            port = next(
                one["containerPort"]
                for one in release.container["ports"]
                if one["name"] == get["port"]
            )
            url = f"{get['scheme'].lower()}://127.0.0.1:{ports[port]}{get['path']}"
            await _until_answered(url, tmp_path / "data" / "tls" / "ca.crt", process)
        assert (tmp_path / "data" / "admin.token").exists()


async def _until_answered(url: str, ca: Path, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(60):
        while not ca.exists():
            assert process.returncode is None
            await asyncio.sleep(0.1)
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(ca)))
        async with aiohttp.ClientSession(connector=connector) as http:
            while not await _answers(http, url):
                assert process.returncode is None
                await asyncio.sleep(0.1)


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


def _names(cluster: LocalCluster, namespace: str, kind: str) -> list[str]:
    found = json.loads(cluster.kubectl("-n", namespace, "get", kind, "-o", "json"))
    return [one["metadata"]["name"] for one in found["items"]]
