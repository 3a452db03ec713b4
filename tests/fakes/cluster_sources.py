"""A management cluster in memory, and cluster sources over the store in memory."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from controlplane.access.model.users import User, UserKind
from controlplane.authorization import Actor
from controlplane.authorization.roles import BuiltInRole
from controlplane.cluster_sources.model.members import ClusterSourceMember
from controlplane.cluster_sources.model.source import ClusterSource, ClusterSourceSettings
from controlplane.cluster_sources.operations.clean_up import CLEAN_UP, DeliveryCleanUp
from controlplane.cluster_sources.operations.deliveries import AgentDeliveries
from controlplane.cluster_sources.operations.reconciler import ClusterSourceReconciler
from controlplane.cluster_sources.operations.sources import (
    RECONCILE,
    ClusterSourceChange,
    ClusterSources,
)
from controlplane.cluster_sources.ports import ClusterSourceMemberStore
from controlplane.clusters.model.agent_settings import EffectiveAgentSettings
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokens
from controlplane.clusters.operations.clusters import Clusters
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.parts import given
from controlplane.platform.ports import JobStore
from core.errors import Forbidden, NotFound, TowlineError
from core.json_object import JsonMapping, JsonObject
from tests.fakes.access import bind
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

MANAGEMENT = "hub-1"
ACCOUNT = User("robot", "robot@example.org", "robot", START, START, UserKind.SERVICE_ACCOUNT)
GROUPS = {
    "cluster.x-k8s.io": ("v1beta1", "v1beta2"),
    "addons.cluster.x-k8s.io": ("v1beta1", "v1beta2"),
    "multicluster.x-k8s.io": ("v1alpha1",),
}
_LIST = re.compile(r"/apis/([^/]+)/([^/]+)/(?:namespaces/([^/]+)/)?([a-z]+)")


def initialized(**more: Any) -> JsonObject:
    """A status of Cluster API's v1beta2 whose control plane answers."""
    return {"initialization": {"controlPlaneInitialized": True}, **more}


@dataclass
class FakeManagementCluster:
    """Implements `ManagementCluster`. `objects` are found by their path.

    `failures` maps the beginning of a path to the error that requests below it raise.
    """

    groups: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(GROUPS))
    inventory: dict[str, JsonObject] = field(default_factory=dict)
    """Objects of the inventory, by `namespace/name`."""
    objects: dict[str, JsonMapping] = field(default_factory=dict)
    """Objects that were applied, by path."""
    failures: dict[str, TowlineError] = field(default_factory=dict)
    callers: set[str] = field(default_factory=set)
    causes: set[object] = field(default_factory=set)
    """Causes of requests, as the audit log shows them."""
    paths: list[str] = field(default_factory=list)
    page: int = 2

    def put(
        self, name: str, namespace: str = "fleet", *, status: JsonMapping | None = None,
        labels: Mapping[str, str] | None = None, uid: str = "", **spec: Any,
    ) -> None:  # fmt: skip
        """Creates or replaces an object of the inventory."""
        metadata: JsonObject = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
        metadata["labels"] = dict(labels or {})
        self.inventory[f"{namespace}/{name}"] = {
            "metadata": metadata, "spec": spec, "status": dict(status or {}),
        }  # fmt: skip

    def remove(self, name: str, namespace: str = "fleet") -> None:
        """Deletes an object, and those that it owns."""
        gone = self.inventory.pop(f"{namespace}/{name}")["metadata"]["uid"]
        self.objects = {
            path: item
            for path, item in self.objects.items()
            if all(owner["uid"] != gone for owner in item["metadata"]["ownerReferences"])
        }

    async def read(self, actor: Actor, handle: str, path: str) -> JsonMapping:
        self._check(actor, handle, path)
        url = urlsplit(path)
        if (name := url.path.removeprefix("/apis/")) in self.groups:
            return {"versions": [{"version": version} for version in self.groups[name]]}
        found = _LIST.fullmatch(url.path)
        if found is None or found[2] not in self.groups.get(found[1], ()):
            raise NotFound("the server could not find the requested resource")
        items = [
            item
            for key, item in sorted(self.inventory.items())
            if not found[3] or key.startswith(f"{found[3]}/")
        ]
        start = int(parse_qs(url.query).get("continue", ["0"])[0])
        rest = {"continue": str(start + self.page)} if start + self.page < len(items) else {}
        return {"metadata": rest, "items": items[start : start + self.page]}

    async def apply(self, actor: Actor, handle: str, path: str, manifest: JsonMapping) -> None:
        self._check(actor, handle, path)
        self.objects[path] = manifest

    async def patch(self, actor: Actor, handle: str, path: str, change: JsonMapping) -> None:
        self._check(actor, handle, path)
        _, _, rest = path.partition("/namespaces/")
        namespace, _, name = rest.split("/")
        if f"{namespace}/{name}" not in self.inventory:
            raise NotFound("the server could not find the object")
        labels = self.inventory[f"{namespace}/{name}"]["metadata"]["labels"]
        labels |= change["metadata"]["labels"]
        for key in [key for key, value in labels.items() if value is None]:
            del labels[key]

    async def delete(self, actor: Actor, handle: str, path: str) -> None:
        self._check(actor, handle, path)
        self.objects.pop(path, None)

    def _check(self, actor: Actor, handle: str, path: str) -> None:
        self.callers.add(actor.email)
        self.causes.add(actor.cause)
        self.paths.append(path)
        if handle != MANAGEMENT:
            raise Forbidden(f"no access to {handle}")
        for start, error in self.failures.items():
            if path.startswith(start):
                raise error


class FakeAgentManifests:
    """Implements `AgentManifests` with the token itself. `tokens`: by handle of the cluster."""

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}

    async def render(
        self, cluster: Cluster, token: str, settings: EffectiveAgentSettings | None
    ) -> str:
        self.tokens[cluster.handle] = token
        return f"token: {token}\n"


def change_of(**settings: Any) -> ClusterSourceChange:
    """Returns a change of the settings of a source."""
    return ClusterSourceChange(settings=given(ClusterSourceSettings, **settings))


@dataclass(frozen=True)
class ClusterSourceWorld:
    """An installation with a management cluster."""

    memory: MemoryOperations
    hub: FakeManagementCluster
    agents: FakeAgentManifests
    sources: ClusterSources
    reconciler: ClusterSourceReconciler
    clean_up: DeliveryCleanUp
    bootstrap: BootstrapTokens

    async def create(
        self,
        name: str = "capi",
        actor: Actor = ADMIN,
        project_id: str | None = None,
        **columns: Any,
    ) -> ClusterSource:
        """Creates a source, and reconciles it."""
        required: dict[str, Any] = {"cluster_id": MANAGEMENT, "service_account_id": ACCOUNT.id}
        settings = given(ClusterSourceSettings, **(required | columns))
        change = ClusterSourceChange(name, project_id, settings)
        made = await self.sources.create(actor, change)
        await self.run_due()
        return await self.sources.get(ADMIN, made.id)

    async def pass_interval(self) -> ClusterSource:
        """Lets the interval of all sources pass, and reconciles; the source `capi`."""
        await self.memory.clock.advance(timedelta(minutes=2).total_seconds())
        await self.run_due()
        return await self.sources.get(ADMIN, None, "capi")

    async def run_due(self) -> None:
        """Runs due jobs once."""
        async with self.memory.store.write() as tx:
            jobs = await tx[JobStore].claim([RECONCILE], "here", self.memory.clock.now(), 100)
        for job in jobs:
            await self.reconciler.run(job)

    async def clean_up_due(self) -> None:
        """Removes what deleted sources have delivered, once."""
        async with self.memory.store.write() as tx:
            jobs = await tx[JobStore].claim([CLEAN_UP], "here", self.memory.clock.now(), 100)
        for job in jobs:
            await self.clean_up.run(job)

    async def members(self) -> dict[str, ClusterSourceMember]:
        """The objects of all sources, by name."""
        return {row.name: row for row in await self.memory.rows(ClusterSourceMemberStore)}

    async def states(self) -> dict[str, str]:
        """The states of all objects, by name."""
        return {name: row.state.value for name, row in (await self.members()).items()}

    async def clusters(self) -> dict[str, Cluster]:
        """All clusters but the management cluster, by handle."""
        rows = await self.memory.rows(ClusterStore, ending_at=None)
        return {row.handle: row for row in rows if row.id != MANAGEMENT}

    async def connect(self, handle: str) -> None:
        """Lets the agent of a cluster connect."""
        (row,) = await self.memory.rows(ClusterStore, handle=handle)
        async with self.memory.store.write() as tx:
            await tx[ClusterStore].change(row.id, pinged_at=self.memory.clock.now())


async def cluster_source_world(role: BuiltInRole = BuiltInRole.ADMIN) -> ClusterSourceWorld:
    """Makes an installation with a management cluster, and a service account with a role."""
    memory = operations_over_memory()
    await memory.given(make_cluster(MANAGEMENT), ACCOUNT, bind(role.value, ACCOUNT))
    hub, agents = FakeManagementCluster(), FakeAgentManifests()
    deliveries = AgentDeliveries(memory.context, hub, agents)
    clusters = Clusters(memory.context)
    return ClusterSourceWorld(
        memory,
        hub,
        agents,
        ClusterSources(memory.context),
        ClusterSourceReconciler(memory.context, clusters, hub, deliveries),
        DeliveryCleanUp(memory.context, hub),
        BootstrapTokens(memory.context),
    )
