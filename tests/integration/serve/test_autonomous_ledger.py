"""Commits that an autonomous agent deployed while the control plane was away."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import orjson
import pytest
import yaml

from core.runtime.clock import SystemClock
from core.wire.v1 import agent_pb2 as wire
from syncagent import compose
from syncagent.autonomy.definition_sources import LABEL
from syncagent.settings import (
    AutonomySettings,
    GitAccessSettings,
    HubSettings,
    KubernetesSettings,
    Settings,
    StateSettings,
)
from tests.integration.serve.conftest import Json, running
from tests.integration.serve.test_git import config
from tests.integration.serve.waiting import until
from towline import agent_repositories
from towline.demo.clusters.agent_access import agent_kubeconfig
from towline.demo.clusters.cluster import LocalCluster
from towline.demo.git_server import GitServer

pytestmark = pytest.mark.cluster

HISTORY = """{ deploymentHistory { service sha actor desiredAt healthyAt } }"""
FIGURES = """query ($since: DateTime!) { deliveryReport(since: $since) {
  leadP50 total { begun healthy failed } } }"""
FLEET = """query ($at: DateTime!) { fleet(at: $at) {
  clusters { services { service sha } } } }"""
LEDGER = """{ ledger(first: 100) { edges { node { stage sha actor } } } }"""


async def unsent_health(state: Path) -> int:
    """The number of unsent reports that say HEALTHY."""
    with closing(sqlite3.connect(state / "agent.db")) as database:
        rows = database.execute("SELECT body FROM report WHERE topic GLOB 'status/*'").fetchall()
    reports = [wire.Report.FromString(body) for (body,) in rows]
    return sum(report.status.phase == wire.PHASE_HEALTHY for report in reports)


@asynccontextmanager
async def autonomous_agent(settings: Settings) -> AsyncGenerator[None]:
    """An agent with its git part, as `towline agent` puts it together."""
    stop, clock = asyncio.Event(), SystemClock()
    repositories = agent_repositories.build(settings, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(compose.build(settings, clock, repositories).run(stop))
        try:
            yield
        finally:
            stop.set()


async def test_commits_of_the_time_alone_are_in_history_figures_and_time_travel(
    cluster: LocalCluster, namespace: str, git_server: GitServer, tmp_path: Path
) -> None:
    """Both commits, with their own times, the agent as actor, and their results; once each."""
    repository, data = git_server.create_repository("alone"), tmp_path / "data"
    definition = yaml.safe_dump({"name": "shop", "namespace": namespace, "folder": "shop"})
    fleet = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "fleet", "labels": {LABEL: ""}},
        "data": {"shop": definition},
    }
    files = {"fleet/services.json": orjson.dumps(fleet).decode()}
    commits = [repository.commit(files | {"shop/a.yaml": config("shop", n="0")})]

    async def live() -> str:
        words = ("get", "configmap", "shop", "-n", namespace, "--ignore-not-found")
        return await asyncio.to_thread(cluster.kubectl, *words, "-o", "jsonpath={.data.n}")

    async with AsyncExitStack() as stack:
        async with running(data) as hub:
            made, address = await hub.cluster("far"), hub.addresses.agents
            state, credentials = tmp_path / "agent", tmp_path / "credentials"
            state.mkdir()
            credentials.mkdir()
            settings = Settings(
                HubSettings(f"https://{address}", made["deployToken"], data / "tls" / "ca.crt"),
                KubernetesSettings(agent_kubeconfig(cluster.access, state / "kubeconfig")),
                StateSettings(state),
                autonomy=AutonomySettings(repository=repository.url, folder="fleet"),
                git=GitAccessSettings(credentials, 1),
            )
            await stack.enter_async_context(autonomous_agent(settings))

            async def history() -> list[Json]:
                return (await hub.ask(HISTORY))["deploymentHistory"]

            await until(history, lambda seen: seen and seen[0]["healthyAt"], 90)
        for number in ("1", "2"):
            commits.append(repository.commit({"shop/a.yaml": config("shop", n=number)}))
            await until(live, lambda seen, is_=number: seen == is_, 60)
            await until(lambda: unsent_health(state), lambda seen, is_=number: seen == int(is_), 60)
        async with running(data, listen_agents=address) as hub:
            seen = await until(
                history, lambda seen: len(seen) == 3 and all(one["healthyAt"] for one in seen), 90
            )
            assert [one["sha"] for one in reversed(seen)] == commits
            assert {(one["service"], one["actor"]) for one in seen} == {
                ("shop", "agent, autonomous")
            }
            figures = await hub.ask(FIGURES, since="2026-01-01T00:00:00Z")
            total = figures["deliveryReport"]["total"]
            assert total == {"begun": 3, "healthy": 3, "failed": 0}
            assert 0 < figures["deliveryReport"]["leadP50"] < 600, "from the commit to healthy"
            for deployment in seen:
                shown = await hub.ask(FLEET, at=deployment["desiredAt"])
                (found,) = shown["fleet"]["clusters"]
                assert found["services"] == [{"service": "shop", "sha": deployment["sha"]}]
            response = await hub.ask(LEDGER)
            rendered = [
                edge["node"]["sha"]
                for edge in response["ledger"]["edges"]
                if edge["node"]["stage"] == "rendered"
            ]
            assert sorted(rendered) == sorted(commits)
