"""Two pods of a scaled release, as programs on this machine: what they share makes them one."""

import asyncio
import os
import re
import secrets
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from core.runtime.clock import SystemClock
from tests.unit.charts.rendering import Json, pod_of, render, settings_file, values_of
from towline.certificate_authority import CertificateAuthority
from towline.demo.ports import free_ports

TOWLINE = str(Path(sys.executable).parent / "towline")
PORTS = ("8443", "8444", "8445", "8446", "9090")


@dataclass
class Shared:
    """The Secrets of a release as files, below a folder that stands for /etc/towline."""

    folder: Path
    key: bytes

    @property
    def authority(self) -> Path:
        return self.folder / "authority" / "ca.crt"


@pytest.fixture
def shared(tmp_path: Path, postgres_url: str, redis_url: str) -> Shared:
    """What the chart asks for: a database, a Redis, keys and a certificate."""
    folder = tmp_path / "etc"
    for part in ("database", "redis", "keys", "tls", "authority"):
        (folder / part).mkdir(parents=True)
    (folder / "database" / "url").write_text(postgres_url)
    (folder / "redis" / "url").write_text(redis_url)
    (folder / "keys" / "peers.key").write_text(secrets.token_hex(32))
    authority = CertificateAuthority.create(folder / "authority", "Test", SystemClock().now())
    made = authority.sign("server", "towline", SystemClock().now(), names=("127.0.0.1",))
    (folder / "tls" / "tls.crt").write_bytes(made.certificate.read_bytes())
    (folder / "tls" / "tls.key").write_bytes(made.key.read_bytes())
    return Shared(folder, secrets.token_bytes(32))


@asynccontextmanager
async def pod(name: str, objects: list[Json], shared: Shared, folder: Path) -> AsyncGenerator[str]:
    """The program of a pod with a volume of its own; where it answers. It has to end well."""
    (container,) = pod_of(objects)["containers"]
    data = folder / name
    data.mkdir(mode=0o700)
    (data / "encryption.key").write_bytes(shared.key)
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    places = {
        "/etc/towline/towline.toml": str(folder / f"{name}.toml"),
        "/etc/towline": str(shared.folder),
        "/var/lib/towline": str(data),
        "$(POD_IP)": "127.0.0.1",
        "0.0.0.0": "127.0.0.1",
        "/tmp": str(folder),
        **{f":{port}": f":{free}" for port, free in ports.items()},
    }
    (folder / f"{name}.toml").write_text(placed(settings_file(objects), places))
    given = {one["name"]: placed(one.get("value", ""), places) for one in container["env"]}
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            TOWLINE,
            *(placed(one, places) for one in container["args"]),
            env={"PATH": os.environ["PATH"], **given, "TOWLINE_GIT__PEERS__NAME": name},
            stderr=log,
        )
    try:
        yield f"https://127.0.0.1:{ports['8443']}"
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(process.wait(), 30)
        print((folder / f"{name}.log").read_text())
    assert code == 0


def placed(text: str, places: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)


@pytest.fixture
async def http(shared: Shared) -> AsyncIterator[aiohttp.ClientSession]:
    trusted = ssl.create_default_context(cafile=str(shared.authority))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
        yield session


async def until_ready(http: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(60):
        while not await is_ready(http, url):
            await asyncio.sleep(0.1)


async def is_ready(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


async def test_replicas_of_a_release_are_one_control_plane(
    shared: Shared, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """What is sealed and written at one is read at the other, with the first one's token."""
    objects = render("towline", values_of("towline", "replicas"))
    async with AsyncExitStack() as pods:
        urls = []
        for name in ("towline-0", "towline-1"):
            urls.append(await pods.enter_async_context(pod(name, objects, shared, tmp_path)))
            await until_ready(http, urls[-1])
        token = (tmp_path / "towline-0" / "admin.token").read_text()
        headers = {"authorization": f"Bearer {token}"}
        made = 'mutation { createCluster(attributes: {name: "dev"}) { handle } }'
        async with http.post(f"{urls[0]}/gql", json={"query": made}, headers=headers) as answer:
            assert "errors" not in await answer.json()
        asked = "{ clusters(first: 5) { edges { node { handle } } } }"
        async with http.post(f"{urls[1]}/gql", json={"query": asked}, headers=headers) as answer:
            edges = (await answer.json())["data"]["clusters"]["edges"]
    assert [edge["node"]["handle"] for edge in edges] == ["dev"]
    logs = [(tmp_path / f"towline-{number}.log").read_text() for number in range(2)]
    assert all('"ready"' in text and '"replicas": "127.0.0.1:' in text for text in logs)
