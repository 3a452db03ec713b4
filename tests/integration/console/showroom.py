"""Control plane for pictures of the console: the furnished story in a fleet of 20 clusters.

Two clusters are real. The others are rows of the store, whose agents always seem to be connected.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from threading import Thread
from typing import Any

from playwright.sync_api import Browser, expect

from controlplane.access.model.bindings import Project
from controlplane.access.ports import ProjectStore
from controlplane.authorization import DEFAULT_PROJECT, DestinationRule, Fence, SourceRule
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from controlplane.store.repositories import REPOSITORIES
from core.identity import ClusterId, ServiceId
from core.runtime.clock import SystemClock
from core.spec.status import Phase, Problem
from tests.integration.console.conftest import EMAIL, commit, sign_in, viewer
from tests.integration.console.furnished import furnish
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.environment import wait_until
from towline.demo.sample import shop
from towline.demo.steps import DemoSteps

_REGIONS = {"ap-south": 5, "eu-west": 8, "us-east": 5}
_NAMES = ("billing", "cart", "catalog", "ledger", "login", "mail", "media", "orders", "payments",
          "prices", "search", "shipping", "stock", "tickets", "vouchers")  # fmt: skip
_HEALTHY = {"digest": "sha256:1", "generation": 1, "observed_generation": 1}
_STATES: dict[int, dict[str, Any]] = {
    7: {"observed_generation": 0},
    23: {
        "phase": Phase.FAILED,
        "problems": (Problem("Deployment web: 0 of 2 Pods are ready: ImagePullBackOff"),),
    },
    31: {"paused": True},
}
_PAYMENTS = "payments"
_DEPENDENCIES = {
    **{"cart": ("prices", "stock"), "orders": ("cart", _PAYMENTS), "shipping": ("orders",)},
    **{_PAYMENTS: ("ledger",), "catalog": ("prices", "media")},
}
_CONNECTED = ("cluster-eu-west-1", "cluster-us-east-1")
_FENCE = Fence(
    sources=(SourceRule("http*://*/shop.git", refs=("main",)),),
    destinations=(
        DestinationRule((_PAYMENTS,), clusters=("dev",)),
        DestinationRule((_PAYMENTS, "ledger"), "deployer", tags={"region": "eu-west"}),
        DestinationRule((_PAYMENTS,), "deployer", clusters=("us-gov-*",)),
    ),
)
_CREATE = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""
_DRIFTED = """query ($id: ID!) { serviceDeployment(id: $id) { state drifted
  components { id kind } } }"""
_COMPONENTS = """query ($id: ID!) {
  serviceDeployment(id: $id) { components { id kind } } }"""
_REQUESTS = """{ auditLogs(first: 50, filter: {kind: REQUEST}) {
  edges { node { requestId detail } } } }"""
_RECORD = """mutation ($email: String!) {
  createRole(attributes: {name: "recorded", rules: [{verbs: [CONNECT], kinds: [CLUSTER]}],
    kubernetes: {record: true}}) { id }
  createRoleBinding(attributes: {role: "recorded", scope: "installation", user: $email}) { id } }"""
_DEFINE = """mutation ($account: ID!, $repository: ID!, $template: ServiceDeploymentAttributes!) {
  createManagedNamespace(attributes: {name: "sandbox", labels: "{\\"team\\": \\"shop\\"}",
    selector: {tags: [{name: "region", value: "none"}]}}) { id }
  createServiceSet(attributes: {name: "previews", template: $template,
    generator: {items: [[{name: "branch", value: "main"}]]},
    selector: {tags: [{name: "region", value: "none"}]}}) { id }
  createConfigurationSource(attributes: {name: "platform", folder: "towline",
    repositoryId: $repository, serviceAccountId: $account, suspended: true}) { id }
  saveView(attributes: {name: "Failed in Europe", list: "services", query: "state:failed",
    columns: ["service", "cluster", "reason"], sharing: EVERYBODY}) { id }
  denyRevision(revision: "9d3f0c4be2a17f6c8d5b2e1a0f4c7b9d8e6a5f3c",
    reason: "contains a password") { id } }"""
_TAG = """mutation ($id: ID!, $region: String!) {
  updateCluster(id: $id, attributes: {tags: [{name: "region", value: $region}]}) { id } }"""
_ASK = """mutation ($scope: String!) { requestAccess(role: "editor", scope: $scope,
  minutes: 60, reason: "release 42 is stuck") { id } }"""


def add_fleet(url: str) -> None:
    """Adds clusters and services to the store of a control plane that does not run yet."""

    async def add() -> None:
        engine = make_engine(url)
        async with SqlStore(engine, REPOSITORIES).write() as tx:
            now = SystemClock().now()
            await tx[ProjectStore].add(Project(_PAYMENTS, _PAYMENTS, now, now, fence=_FENCE))
            for cluster in _clusters():
                await tx[ClusterStore].add(cluster)
                for service in _services(cluster.id):
                    await tx[ServiceStore].add(service)
        await engine.dispose()

    # The driver of a browser may occupy the event loop of this thread.
    thread = Thread(target=lambda: asyncio.run(add()))
    thread.start()
    thread.join()


def _clusters() -> Iterator[Cluster]:
    now = SystemClock().now()
    for region, count in _REGIONS.items():
        for number in range(1, count + 1):
            name = f"{region}-{number}"
            yield Cluster(
                ClusterId(f"cluster-{name}"),
                name,
                name,
                now,
                now,
                tags={"region": region},
                kubernetes_version="v1.35.2",
                nodes=3 + number,
                pinged_at=now + timedelta(days=1),
            )


def _services(cluster: ClusterId) -> Iterator[Service]:
    now = SystemClock().now()
    seed = sum(cluster.encode())
    for number in range(9 + seed % 7):
        name = _NAMES[number % len(_NAMES)]
        service = Service(ServiceId(f"{cluster}-{name}"), cluster, None, name, name, now, now)
        state = _STATES.get((seed * 5 + number * 11) % 37, {})
        yield service.changed(
            project_id=_PAYMENTS if name in (_PAYMENTS, "ledger") else DEFAULT_PROJECT,
            commit_sha="4f1c09de7ab85236" * 2,
            dependencies=_DEPENDENCIES.get(name, ()) if cluster in _CONNECTED else (),
            **{"phase": Phase.HEALTHY, **_HEALTHY, **state},
        )


def stock(story: DemoSteps, browser: Browser) -> dict[str, str]:
    """Furnishes the control plane, and returns the ids that paths of screens name."""
    stage, dev = story.stage, story.services["dev"]
    _release(story, "1.1")
    ids = asdict(furnish(story))
    story.wait_healthy("dev")
    story.waiting_edge()
    for name, region in (("dev", "eu-west"), ("prod", "us-east")):
        stage.ask(_TAG, id=stage.members[name].id, region=region)
    _define(story, ids["account"])
    _request_access(story)
    ids["drifted"] = _drift(story)
    components = stage.ask(_COMPONENTS, id=dev)["serviceDeployment"]["components"]
    ids |= {each["kind"].lower(): each["id"] for each in components}
    ids |= {"service": dev, "pipeline": story.pipeline()["id"]}
    return ids | {"recording": _record_shell(story, browser, ids["pod"])}


def _release(story: DemoSteps, version: str) -> None:
    """Commits a version, and waits until it runs in the first stage."""
    before = story.service("dev")["sha"]
    commit(story, shop(version), f"Release {version}")
    wait_until("the new commit", lambda: story.service("dev")["sha"] != before)
    story.wait_healthy("dev")


def _define(story: DemoSteps, account: str) -> None:
    """Creates one resource of each kind that the furnished control plane lacks."""
    repository = story.stage.ask("{ gitRepositories { edges { node { id } } } }")
    id = repository["gitRepositories"]["edges"][0]["node"]["id"]
    git = {"ref": "${item.branch}", "folder": "dev"}
    template = {"name": "preview", "namespace": "preview", "repositoryId": id, "git": git}
    story.stage.ask(_DEFINE, account=account, repository=id, template=template)


def _drift(story: DemoSteps) -> str:
    """Deploys a service into the fence, edits its ConfigMap by hand, and returns the id of that."""
    dev = story.stage.members["dev"]
    repository = story.stage.ask("{ gitRepositories { edges { node { id } } } }")
    attributes = {
        "name": _PAYMENTS,
        "namespace": _PAYMENTS,
        "projectId": _PAYMENTS,
        "repositoryId": repository["gitRepositories"]["edges"][0]["node"]["id"],
        "git": {"ref": "main", "folder": "dev"},
        "syncConfig": {"driftPolicy": "REPORT"},
    }
    # Services in a fence create no namespace.
    dev.kubectl("create", "namespace", _PAYMENTS)
    id = story.stage.ask(_CREATE, cluster=dev.id, attributes=attributes)["createServiceDeployment"][
        "id"
    ]

    def state() -> dict[str, Any]:
        return story.stage.ask(_DRIFTED, id=id)["serviceDeployment"]

    wait_until("the service in the fence", lambda: state()["state"] == "HEALTHY")
    edit = json.dumps({"data": {"version": "1.1-hotfix"}})
    dev.kubectl("patch", "configmap/settings", "-n", _PAYMENTS, "--patch", edit)
    wait_until("the drift of its ConfigMap", lambda: state()["drifted"] == 1)
    return next(each["id"] for each in state()["components"] if each["kind"] == "ConfigMap")


def _request_access(story: DemoSteps) -> None:
    """Has another user request access to a cluster."""
    stage = story.stage
    target = ControlPlaneTarget(stage.url, viewer(story, "kim"), stage.authority.read_text())
    GraphQLClient(target).ask(_ASK, scope=f"cluster:{stage.members['prod'].id}")


def _record_shell(story: DemoSteps, browser: Browser, pod: str) -> str:
    """Uses a shell of a Pod, and returns the id of its recording."""
    stage = story.stage
    stage.ask(_RECORD, email=EMAIL)
    page = browser.new_page()
    page.goto(f"{stage.http_url}/objects/{pod}?tab=shell")
    sign_in(page)
    page.get_by_role("button", name="Open shell").click()
    expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    expect(page.locator(".xterm")).to_contain_text(re.compile(r"[#$]"))
    page.keyboard.type("echo hello\n")
    expect(page.locator(".xterm")).to_contain_text("hello")
    page.close()
    found: list[str] = []

    def is_recorded() -> bool:
        rows = (edge["node"] for edge in stage.ask(_REQUESTS)["auditLogs"]["edges"])
        found.extend(row["requestId"] for row in rows if row["detail"].get("recorded"))
        return bool(found)

    wait_until("the recording of the shell", is_recorded)
    return found[0]
