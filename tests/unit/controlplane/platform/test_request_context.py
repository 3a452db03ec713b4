"""The context of a request or WebSocket: its caller, also while the caller signs in."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

from controlplane.authorization import Actor
from controlplane.platform.graphql.context import ApiBackend, Authenticator, Context
from core.errors import Unauthenticated
from core.identity import TokenKind, new_token
from tests.fakes.actors import EDITOR


@dataclass
class SlowAuthenticator:
    """Redeems a ticket once, when it may, and knows the account of its caller."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    is_redeemed: bool = False

    async def authenticate(self, token: str, source: str = "") -> Actor:
        await self.may_answer.wait()
        if self.is_redeemed:
            raise Unauthenticated("this ticket was used")
        self.is_redeemed = True
        return EDITOR

    async def actor_of(self, user_id: str, token_id: str | None = None) -> Actor:
        if user_id != EDITOR.id:
            raise Unauthenticated("this account was deleted")
        return EDITOR


async def test_a_renewal_does_not_refuse_a_ticket_that_is_being_redeemed() -> None:
    """The watch of a WebSocket renews every 2 s, also while a busy store redeems the ticket."""
    authenticator = SlowAuthenticator()
    context = Context(ApiBackend({}, cast(Authenticator, authenticator), 0))
    signing_in = asyncio.ensure_future(context.sign_in(new_token(TokenKind.TICKET)))
    await asyncio.sleep(0)
    await context.renew()
    assert context.refused is None
    authenticator.may_answer.set()
    await signing_in
    await context.renew()
    assert context.actor == EDITOR
