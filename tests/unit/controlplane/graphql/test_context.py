"""The caller of a connection: signed in once, and authenticated again before each event."""

from dataclasses import replace

import pytest

from controlplane.authorization import ANONYMOUS, Actor
from controlplane.platform.graphql.context import ApiBackend, Context
from core.errors import TowlineError, Unauthenticated, Unavailable
from core.identity import TokenKind, new_token
from tests.fakes.actors import EDITOR, VIEWER

TICKET, TOKEN = new_token(TokenKind.TICKET), new_token(TokenKind.USER)
SIGNED_IN = replace(EDITOR, token_id="parent")


class Identity:
    """Knows one caller; `error` is the reason for which it refuses everybody."""

    def __init__(self) -> None:
        self.caller: Actor = SIGNED_IN
        self.error: TowlineError | None = None
        self.asked: list[tuple[str | None, ...]] = []

    async def authenticate(self, token: str, source: str = "") -> Actor:
        return self._answer(token, source)

    async def actor_of(self, user_id: str, token_id: str | None) -> Actor:
        return self._answer(user_id, token_id)

    def _answer(self, *asked: str | None) -> Actor:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        return self.caller


@pytest.fixture
def identity() -> Identity:
    return Identity()


@pytest.fixture
def context(identity: Identity) -> Context:
    return Context(ApiBackend({}, identity, 0), source="192.0.2.1")


async def test_a_caller_without_a_token_is_anonymous(context: Context, identity: Identity) -> None:
    await context.sign_in("")
    assert context.actor == ANONYMOUS and identity.asked == []


async def test_the_caller_of_a_token_is_its_owner(context: Context, identity: Identity) -> None:
    await context.sign_in(TOKEN)
    assert context.actor == SIGNED_IN and identity.asked == [(TOKEN, "192.0.2.1")]
    assert TOKEN not in repr(context)


@pytest.mark.parametrize("token", [TOKEN, TICKET], ids=["token", "ticket"])
async def test_a_rejected_caller_gets_the_reason_and_no_permission(
    context: Context, identity: Identity, token: str
) -> None:
    """Neither those of an earlier token, nor those of anonymous callers."""
    await context.sign_in(TOKEN)
    identity.error = Unauthenticated("the token was revoked")
    await context.sign_in(token)
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="was revoked"):
            _ = context.actor


@pytest.mark.parametrize(
    ("token", "asked"),
    [(TOKEN, (TOKEN, "192.0.2.1")), (TICKET, (EDITOR.id, "parent"))],
    ids=["token", "ticket"],
)
async def test_each_event_has_the_permissions_of_now(
    context: Context, identity: Identity, token: str, asked: tuple[str, ...]
) -> None:
    """A ticket is spent with its first use: then the token that created it decides."""
    await context.sign_in(token)
    identity.asked.clear()
    identity.caller = replace(VIEWER, id=EDITOR.id, token_id="parent")
    await context.recheck()
    assert context.actor.policy == VIEWER.policy and identity.asked == [asked]
    for error in (Unauthenticated("the token was revoked"), Unavailable("the store is away")):
        identity.error = error
        with pytest.raises(type(error)):
            await context.recheck()
        with pytest.raises(type(error)):
            _ = context.actor


async def test_a_token_counts_again_after_an_outage(context: Context, identity: Identity) -> None:
    await context.sign_in(TOKEN)
    identity.error = Unavailable("the store is away")
    with pytest.raises(Unavailable):
        await context.recheck()
    identity.error = None
    await context.recheck()
    assert context.actor == SIGNED_IN
