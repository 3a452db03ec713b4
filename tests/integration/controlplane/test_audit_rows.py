"""Every mutation of the schema leaves one row in the audit trail, and a refused one as well."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.api.schema import schema
from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.audit.ports import AuditLog
from controlplane.authorization import ANONYMOUS, SYSTEM, Actor
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from controlplane.platform.graphql.context import Context
from controlplane.platform.ports import PageQuery
from tests.fakes.clock import FakeClock
from tests.integration.controlplane.audit_cases import CALLER, CASES
from tests.integration.controlplane.matrix import document_of, operations
from tests.integration.controlplane.stage import Stage, staged

# They copy one stage.
pytestmark = pytest.mark.xdist_group("stage")
# It changes nothing that others see: the caller opens one WebSocket with it, within a minute.
UNAUDITED = frozenset({"createTicket"})
MUTATIONS = [name for kind, name in operations() if kind == "mutation" and name not in UNAUDITED]
# The same operation under its general name.
ACTIONS = {"updateRbac": "setBindings"}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as found:
        yield found


async def rows_of(stage: Stage, name: str, actor: Actor) -> tuple[list[AuditEntry], str | None]:
    """The audit rows that a mutation would leave, and the code if it fails; nothing is kept."""
    before = await newest(stage)
    stage.store.rows.clear()
    _, code = await stage.ask(document_of("mutation", name, stage), actor)
    await stage.plane.operations[AuditLogOperations].flush()
    assert await newest(stage) == before
    return list(stage.store.rows), code


async def newest(stage: Stage) -> str | None:
    async with stage.store.read() as tx:
        page = await tx[AuditLog].search(AuditFilter(), PageQuery(1, newest=True))
    return str(page.items[0].id) if page.items else None


async def outcome(stage: Stage, name: str) -> tuple[str | None, list[tuple[str, str]]]:
    """The code of the error, if any, and the rows on the change with their actor."""
    caller = stage.callers[CALLER]
    rows, code = await rows_of(stage, name, caller)
    made = [row for row in rows if row.verdict is AuditVerdict.ALLOWED]
    return code, [(row.action, row.actor) for row in made]


async def test_every_mutation_leaves_one_row(stage: Stage) -> None:
    """Those that change nothing on this stage have a case of their own, below."""
    wrong = {}
    for name in (name for name in MUTATIONS if name not in CASES):
        code, made = await outcome(stage, name)
        if len(made) != 1 or not made[0][1]:
            wrong[name] = code, made
    assert wrong == {}, "mend these, or add their preparation to CASES"


@pytest.mark.parametrize("name", CASES)
async def test_a_mutation_leaves_one_row_once_there_is_something_to_change(
    stage: Stage, name: str
) -> None:
    code, made = await outcome(stage, name)
    assert made == [], "this mutation needs no preparation: remove it from CASES"
    with stage.store.kept():
        await CASES[name](stage)
    code, made = await outcome(stage, name)
    assert (code, made) == (None, [(ACTIONS.get(name, name), stage.callers[CALLER].email)])


async def test_every_refused_mutation_leaves_one_row(stage: Stage) -> None:
    """Users without a role here get Forbidden or NotFound."""
    clock = stage.plane.context.clock
    assert isinstance(clock, FakeClock)
    wrong, seen = {}, 0
    for name in MUTATIONS:
        await clock.advance(61)
        rows, code = await rows_of(stage, name, stage.callers["member"])
        if code not in ("FORBIDDEN", "NOT_FOUND"):
            continue
        seen += 1
        verdicts = [(row.action, row.verdict) for row in rows]
        if verdicts != [(name, AuditVerdict.REFUSED)]:
            wrong[name] = verdicts
    assert wrong == {}
    assert seen > 40


REFUSED_CALLS = {
    "an ID": ('mutation { deleteCluster(id: "%s") { id } }', ["deleteCluster"]),
    "an alias": ('mutation { gone: deleteCluster(id: "%s") { id } }', ["deleteCluster"]),
    "a variable": ("mutation($x: ID!) { deleteCluster(id: $x) { id } }", ["deleteCluster"]),
    "another name of the argument": (
        'mutation { upgradeAgent(version: "1", image: "x", clusterId: "%s") { id } }',
        ["upgradeAgent"],
    ),
    "two": (
        'mutation { a: deleteCluster(id: "%s") { id } b: detachCluster(id: "%s") { id } }',
        ["deleteCluster", "detachCluster"],
    ),
    "a query": ('{ whoCan(verb: READ, kind: CLUSTER, id: "%s") { user { id } } }', []),
}


async def test_a_refused_mutation_names_its_object(stage: Stage) -> None:
    """A refused query leaves no row."""
    id, caller = stage.ids["cluster"], stage.callers["viewer here"]
    context = Context(stage.plane.api, caller=caller)
    found, expected = {}, {}
    for name, (text, actions) in REFUSED_CALLS.items():
        stage.store.rows.clear()
        result = await schema.execute(text.replace("%s", id), {"x": id}, context_value=context)
        assert result.errors, name
        await stage.plane.operations[AuditLogOperations].flush()
        found[name] = [(row.action, row.target_id, row.actor) for row in stage.store.rows]
        expected[name] = [(action, id, caller.email) for action in actions]
        assert {row.verdict for row in stage.store.rows} <= {AuditVerdict.REFUSED}
    assert found == expected


async def test_a_refused_apply_names_the_objects_of_its_documents(stage: Stage) -> None:
    caller, id = stage.callers["viewer here"], stage.ids["cluster"]
    context = Context(stage.plane.api, caller=caller)
    async with stage.store.read() as tx:
        (row,) = await tx[ClusterStore].by_ids([id])
    head = "apiVersion: towline.io/v1\nkind: Cluster\nmetadata: {name: %s}\n"
    for mutation, spec in (("applyManifests", "spec: {protect: true}"), ("deleteManifests", "")):
        text = f"mutation($s: [ManifestSource!]!) {{ {mutation}(sources: $s) {{ applied }} }}"
        sources = [{"file": "a.yaml", "content": head % row.handle + spec}]
        stage.store.rows.clear()
        result = await schema.execute(text, {"s": sources}, context_value=context)
        assert result.data == {mutation: {"applied": False}}
        await stage.plane.operations[AuditLogOperations].flush()
        (entry,) = stage.store.rows
        assert (entry.action, entry.verdict) == (mutation, AuditVerdict.REFUSED)
        assert (entry.target, entry.target_id) == (f"Cluster {row.handle}", id)


async def test_a_flood_of_refusals_is_bounded(stage: Stage) -> None:
    """Sixty rows a minute and one with the count of the others."""
    stage.store.rows.clear()
    document = document_of("mutation", "createGroup", stage)
    for _ in range(80):
        await stage.ask(document, stage.callers["member"])
    await stage.plane.operations[AuditLogOperations].flush(ending=True)
    assert len(stage.store.rows) == 61
    assert stage.store.rows[-1].detail["requests"] == 20


async def test_audit_rows_of_the_system_name_it_as_actor(stage: Stage) -> None:
    (row,), _ = await rows_of(stage, "createGroup", SYSTEM)
    assert row.actor == SYSTEM.name


async def test_strangers_leave_no_rows_of_the_api(stage: Stage) -> None:
    """They are turned away before anything is looked at, however often they come."""
    assert await rows_of(stage, "createGroup", ANONYMOUS) == ([], "UNAUTHENTICATED")
