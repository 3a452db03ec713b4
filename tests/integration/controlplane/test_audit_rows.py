"""Every mutation of the schema leaves one row in the audit trail, and a refused one as well."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.domain.access import ANONYMOUS, SYSTEM, Actor
from controlplane.domain.audit import AuditFilter
from controlplane.domain.ledger import AuditEntry, AuditVerdict
from controlplane.ports import PageQuery
from tests.fakes.clock import FakeClock
from tests.integration.controlplane.matrix import Stage, document_of, operations, staged

# What these do is done by the door or by the caller's own hand, and has rows of its own there.
ELSEWHERE = frozenset({"endStream", "createTicket"})
MUTATIONS = [name for kind, name in operations() if kind == "mutation" and name not in ELSEWHERE]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as found:
        yield found


async def rows_of(stage: Stage, name: str, actor: Actor) -> tuple[list[AuditEntry], str | None]:
    """The audit rows that a mutation would leave, and the code if it fails; nothing is kept."""
    before = await newest(stage)
    stage.store.rows.clear()
    _, code = await stage.ask(document_of("mutation", name, stage), actor)
    await stage.plane.verbs.records.flush()
    assert await newest(stage) == before
    return list(stage.store.rows), code


async def newest(stage: Stage) -> str | None:
    async with stage.store.read() as tx:
        page = await tx.audit.search(AuditFilter(), PageQuery(1, newest=True))
    return str(page.items[0].id) if page.items else None


async def test_every_mutation_leaves_one_row(stage: Stage) -> None:
    """Whatever was changed, there is one row that says so; what changed nothing needs none."""
    wrong, without = {}, set()
    for name in MUTATIONS:
        rows, code = await rows_of(stage, name, stage.callers["admin everywhere"])
        made = [row for row in rows if row.verdict is AuditVerdict.ALLOWED and row.actor]
        if not made and code in ("CONFLICT", "INVALID"):
            without.add(name)
        elif len(made) != 1:
            wrong[name] = [(row.action, row.verdict.value) for row in rows]
    assert wrong == {"updateRbac": []}  # It was asked for the bindings that there are.
    assert len(MUTATIONS) - len(without) > 40


async def test_every_refused_mutation_leaves_one_row(stage: Stage) -> None:
    """Whoever has no role here is refused, or told that there is no such thing."""
    clock = stage.plane.deps.clock
    assert isinstance(clock, FakeClock)
    wrong, seen = {}, 0
    for name in MUTATIONS:
        await clock.advance(61)
        rows, code = await rows_of(stage, name, stage.callers["member"])
        if code not in ("FORBIDDEN", "NOT_FOUND"):
            continue
        seen += 1
        told = [(row.action, row.verdict) for row in rows]
        if told != [(name, AuditVerdict.REFUSED)]:
            wrong[name] = told
    assert wrong == {}
    assert seen > 40


async def test_a_flood_of_refusals_is_bounded(stage: Stage) -> None:
    """Sixty rows a minute and one with the count of the others."""
    stage.store.rows.clear()
    document = document_of("mutation", "createGroup", stage)
    for _ in range(80):
        await stage.ask(document, stage.callers["member"])
    await stage.plane.verbs.records.flush(ending=True)
    assert len(stage.store.rows) == 61
    assert stage.store.rows[-1].detail["requests"] == 20


async def test_what_is_done_by_the_program_itself_has_its_name(stage: Stage) -> None:
    (row,), _ = await rows_of(stage, "createGroup", SYSTEM)
    assert row.actor == SYSTEM.name


async def test_strangers_leave_no_rows_of_the_api(stage: Stage) -> None:
    """They are turned away before anything is looked at, however often they come."""
    assert await rows_of(stage, "createGroup", ANONYMOUS) == ([], "UNAUTHENTICATED")
