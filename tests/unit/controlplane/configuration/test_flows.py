"""Operations on configuration flow: exports, imports, and who is rendered again."""

from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Actor, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.configuration.model.flow import (
    MAX_NAMES,
    Export,
    Import,
    ImportedValue,
    ServiceExport,
    ServiceImport,
    ValueType,
    check_export,
    check_type,
)
from controlplane.configuration.operations import service_graph
from controlplane.configuration.operations.flows import ConfigurationFlow
from controlplane.configuration.operations.imports import (
    check_not_imported,
    delete_flow,
    downstream,
    flow_values,
    graph_of,
    upstream,
)
from controlplane.configuration.operations.service_graph import ServiceEdgeKind
from controlplane.configuration.ports import ServiceExportStore, ServiceImportStore
from controlplane.platform.context import RENDER_SERVICES, SERVICE
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated
from tests.fakes.actors import EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

TEXT = ValueType.TEXT
DEV, FLEET = make_cluster("dev"), make_repository("fleet")
DB, API, WEB = (
    make_service(name, DEV, repository_id=FLEET.id, input_digest="x")
    for name in ("db", "api", "web")
)
HOST = Export("host", "db.local")
USES_HOST = Import("host", DB.id, "host")
URL = Export("url", "http://${imports.host}")
USES_URL = Import("url", API.id, "url")
FROZEN = ClusterGroup("f", "f", START, START, cluster_ids=("dev",), frozen=True)


@pytest.fixture
async def world() -> MemoryOperations:
    """`web` imports from `api`, which imports from `db`."""
    world = operations_over_memory()
    await world.given(
        DEV,
        FLEET,
        DB,
        API,
        WEB,
        ServiceExport("e1", DB.id, Export("host", "db.local")),
        ServiceExport("e2", API.id, Export("url", URL.value)),
        ServiceImport("i1", API.id, Import("host", DB.id, "host")),
        ServiceImport("i2", WEB.id, Import("url", API.id, "url")),
    )
    return world


@pytest.fixture
def flow(world: MemoryOperations) -> ConfigurationFlow:
    return ConfigurationFlow(world.context)


async def stale(world: MemoryOperations) -> set[str]:
    rows = await world.rows(ServiceStore)
    return {row.name for row in rows if row.desired.input_digest is None}


async def check_nothing_happened(world: MemoryOperations) -> None:
    assert len(await world.rows(ServiceExportStore)) == 2
    assert len(await world.rows(ServiceImportStore)) == 2
    assert await world.audited() == [] and world.published == []
    assert await world.ledger() == [] and await stale(world) == set()


async def test_a_service_shows_its_values_and_their_origin(flow: ConfigurationFlow) -> None:
    view = await flow.get(VIEWER, WEB.id)
    assert (view.service, view.exports, view.imports) == (WEB, (), (USES_URL,))
    assert view.values == {"url": ImportedValue("http://db.local", ("dev/api.url", "dev/db.host"))}
    assert view.problem == ""
    source = await flow.get(VIEWER, DB.id)
    assert (source.exports, source.imports, source.values) == ((HOST,), (), {})


async def test_only_those_who_may_read_and_change_a_flow(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    for actor, error in ((ANONYMOUS, Unauthenticated), (NOBODY, NotFound)):
        for read in (flow.get, flow.affected):
            with pytest.raises(error):
                await read(actor, DB.id)
    refusals: list[tuple[Actor, str, type[Exception]]] = [
        (ANONYMOUS, DB.id, Unauthenticated),
        (NOBODY, DB.id, NotFound),
        (VIEWER, DB.id, Forbidden),
        (EDITOR, "none", NotFound),
    ]
    for actor, id, error in refusals:
        with pytest.raises(error):
            await flow.save(actor, id, [HOST], None)
    await check_nothing_happened(world)
    await world.given(FROZEN)
    with pytest.raises(Conflict, match="frozen"):
        await flow.save(EDITOR, DB.id, [HOST], None)
    await check_nothing_happened(world)


async def test_the_graph_has_imports_and_dependencies_that_a_user_may_see(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    secret = make_service("secret", DEV, project_id="other", dependencies=("db",))
    queue = make_service("queue", DEV)
    job = make_service("job", DEV, dependencies=("db", "gone", "secret", "queue"))
    lone = make_service("lone", DEV)
    await world.given(Project("other", "other", START, START), secret, queue, job, lone)
    edges = {
        (DB.id, API.id, ServiceEdgeKind.IMPORT, "host"),
        (API.id, WEB.id, ServiceEdgeKind.IMPORT, "url"),
        (DB.id, job.id, ServiceEdgeKind.DEPENDENCY, ""),
        (queue.id, job.id, ServiceEdgeKind.DEPENDENCY, ""),
    }
    hidden = {
        (DB.id, secret.id, ServiceEdgeKind.DEPENDENCY, ""),
        (secret.id, job.id, ServiceEdgeKind.DEPENDENCY, ""),
    }
    reader = person(BuiltInRole.VIEWER, "rea", Scope(f"project:{DEFAULT_PROJECT}"))
    for actor, found in ((VIEWER, edges | hidden), (reader, edges), (NOBODY, set())):
        graph = await flow.graph(actor)
        shown = {(edge.source_id, edge.target_id, edge.kind, edge.label) for edge in graph.edges}
        assert (shown, graph.complete) == (found, True)
        assert {row.id for row in graph.services} == {id for edge in found for id in edge[:2]}
    with pytest.raises(Unauthenticated):
        await flow.graph(ANONYMOUS)


async def test_a_large_graph_is_cut(
    flow: ConfigurationFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_graph, "MAX_EDGES", 1)
    graph = await flow.graph(VIEWER)
    assert (len(graph.edges), len(graph.services), graph.complete) == (1, 2, False)


async def test_a_graph_has_the_imports_of_all_pages(
    flow: ConfigurationFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_graph, "MAX_PAGE_ROWS", 1)
    graph = await flow.graph(VIEWER)
    assert [edge.label for edge in graph.edges] == ["host", "url"]
    assert graph.complete


async def test_importers_are_listed_in_rollout_order(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    other = make_service("other", DEV)
    await world.given(other, ServiceImport("i3", WEB.id, Import("x", other.id, "x", "default")))
    assert [service.name for service in await flow.affected(VIEWER, DB.id)] == ["api", "web"]
    assert await flow.affected(VIEWER, WEB.id) == []
    only_web = person(BuiltInRole.VIEWER, "wi", Scope(f"service:{WEB.id}"))
    assert await flow.affected(only_web, WEB.id) == []
    both = person(BuiltInRole.VIEWER, "bo", Scope(f"service:{DB.id}"))
    assert await flow.affected(both, DB.id) == []


async def test_a_changed_export_renders_its_importers_in_their_order(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    view = await flow.save(EDITOR, DB.id, [Export("host", "db2")], None)
    assert [export.value for export in view.exports] == ["db2"]
    assert (await flow.get(VIEWER, WEB.id)).values["url"].value == "http://db2"
    assert await stale(world) == {"api", "web"}
    assert world.published == [
        (SERVICE, DB.id),
        (RENDER_SERVICES, f"fleet/{API.id}"),
        (RENDER_SERVICES, f"fleet/{WEB.id}"),
    ]
    assert await world.audited() == [("ed@example.org", "saveServiceFlow", "db")]
    (entry,) = await world.ledger()
    assert (entry.stage, entry.message) == (LedgerStage.CONFIGURED, "exports, imports")


async def test_an_unchanged_value_renders_nothing(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    await flow.save(EDITOR, DB.id, [HOST, Export("port", 1, ValueType.NUMBER)], None)
    assert await stale(world) == set()
    assert world.published == [(SERVICE, DB.id)]
    await flow.save(EDITOR, API.id, None, None)
    assert len(await world.rows(ServiceImportStore)) == 2


async def test_changed_imports_render_the_service_itself(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    bare = make_service("bare", DEV, input_digest="x")
    plain = make_service("plain", DEV, input_digest="x", templated=False)
    await world.given(bare, plain)
    for service in (bare, plain):
        await flow.save(EDITOR, service.id, None, [USES_HOST])
    assert await stale(world) == {"bare", "plain"}
    assert world.published == [(SERVICE, bare.id), (SERVICE, plain.id)]
    view = await flow.save(EDITOR, bare.id, None, [])
    assert (view.imports, view.values) == ((), {})


@pytest.mark.parametrize(
    ("exports", "imports", "field"),
    [
        ([Export(f"e{n}", "") for n in range(MAX_NAMES + 1)], None, "exports"),
        ([HOST, HOST], None, "exports"),
        ([Export("1x", "")], None, "exports.name"),
        ([Export("x" * 64, "")], None, "exports.name"),
        ([Export("x", 1)], None, "exports.value"),
        ([Export("x", True, ValueType.NUMBER)], None, "exports.value"),
        ([Export("x", "x" * 65_537)], None, "exports.value"),
        (None, [Import(f"i{n}", DB.id, "host") for n in range(MAX_NAMES + 1)], "imports"),
        (None, [USES_HOST, USES_HOST], "imports"),
        (None, [Import("a-b", DB.id, "host")], "imports.alias"),
        (None, [Import("x", DB.id, "none")], "imports.export"),
    ],
)
async def test_an_invalid_value_is_named(
    world: MemoryOperations,
    flow: ConfigurationFlow,
    exports: list[Export] | None,
    imports: list[Import] | None,
    field: str,
) -> None:
    with pytest.raises(Invalid) as error:
        await flow.save(EDITOR, WEB.id, exports, imports)
    assert error.value.field == field
    await check_nothing_happened(world)


async def test_names_and_values_at_their_limits_are_accepted(flow: ConfigurationFlow) -> None:
    exports = [Export(f"{'e' * 60}{n:03}", "x" * 65_536) for n in range(MAX_NAMES)]
    assert len((await flow.save(EDITOR, WEB.id, exports, None)).exports) == MAX_NAMES


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def test_values_nest_at_most_16_levels() -> None:
    check_type("x", ValueType.LIST, nested(16), "v")
    with pytest.raises(Invalid, match="at most 16 levels, not 17"):
        check_type("x", ValueType.LIST, nested(17), "v")
    check_type("x", ValueType.OBJECT, {"k": {"a": 1}}, "v")
    with pytest.raises(Invalid, match="at most .* characters"):
        check_type("x", ValueType.OBJECT, {"k" * 65_536: "x"}, "v")
    reference = Export("x", "${imports.port}", ValueType.NUMBER)
    assert check_export(reference) is reference


async def test_imports_must_not_form_a_cycle(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    with pytest.raises(Conflict, match="form a cycle: dev/db → dev/web → dev/api → dev/db"):
        await flow.save(EDITOR, DB.id, None, [Import("x", WEB.id, "none", "default")])
    await check_nothing_happened(world)


async def test_an_export_in_use_stays(world: MemoryOperations, flow: ConfigurationFlow) -> None:
    with pytest.raises(Conflict, match="api import host from service 'db': change them first"):
        await flow.save(EDITOR, DB.id, [], None)
    async with world.store.read() as tx:
        with pytest.raises(Conflict, match="web import url from service 'api'"):
            await check_not_imported(tx, API)
        await check_not_imported(tx, WEB)
    await check_nothing_happened(world)
    await flow.save(EDITOR, API.id, None, [Import("host", DB.id, "host", "fallback")])
    async with world.store.read() as tx:
        await check_not_imported(tx, DB)
    await flow.save(EDITOR, DB.id, [], None)
    assert (await flow.get(VIEWER, API.id)).values == {
        "host": ImportedValue("fallback", ("default",))
    }


async def test_another_project_imports_only_shared_exports(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    cluster = make_cluster("shop", project_id="shop")
    other = make_service("other", cluster, project_id="shop")
    await world.given(Project("shop", "shop", START, START), cluster, other)
    with pytest.raises(Invalid, match="'db' does not share host with other projects"):
        await flow.save(EDITOR, other.id, None, [USES_HOST])
    blind = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
    for source in (DB.id, "none"):
        with pytest.raises(NotFound):
            await flow.save(blind, other.id, None, [Import("host", source, "host", "x")])
    await flow.save(EDITOR, DB.id, [Export("host", "h", shared=True)], None)
    view = await flow.save(EDITOR, other.id, None, [USES_HOST])
    assert view.values["host"].value == "h"


async def test_imports_change_beside_one_whose_source_is_gone(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    """Programs such as Terraform send the whole list again; its default is in use."""
    former = Import("former", API.id, "url", "none")
    await flow.save(EDITOR, WEB.id, None, [former])
    async with world.store.write() as tx:
        await tx[ServiceStore].change(API.id, deleted_at=START)
    view = await flow.save(EDITOR, WEB.id, None, [former, USES_HOST])
    assert {alias: value.value for alias, value in view.values.items()} == {
        "former": "none", "host": "db.local",
    }  # fmt: skip
    with pytest.raises(NotFound, match=f'imports.sourceId: service "{API.id}" does not exist'):
        await flow.save(EDITOR, WEB.id, None, [Import("other", API.id, "url", "none")])
    assert (await flow.get(EDITOR, WEB.id)).imports == view.imports


async def test_a_cycle_of_concurrent_changes_is_a_problem_of_its_services(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    await world.given(ServiceImport("i3", DB.id, Import("x", WEB.id, "x")))
    view = await flow.get(VIEWER, DB.id)
    assert (view.values, view.problem) == ({}, "imports: the imports form a cycle")
    async with world.store.read() as tx:
        values, problems = await flow_values(tx, [WEB.id])
        assert await flow_values(tx, []) == ({}, {})
        assert await graph_of(tx, []) == {}
    assert values == {} and problems == {WEB.id: "imports: the imports form a cycle"}


async def test_values_are_read_for_the_asked_services_only(world: MemoryOperations) -> None:
    async with world.store.write() as tx:
        await tx[ServiceExportStore].remove("e1")
    async with world.store.read() as tx:
        values, problems = await flow_values(tx, [WEB.id])
    assert values == {WEB.id: {}}
    reason = "import url: dev/api.url has no value because one of its own imports is missing"
    assert problems == {WEB.id: reason}


async def test_a_cycle_of_concurrent_changes_is_ended_by_a_change(
    world: MemoryOperations, flow: ConfigurationFlow
) -> None:
    """All services get their values again."""
    await world.given(ServiceImport("i3", DB.id, Import("x", WEB.id, "x")))
    view = await flow.save(EDITOR, DB.id, None, [])
    assert (view.imports, view.problem) == ((), "")
    assert (await flow.get(VIEWER, WEB.id)).values["url"].value == "http://db.local"
    assert await stale(world) == {"db", "api", "web"}


async def test_a_flow_connects_at_most_5000_services(world: MemoryOperations) -> None:
    async with world.store.read() as tx:
        for connected in (upstream, downstream):
            assert len(await connected(tx, [str(n) for n in range(5_000)])) == 5_000
            with pytest.raises(LimitExceeded, match="more than 5,000 services"):
                await connected(tx, [str(n) for n in range(5_001)])


async def test_the_flow_of_a_deleted_service_goes(world: MemoryOperations) -> None:
    async with world.store.write() as tx:
        await delete_flow(tx, API.id)
    assert [row.id for row in await world.rows(ServiceExportStore)] == ["e1"]
    assert [row.id for row in await world.rows(ServiceImportStore)] == ["i2"]
    async with world.store.read() as tx:
        values, problems = await flow_values(tx, [WEB.id])
    assert values == {WEB.id: {}}
    assert problems == {WEB.id: "import url: dev/api.url is not exported"}


@pytest.mark.parametrize(
    ("default", "message"),
    [
        ("x" * 65_537, "host must have at most 65,536 characters, not 65,537"),
        (["x" * 70_000], "at most 65,536 characters"),
        ([[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]], "at most 16 levels"),
    ],
)
async def test_the_default_of_an_import_has_the_limits_of_an_export(
    world: MemoryOperations, flow: ConfigurationFlow, default: Any, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await flow.save(EDITOR, API.id, None, [Import("host", DB.id, "none", default)])
    await check_nothing_happened(world)
    await flow.save(EDITOR, API.id, None, [Import("host", DB.id, "none", "x" * 65_536)])
