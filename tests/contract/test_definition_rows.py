"""Definitions for many clusters, kept and found the same on both databases."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.authorization import DEFAULT_PROJECT, Scope
from controlplane.clusters.model.cluster import Distribution
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.ports import ClusterGroupStore
from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace, NamespaceSpec
from controlplane.generators.model.service_set import (
    Generator,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
)
from controlplane.generators.ports import (
    GlobalOverrideStore,
    GlobalServiceStore,
    ManagedNamespaceStore,
    ServiceSetStore,
)
from controlplane.platform.ports import PageQuery, Store
from controlplane.services.model.service import ServiceSpec
from controlplane.services.model.templates import ServiceTemplate, TemplateOverride
from core.errors import Conflict
from core.spec.renderers import HELM
from core.spec.sync import SyncOptions

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
SELECTOR = Selector({"tier": "prod"}, Distribution.EKS, "p", ("g",), ("c1", "c2"))
TEMPLATE = ServiceTemplate(
    "web",
    "shop",
    "repository",
    ServiceSpec(
        "v1",
        "deploy",
        HELM,
        helm={"chart": "x", "values_files": ["a.yaml"]},
        configuration={"a": "1"},
        options=SyncOptions(keep_on_prune=True),
        dependencies=("db",),
    ),
)
ROWS: dict[type[Any], Any] = {
    GlobalServiceStore: GlobalService(
        "1", "a", NOW, NOW, "p", SELECTOR, LeavePolicy.DELETE, budget=3, template=TEMPLATE
    ),
    ServiceSetStore: ServiceSet(
        "1",
        "a",
        NOW,
        NOW,
        selector=SELECTOR,
        template=TEMPLATE,
        generator=Generator(
            GitFolderGenerator("r", "main", "apps/*", ("apps/x",)),
            ({"tenant": "red"}, {}),
            PullRequestGenerator("r", ("preview",), 5, 24, "main", "gitea"),
        ),
    ),
    ManagedNamespaceStore: ManagedNamespace(
        "1", "a", NOW, NOW, spec=NamespaceSpec("team", {"a": "b"}, quota={"pods": "1"})
    ),
    ClusterGroupStore: ClusterGroup(
        "1", "a", NOW, NOW, None, "text", {"a": "b"}, ("c1",), True, "why", "ann", NOW
    ),
}


@pytest.mark.parametrize("port", ROWS)
async def test_a_row_comes_back_as_it_was_and_its_name_is_had_once(
    store: Store, port: type[Any]
) -> None:
    row = ROWS[port]
    async with store.write() as tx:
        await tx[port].add(row)
    with pytest.raises(Conflict):
        async with store.write() as tx:
            await tx[port].add(replace(row, id="2"))
    async with store.read() as tx:
        assert await tx[port].find(name="a") == row


async def test_one_patch_a_cluster(store: Store) -> None:
    patch = TemplateOverride(ref="v2", configuration={"a": None, "b": "2"}, options=SyncOptions())
    row = GlobalOverride("1", "1", "c1", NOW, NOW, patch, "ann@example.org")
    async with store.write() as tx:
        await tx[GlobalServiceStore].add(ROWS[GlobalServiceStore])
        await tx[GlobalOverrideStore].add(row)
    with pytest.raises(Conflict):
        async with store.write() as tx:
            await tx[GlobalOverrideStore].add(replace(row, id="2"))
    async with store.read() as tx:
        assert await tx[GlobalOverrideStore].of_cluster("1", "c1") == row


@pytest.mark.parametrize(
    ("scopes", "shown"),
    [
        ((), {"of all", "of p"}),
        (("project:p",), {"of p"}),
        ((f"project:{DEFAULT_PROJECT}",), set()),
        (("cluster:c1",), set()),
    ],
)
async def test_without_a_project_it_is_of_the_whole_installation(
    store: Store, scopes: tuple[str, ...], shown: set[str]
) -> None:
    """Not of the default project, whose people do not write everywhere."""
    row = replace(ROWS[GlobalServiceStore], id="1", name="of p")
    async with store.write() as tx:
        await tx[GlobalServiceStore].add(row)
        await tx[GlobalServiceStore].add(replace(row, id="2", name="of all", project_id=None))
    visible = (frozenset(Scope(one) for one in scopes),) if scopes else ()
    async with store.read() as tx:
        page = await tx[GlobalServiceStore].page(PageQuery(visible=visible))
    assert {one.name for one in page.items} == shown
