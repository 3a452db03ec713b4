"""Services that a cluster defines itself and whose manifests its agent reads from git."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import yaml

from core.errors import Invalid
from core.runtime.clock import SystemClock
from core.spec.renderers import HelmRelease
from core.wire.v1 import agent_pb2 as pb
from syncagent import compose
from syncagent.autonomy.definition_sources import LABEL
from syncagent.domain.local_services import ServiceDefinition
from syncagent.settings import (
    AutonomySettings,
    GitAccessSettings,
    HubSettings,
    Settings,
    StateSettings,
)
from tests.fakes.badline import BadLine
from tests.fakes.hub import TOKEN, FakeHub
from tests.integration.syncagent.conftest import Bench
from towline import agent_repositories
from towline.agent_repositories import CredentialFiles
from towline.demo.git_server import GitServer, ServedRepository

pytestmark = pytest.mark.cluster


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as running:
        yield running


@asynccontextmanager
async def agent(bench: Bench) -> AsyncGenerator[None]:
    """An agent with its git part, as `towline agent` puts it together."""
    stop, clock = asyncio.Event(), SystemClock()
    repositories = agent_repositories.build(bench.settings, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(compose.build(bench.settings, clock, repositories).run(stop))
        try:
            yield
        finally:
            stop.set()


def manifest(bench: Bench, name: str, value: str) -> str:
    return orjson.dumps(bench.config(name, key=value)).decode()


def definitions(bench: Bench, name: str, **texts: str) -> str:
    """A ConfigMap that defines one service for each name and folder."""
    data = {
        one: yaml.safe_dump({"name": one, "namespace": bench.namespace} | {"folder": folder})
        for one, folder in texts.items()
    }
    body = bench.config(name, **data)
    body["metadata"]["labels"] = {LABEL: ""}
    return orjson.dumps(body).decode()


def autonomous(
    bench: Bench, server: GitServer, tmp_path: Path, own: AutonomySettings
) -> ServedRepository:
    """A private repository, whose credentials the agent finds in a file."""
    repository = server.create_repository("team/fleet", username="reader", password="pa55")
    folder = tmp_path / "credentials"
    folder.mkdir()
    prefix = repository.url.removesuffix("/fleet.git")
    credentials = {"url": prefix, "username": "reader", "password": "pa55"}
    (folder / "team.yaml").write_text(yaml.safe_dump(credentials))
    if own.folder:
        own = replace(own, repository=repository.url)
    bench.settings = replace(bench.settings, autonomy=own, git=GitAccessSettings(folder, 1))
    return repository


def mirrors(hub: FakeHub) -> dict[str, pb.MirroredService]:
    """The last word on each service that is shown."""
    reports = [report.mirrored for report in hub.reports if report.HasField("mirrored")]
    return {one.name: one for one in reports}


async def test_a_folder_in_git_defines_services_that_the_agent_renders_itself(
    bench: Bench, server: GitServer, tmp_path: Path
) -> None:
    """From the first boot without a control plane; then a commit moves what it touches only, and
    a definition that has gone takes its objects with it."""
    repository = autonomous(bench, server, tmp_path, AutonomySettings(folder="fleet"))
    fleet = definitions(bench, "fleet", web="web", api="api")
    files = {
        "fleet/services.json": fleet,
        "web/kustomization.yaml": "resources: [web.json]\nnamePrefix: k-\n",
        "web/web.json": manifest(bench, "web", "1"),
        "api/api.json": manifest(bench, "api", "1"),
    }
    repository.commit(files)
    await bench.hub.stop()
    async with agent(bench):
        await bench.until("configmap", "k-web", lambda one: one)
        await bench.until("configmap", "api", lambda one: one)
        await bench.hub.start()
        await bench.hub.until(lambda: mirrors(bench.hub).keys() == {"web", "api"})
        first = mirrors(bench.hub)["web"].commit
        sha = repository.commit({"web/web.json": manifest(bench, "web", "2")})
        await bench.until("configmap", "k-web", lambda one: one["data"]["key"] == "2")
        await bench.hub.until(lambda: mirrors(bench.hub)["web"].commit == sha)
        mirrored = mirrors(bench.hub)
        assert mirrored["api"].commit == first and mirrored["api"].sequence == 1
        assert mirrored["web"].repository == repository.url and mirrored["web"].ref == "main"
        repository.commit({"fleet/services.json": definitions(bench, "fleet", web="web")})
        await bench.until("configmap", "api", lambda one: one is None)
    assert not any(b"pa55" in one.read_bytes() for one in tmp_path.rglob("*.db*"))


async def test_pulses_report_an_unreadable_definition(
    bench: Bench, server: GitServer, tmp_path: Path
) -> None:
    """It defines no service that could be shown with the reason; once it is well, no more."""
    repository = autonomous(bench, server, tmp_path, AutonomySettings(folder="fleet"))
    body = orjson.loads(definitions(bench, "fleet", web="web"))
    body["data"] = {"web": "name: ["}
    files = {"fleet/services.json": orjson.dumps(body).decode()}
    repository.commit(files | {"web/web.json": manifest(bench, "web", "1")})
    bench.hub.pulse_ms = 500
    async with agent(bench):
        await bench.hub.until(lambda: any("is not YAML" in one for one in bench.hub.problems))
        assert not mirrors(bench.hub)
        repository.commit({"fleet/services.json": definitions(bench, "fleet", web="web")})
        await bench.hub.until(lambda: "web" in mirrors(bench.hub))
        await bench.hub.until(lambda: "is not YAML" not in bench.hub.problems[-1])


async def test_a_control_plane_that_stands_still_holds_up_no_commit(
    bench: Bench, server: GitServer, tmp_path: Path
) -> None:
    """It keeps the connection and neither reads nor answers, as if load left it no time: commits
    are applied all the same, and reported once it goes on."""
    repository = autonomous(bench, server, tmp_path, AutonomySettings(folder="fleet"))
    fleet = definitions(bench, "fleet", web="web")
    first = repository.commit(
        {"fleet/services.json": fleet, "web/web.json": manifest(bench, "web", "0")}
    )

    def mirrored_commit() -> str:
        return mirrors(bench.hub)["web"].commit if mirrors(bench.hub) else ""

    async with BadLine(bench.hub.port, delay=0.0, rate=1e9) as line:
        hub = HubSettings(f"http://127.0.0.1:{line.port}", TOKEN)
        bench.settings = replace(bench.settings, hub=hub)
        async with agent(bench):
            await bench.hub.until(lambda: mirrored_commit() == first)
            line.stall()
            for value in ("1", "2", "3"):
                last = repository.commit({"web/web.json": manifest(bench, "web", value)})
                await bench.until(
                    "configmap", "web", lambda one, v=value: one and one["data"]["key"] == v
                )
            assert mirrored_commit() == first
            line.go_on()
            await bench.hub.until(lambda: mirrored_commit() == last)


async def test_a_chart_takes_the_values_that_its_definition_gives(
    server: GitServer, tmp_path: Path
) -> None:
    """Files of the repository, then those of the definition; other values are another render."""
    repository = server.create_repository("charts")
    template = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
        "data: {who: {{ .Values.who | quote }}, release: {{ .Release.Name }}, "
        "size: {{ .Values.size | quote }}}\n"
    )
    repository.commit(
        {
            "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\n",
            "web/values.yaml": "who: nobody\nsize: 1\n",
            "web/prod.yaml": "size: 3\n",
            "web/templates/c.yaml": template,
        }
    )
    settings = Settings(HubSettings("http://127.0.0.1:1", "x"), state=StateSettings(tmp_path / "s"))
    repositories = agent_repositories.build(settings, SystemClock())
    await repositories.start(lambda: None)
    try:
        for who in ("ann", "bob"):
            release = HelmRelease("web", "n", values=f"who: {who}", values_files=("prod.yaml",))
            one = ServiceDefinition("web", "n", "web", repository.url, helm=release)
            rendered = await repositories.render(one)
            assert orjson.loads((await rendered.load()).splitlines()[-1])["data"] == {
                "who": who, "release": "web", "size": "3",
            }  # fmt: skip
    finally:
        await repositories.stop()


async def test_configmaps_of_the_cluster_define_services_in_git(
    bench: Bench, server: GitServer, tmp_path: Path
) -> None:
    """What cannot be rendered is shown with the reason; asked to sync, the agent looks at once."""
    repository = autonomous(bench, server, tmp_path, AutonomySettings(configmaps=bench.namespace))
    repository.commit({"app/c.json": manifest(bench, "c", "1")})
    slow = replace(bench.settings.git, poll_seconds=3600)
    bench.settings = replace(bench.settings, git=slow)
    where = {"repository": repository.url, "namespace": bench.namespace}
    own = yaml.safe_dump({"name": "own", "folder": "app"} | where)
    lost = yaml.safe_dump({"name": "lost", "folder": "nowhere"} | where)
    await bench.kubectl("create", "configmap", "fleet", f"--from-literal=a={own}---\n{lost}")
    await bench.kubectl("label", "configmap", "fleet", f"{LABEL}=")
    async with agent(bench):
        live = await bench.until("configmap", "c", lambda one: one)
        shown = await bench.hub.until(lambda: mirrors(bench.hub).get("lost"))
        assert "nowhere" in shown.error
        repository.commit({"app/c.json": manifest(bench, "c", "2")})
        sync = pb.SyncNow(service_id=mirrors(bench.hub)["own"].service_id)
        bench.hub.send(pb.HubMessage(command=pb.Command(id="1", sync_now=sync)))
        now = await bench.until("configmap", "c", lambda one: one["data"]["key"] == "2")
    assert now["metadata"]["uid"] == live["metadata"]["uid"]


@pytest.mark.parametrize(
    "text",
    [
        "password: pa55",
        "url: https://git/x\npassword: [pa55]",
        "pa55: [",
        "url: ftp://git/x",
        "url: !!bool pa55",
        "url: !!int ''\npassword: pa55",
    ],
)
def test_a_file_that_is_odd_is_named_without_what_is_in_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(Invalid) as caught:
        CredentialFiles(tmp_path).for_url("https://git/x")
    assert "pa55" not in caught.value.message


def test_the_credentials_of_the_longest_url_count(tmp_path: Path) -> None:
    """A URL covers what is below it, on its own host only."""
    for name, url in (("a", "https://git/team"), ("b", "https://git/team/deep")):
        (tmp_path / name).write_text(f"url: {url}\npassword: {name}\n")
    files = CredentialFiles(tmp_path)
    found = {
        url: credentials.password if (credentials := files.for_url(url)) else None
        for url in (
            "https://git/team/x.git",
            "https://git/team/deep/y",
            "https://git/teams/x",
            "https://other/team/x",
            "http://git/team/x",
        )
    }
    assert list(found.values()) == ["a", "b", None, None, None]
