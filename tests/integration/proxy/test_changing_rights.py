"""Rights that change while a request is judged: what was true before lets nothing in."""

import asyncio
from collections.abc import Callable

import pytest

from proxy.domain.access import ImpersonationRule
from tests.fakes.door import FakeInstallation
from tests.integration.proxy.recording import RecordingUpstream
from tests.integration.proxy.stack import Stack
from tests.integration.proxy.user import User, request

# The user is looked up first, then the right.
LOOKUPS = pytest.mark.parametrize("lookup", [1, 2])


class Held:
    """Holds one answer back between its reading and its arrival."""

    def __init__(self, lookup: int) -> None:
        self._left = lookup
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            await self.go_on.wait()


async def judged(
    stack: Stack, user: User, lookup: int, change: Callable[[FakeInstallation], None]
) -> tuple[int, bytes, bytes]:
    """The answer to a request during whose judgement something changes."""
    held = stack.installation.slow = Held(lookup)
    user.writer.write(request(b"GET", b"/api/v1/pods?watch=1"))
    async with asyncio.timeout(10):
        await held.reached.wait()
    change(stack.installation)
    await stack.door.recheck(None)
    held.go_on.set()
    return await user.answer()


@LOOKUPS
async def test_a_right_lost_meanwhile_is_lost(
    stack: Stack, recorder: RecordingUpstream, user: User, lookup: int
) -> None:
    status, _, _ = await judged(stack, user, lookup, lambda one: one.forbidden.add("ann"))
    assert (status, recorder.heads) == (403, [])


async def test_another_verdict_than_the_noted_one_opens_nothing(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The request's row tells by which right it was let in; the client asks anew."""
    rule = {"ann": ImpersonationRule(("*",), (), (), (), ())}
    status, _, body = await judged(stack, user, 2, lambda one: one.impersonation.update(rule))
    assert (status, recorder.heads) == (503, [])
    assert b"rights have changed" in body
    assert (await user.ask(request()))[0] == 200


@LOOKUPS
async def test_a_change_that_concerns_others_lets_pass(
    stack: Stack, recorder: RecordingUpstream, user: User, lookup: int
) -> None:
    status, _, _ = await judged(stack, user, lookup, lambda one: one.forbidden.add("root"))
    assert (status, len(recorder.heads)) == (200, 1)


async def test_rights_that_change_without_end_let_nothing_in(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    async def changes() -> None:
        stack.door.gateway.desk.forget(user=None, token=None, session=None)

    stack.installation.slow = changes
    status, _, _ = await user.ask(request())
    assert (status, recorder.heads) == (503, [])
