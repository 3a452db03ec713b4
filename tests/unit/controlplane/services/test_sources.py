"""Additional sources of services, and Helm repositories as sources."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import DEFAULT_PROJECT, Actor, Scope, Verb
from controlplane.authorization.roles import BuiltInRole
from controlplane.bridges import SERVICE_PARTS
from controlplane.platform.context import RENDER_SERVICES
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.service import Service, ServiceSource
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.source_repositories import (
    resolve_chart_source,
    resolve_helm_repository,
    resolve_template_source,
    with_chart_ref,
)
from controlplane.services.operations.sources import (
    RenderSources,
    SourceChange,
    mark_source_users_for_render,
    resolve_sources,
    set_sources,
    source_trees,
    sources_of,
    store_source_commits,
)
from controlplane.services.ports import ServiceSourceStore, ServiceStore
from core.errors import Forbidden, Invalid, NotFound, TowlineError, Unavailable
from core.identity import RepositoryId
from core.spec.renderers import chart_ref
from core.spec.source import RepositoryKind, RepositorySpec, SourceFolder
from tests.fakes.actors import EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEV = make_cluster("dev")
FLEET, LIBRARY = make_repository("fleet"), make_repository("library")
CHARTS = make_repository(
    "charts", kind=RepositoryKind.HELM, url="https://charts.example.org/stable"
)
SECOND = make_repository("second", kind=RepositoryKind.HELM, url="oci://registry.example.org/x")
WEB = make_service("web", DEV, repository_id=FLEET.id, input_digest="sha256:in")
CHART = {"chart": "nginx", "version": "1.x"}
REF = chart_ref("nginx", "1.x")
VIEWER_OF_DEV = person(BuiltInRole.VIEWER, "di", Scope("cluster:dev"))


def source(id: str, service: Service = WEB, **fields: Any) -> ServiceSource:
    made = ServiceSource(id, service.id, LIBRARY.id, 0, "main", "lib", "")
    return replace(made, **fields)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(DEV, FLEET, LIBRARY, CHARTS, SECOND, WEB)
    return world


async def replaced(world: MemoryOperations, actor: Actor, *given: SourceChange) -> bool:
    async with world.context.change(actor, "updateServiceDeployment") as tx:
        tx.authorize(Verb.READ, WEB.target)
        is_changed = await set_sources(tx, WEB, given)
        tx.audit(WEB.name, WEB.id)
    return is_changed


async def test_sources_are_replaced_in_their_order(world: MemoryOperations) -> None:
    first = SourceChange(LIBRARY.id, "v1", "/a/", "./b")
    second = SourceChange(LIBRARY.id)
    assert await replaced(world, EDITOR, first, second)
    rows = sorted(await world.rows(ServiceSourceStore), key=lambda row: row.place)
    assert [(row.ref, row.folder, row.path) for row in rows] == [("v1", "a", "b"), ("main", "", "")]
    assert not await replaced(world, EDITOR, first, second)
    assert sorted(await world.rows(ServiceSourceStore), key=lambda row: row.place) == rows
    assert await replaced(world, EDITOR, second, first)
    async with world.store.read() as tx:
        found = await sources_of(tx, [WEB.id, "none"])
        assert await sources_of(tx, []) == {}
    assert [row.ref for row in found[WEB.id]] == ["main", "v1"]
    assert await replaced(world, EDITOR)
    assert await world.rows(ServiceSourceStore) == []


@pytest.mark.parametrize(
    ("actor", "given", "error"),
    [
        (EDITOR, SourceChange("none"), NotFound),
        (NOBODY, SourceChange("library"), NotFound),
        (VIEWER_OF_DEV, SourceChange("library"), NotFound),
        (EDITOR, SourceChange("library", "-x"), Invalid),
        (EDITOR, SourceChange("library", folder=".."), Invalid),
        (EDITOR, SourceChange("library", path=".."), Invalid),
    ],
)
async def test_an_unusable_source_keeps_the_present_ones(
    world: MemoryOperations, actor: Actor, given: SourceChange, error: type[Exception]
) -> None:
    await world.given(source("f"))
    with pytest.raises(error):
        await replaced(world, actor, SourceChange(FLEET.id), given)
    assert await world.rows(ServiceSourceStore) == [source("f")]


async def test_a_chart_has_no_further_sources(world: MemoryOperations) -> None:
    bare = make_service("bare", DEV)
    async with world.context.change(EDITOR, "updateServiceDeployment") as tx:
        with pytest.raises(Invalid, match="require a service with its own repository"):
            await set_sources(tx, bare, [SourceChange(LIBRARY.id)])
        assert not await set_sources(tx, bare, [])


async def test_sources_are_rendered_at_their_newest_or_last_commit(
    world: MemoryOperations,
) -> None:
    world.manifests.follow(RepositorySpec(LIBRARY.id, LIBRARY.url, frozenset({"main"})))
    old = world.manifests.push("library", {"lib": [config_map("a")]})
    new = world.manifests.push("library", {"lib": [config_map("b")]})
    rows = [source("f", sha=old), source("g", path="x")]
    await world.given(*rows)
    newest = resolve_sources(world.context, rows)
    assert newest.folders == (
        SourceFolder(LIBRARY.id, new, "lib", ""),
        SourceFolder(LIBRARY.id, new, "lib", "x"),
    )
    rendered = resolve_sources(world.context, rows, as_rendered=True)
    assert [folder.commit for folder in rendered.folders] == [old, new]
    trees = await source_trees(world.context, newest)
    assert trees["f"] == trees["g"] != ""
    async with world.store.write() as tx:
        await store_source_commits(tx, newest, {"f": trees["f"]})
    row = await world.row(ServiceSourceStore, "f")
    assert row == replace(rows[0], sha=new, tree=trees["f"])
    assert await world.row(ServiceSourceStore, "g") == replace(rows[1], sha=new, tree="")
    lost = RenderSources((SourceFolder(LIBRARY.id, new, "lost", ""),), (rows[0],))
    assert await source_trees(world.context, lost) == {"f": ""}


async def test_a_source_without_a_commit_says_why(world: MemoryOperations) -> None:
    with pytest.raises(Unavailable, match="no commit of 'main': it may not exist"):
        resolve_sources(world.context, [source("f")])
    world.manifests.follow(RepositorySpec(LIBRARY.id, LIBRARY.url, frozenset({"main"})))
    with pytest.raises(Unavailable, match=r"source '\.': .*it may not exist"):
        resolve_sources(world.context, [source("f", folder="")])
    world.manifests.error = "access denied"
    with pytest.raises(Unavailable, match="no commit of 'main': access denied"):
        resolve_sources(world.context, [source("f")])


async def test_a_moved_source_renders_the_services_that_follow_their_refs(
    world: MemoryOperations,
) -> None:
    world.manifests.push("library", {"lib": [config_map("a")], "gone": []})
    tree = (await world.manifests.trees(LIBRARY.id, _head(world), ["lib"]))["lib"] or ""
    pinned = make_service("pin", DEV, repository_id=FLEET.id, pinned_sha="a", input_digest="x")
    promoted = make_service("pro", DEV, repository_id=FLEET.id, promoted=True, input_digest="x")
    same = make_service("same", DEV, repository_id=FLEET.id, input_digest="x")
    await world.given(pinned, promoted, same)
    rows = [
        source("1", tree="old"),
        source("2", pinned, tree="old"),
        source("3", promoted, tree="old"),
        source("4", same, tree=tree),
        source("5", same, folder="absent", tree=""),
        source("6", same, ref="other", tree="old"),
    ]
    commits = {"main": world.manifests.heads["library"]["main"]}
    await mark_source_users_for_render(world.context, RepositoryId("library"), commits, rows)
    services = await world.rows(ServiceStore)
    assert {row.name for row in services if row.desired.input_digest is None} == {"web"}
    assert world.published == [(RENDER_SERVICES, f"fleet/{WEB.id}")]
    await mark_source_users_for_render(world.context, RepositoryId("library"), commits, rows[3:])
    assert len(world.published) == 1


def _head(world: MemoryOperations) -> str:
    return world.manifests.heads["library"]["main"].sha


@pytest.mark.parametrize(
    ("repository_id", "helm", "columns"),
    [
        ("fleet", None, {}),
        (None, {"chart": "nginx"}, {}),
        ("fleet", {"chart": "nginx", "url": CHARTS.url}, {}),
        ("fleet", CHART | {"repository_id": "charts"}, {"helm": CHART | {"url": CHARTS.url}}),
        (None, CHART | {"repository_id": "charts"},
         {"repository_id": "charts", "helm": CHART, "ref": REF, "folder": ""}),
        ("charts", CHART | {"repository_id": "charts"},
         {"repository_id": "charts", "helm": CHART, "ref": REF, "folder": ""}),
        (None, CHART | {"url": CHARTS.url},
         {"repository_id": "charts", "helm": CHART, "ref": REF, "folder": ""}),
    ],
)  # fmt: skip
async def test_helm_settings_name_a_repository_by_id_or_url(
    world: MemoryOperations,
    repository_id: str | None,
    helm: Mapping[str, Any] | None,
    columns: dict[str, Any],
) -> None:
    async with world.context.change(EDITOR, "createServiceDeployment") as tx:
        given = {"repository_id": repository_id, "helm": helm}
        found = await resolve_chart_source(tx, DEFAULT_PROJECT, **given)
        of_template = await resolve_template_source(tx, EDITOR, repository_id, helm)
    assert found == of_template == columns
    assert await world.audited() == []


@pytest.mark.parametrize(
    ("actor", "helm", "error"),
    [
        (EDITOR, CHART | {"repository_id": "none"}, NotFound),
        (EDITOR, CHART | {"repository_id": "fleet"}, NotFound),
        (NOBODY, CHART | {"repository_id": "charts"}, NotFound),
        (NOBODY, CHART | {"url": CHARTS.url}, NotFound),
        (EDITOR, CHART | {"url": FLEET.url}, Invalid),
        (NOBODY, CHART | {"url": FLEET.url}, NotFound),
        (EDITOR, {"url": CHARTS.url}, Invalid),
        (EDITOR, {"repository_id": "charts"}, Invalid),
    ],
)
async def test_an_unusable_helm_repository_is_refused(
    world: MemoryOperations, actor: Actor, helm: Mapping[str, Any], error: type[TowlineError]
) -> None:
    async with world.context.change(actor, "createServiceDeployment") as tx:
        with pytest.raises(error):
            await resolve_chart_source(tx, DEFAULT_PROJECT, repository_id=None, helm=helm)
        with pytest.raises(error):
            await resolve_template_source(tx, actor, None, helm)


async def test_a_chart_registry_has_one_url(world: MemoryOperations) -> None:
    """As repositories are stored: hosts in lower case, and no slash at the end."""
    helm = CHART | {"url": "oci://Registry.example.org/charts/"}
    async with world.context.change(EDITOR, "createServiceDeployment") as tx:
        tx.authorized_by("the service that uses it")
        first = await resolve_chart_source(tx, DEFAULT_PROJECT, repository_id=None, helm=helm)
        again = await resolve_template_source(tx, EDITOR, None, helm)
    assert first == again
    (made,) = await world.rows(RepositoryStore, id=first["repository_id"])
    assert made.url == "oci://registry.example.org/charts"


async def test_an_unknown_url_creates_a_helm_repository_in_the_project(
    world: MemoryOperations,
) -> None:
    await world.given(Project("shop", "shop", START, START))
    editor = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
    helm = CHART | {"url": "https://new.example.org/charts"}
    async with world.context.change(editor, "createServiceDeployment") as tx:
        tx.authorized_by("the service that uses it")
        found = await resolve_chart_source(tx, "shop", repository_id=None, helm=helm)
    (made,) = await world.rows(RepositoryStore, url="https://new.example.org/charts")
    assert (made.id, made.kind, made.project_id) == (
        found["repository_id"],
        RepositoryKind.HELM,
        "shop",
    )
    assert await world.audited() == [
        ("sue@example.org", "createHelmRepository", "https://new.example.org/charts")
    ]


@pytest.mark.parametrize(
    ("actor", "url", "error"),
    [
        (VIEWER, "https://new.example.org/charts", Forbidden),
        (EDITOR, "ssh://git@new.example.org/x", Invalid),
    ],
)
async def test_an_unknown_url_needs_the_permission_and_the_right_form(
    world: MemoryOperations, actor: Actor, url: str, error: type[Exception]
) -> None:
    helm = CHART | {"url": url}
    with pytest.raises(error, match=r"no Helm repository has the URL|https://… or oci://…"):
        async with world.context.change(actor, "createServiceDeployment") as tx:
            await resolve_chart_source(tx, DEFAULT_PROJECT, repository_id=None, helm=helm)
    async with world.store.read() as tx:
        with pytest.raises(Invalid, match="create it first"):
            await resolve_template_source(tx, EDITOR, None, helm)
    assert len(await world.rows(RepositoryStore)) == 4


@pytest.mark.parametrize(
    ("repository_id", "columns", "after"),
    [
        (None, {"ref": "v1", "folder": "x"}, {"ref": "v1", "folder": "x"}),
        ("fleet", {"ref": "v1", "folder": "x"}, {"ref": "v1", "folder": "x"}),
        ("charts", {"ref": "v1", "folder": "", "dry_run": True}, {"dry_run": True}),
        ("charts", {"helm": CHART, "folder": ""}, {"helm": CHART, "folder": "", "ref": REF}),
        ("charts", {"helm": CHART | {"url": CHARTS.url}}, {"helm": CHART, "ref": REF}),
    ],
)
async def test_the_ref_of_a_chart_follows_from_its_settings(
    world: MemoryOperations,
    repository_id: str | None,
    columns: dict[str, Any],
    after: dict[str, Any],
) -> None:
    async with world.store.read() as tx:
        assert await with_chart_ref(tx, repository_id, columns) == after


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"rendered_by": "dev"}, "renderedBy: agents render only folders"),
        ({"folder": "x"}, "uses a Helm repository: remove folder"),
        ({"kustomize_path": "k"}, "uses a Helm repository: remove kustomize_path"),
        ({"helm": CHART | {"url": SECOND.url}}, "helm: .*cannot be changed"),
        ({"helm": {}}, "helm.chart: is required"),
    ],
)
async def test_a_chart_refuses_settings_of_git(
    world: MemoryOperations, columns: dict[str, Any], message: str
) -> None:
    async with world.store.read() as tx:
        with pytest.raises(Invalid, match=message):
            await with_chart_ref(tx, "charts", columns)


async def test_a_service_is_created_from_a_chart_and_keeps_its_repository(
    world: MemoryOperations,
) -> None:
    services = Services(world.context, SERVICE_PARTS)
    change = ServiceChange("nginx", "nginx", helm=CHART | {"url": CHARTS.url})
    made = await services.create(EDITOR, "dev", None, change)
    assert (made.repository_id, made.spec.ref, made.spec.helm) == ("charts", REF, CHART)
    newer = await services.update(EDITOR, made.id, ServiceChange(helm=CHART | {"version": "2.x"}))
    assert newer.spec.ref == chart_ref("nginx", "2.x")
    async with world.store.read() as tx:
        assert await resolve_helm_repository(tx, EDITOR, "charts", None) == {}
