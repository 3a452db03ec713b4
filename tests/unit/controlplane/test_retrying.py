"""Verbs that are begun again write in one transaction, and not for ever."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import controlplane
from controlplane.platform.batch import open_batch
from controlplane.platform.ports import TransactionConflict
from controlplane.platform.retry import MAX_TRIES, retry_on_collision, retry_operations
from core.errors import Unavailable
from tests.fakes.operations import operations_over_memory

PACKAGE = Path(controlplane.__path__[0])


class Waits:
    """A clock that only notes how long it was to wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@retry_operations
class Stubborn:
    """A verb that fails so often, with such an error."""

    def __init__(self, failures: int, error: Exception) -> None:
        self._context: Any = SimpleNamespace(clock=Waits())
        self._left, self._error = failures, error
        self.tries = self.looks = 0

    async def write(self) -> str:
        self.tries += 1
        if self.tries <= self._left:
            raise self._error
        return "written"

    async def decide(self) -> str:
        return await self.write()

    async def look(self) -> str:
        self.looks += 1
        return await self._step()

    @retry_on_collision
    async def _step(self) -> str:
        self.tries += 1
        if self.tries <= self._left:
            raise self._error
        return "written"


async def test_it_is_tried_until_it_succeeds() -> None:
    verbs = Stubborn(MAX_TRIES - 1, TransactionConflict("x"))
    assert await verbs.write() == "written"
    assert verbs.tries == MAX_TRIES
    assert all(0 <= one <= 1 for one in verbs._context.clock.waits)


async def test_it_is_not_tried_for_ever() -> None:
    verbs = Stubborn(1000, TransactionConflict("x"))
    with pytest.raises(TransactionConflict):
        await verbs.write()
    assert verbs.tries == MAX_TRIES


async def test_the_tries_of_a_verb_within_a_verb_do_not_multiply() -> None:
    verbs = Stubborn(1000, TransactionConflict("x"))
    with pytest.raises(TransactionConflict):
        await verbs.decide()
    assert verbs.tries == MAX_TRIES


async def test_work_beside_a_step_that_collides_is_done_once() -> None:
    """A registry is not asked anew because two rows were in each other's way."""
    verbs = Stubborn(MAX_TRIES - 1, TransactionConflict("x"))
    assert await verbs.look() == "written"
    assert (verbs.looks, verbs.tries) == (1, MAX_TRIES)


async def test_an_operation_of_a_batch_is_not_begun_again_by_itself() -> None:
    """Its transaction is that of the whole batch, which the operation around it begins again."""
    verbs = Stubborn(1, TransactionConflict("x"))
    world = operations_over_memory()
    with pytest.raises(TransactionConflict) as error:
        async with open_batch(world.store):
            await verbs.write()
    assert verbs.tries == 1 and verbs._context.clock.waits == []
    assert not error.value.given_up
    assert await verbs.write() == "written"


async def test_a_retry_waits_a_moment() -> None:
    """Two operations that met once do not meet again at once."""
    verbs = Stubborn(MAX_TRIES - 1, TransactionConflict("x"))
    await verbs.write()
    assert len(verbs._context.clock.waits) == MAX_TRIES - 1


async def test_only_conflicts_are_retried() -> None:
    """A store that is away may have written."""
    verbs = Stubborn(1, Unavailable("away"))
    with pytest.raises(Unavailable, match="away"):
        await verbs.write()
    assert verbs.tries == 1


TRANSACTIONS = {("store", "write"), ("_context", "change")}


def retried_classes() -> Iterator[tuple[str, dict[str, ast.AST]]]:
    """Classes of verbs that are begun again, with their functions."""
    for path in sorted(PACKAGE.glob("*/operations/**/*.py")):
        for one in ast.parse(path.read_text()).body:
            if isinstance(one, ast.ClassDef) and any(
                isinstance(mark, ast.Name) and mark.id == "retry_operations"
                for mark in one.decorator_list
            ):
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                yield one.name, {f.name: f for f in one.body if isinstance(f, functions)}


def writes(name: str, functions: dict[str, ast.AST], above: tuple[str, ...] = ()) -> int:
    """Number of writing transactions that a function opens, including its callees."""
    found = 0
    for node in ast.walk(functions[name]):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, called = node.func.value, node.func.attr
        if isinstance(owner, ast.Attribute) and (owner.attr, called) in TRANSACTIONS:
            found += 1
        is_own = isinstance(owner, ast.Name) and owner.id == "self" and called in functions
        if is_own and called not in above:
            found += writes(called, functions, (*above, name))
    return found


def test_each_verb_that_is_begun_again_writes_in_one_transaction() -> None:
    """Else its first transaction would be written twice."""
    classes = dict(retried_classes())
    assert {"Projects", "Users", "Groups", "RoleBindings", "Services", "Clusters"} <= classes.keys()
    found = {
        f"{of}.{name}": writes(name, functions)
        for of, functions in classes.items()
        for name in functions
        if not name.startswith("_")
    }
    assert found["Projects.update"] == 1
    assert {name: many for name, many in found.items() if many > 1} == {}
