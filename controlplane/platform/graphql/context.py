"""Context of resolvers: the caller and the operations."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from strawberry.types import Info as StrawberryInfo

from controlplane.authorization import ANONYMOUS, Actor, ResourceKind
from core.errors import TowlineError
from core.identity import TokenKind, token_kind

Part = TypeVar("Part")

# Fewer than the connections of the store, so that queries can read meanwhile.
_MAX_CONCURRENT_READS = 8


class Authenticator(Protocol):
    """Finds out who sends a request."""

    async def authenticate(self, token: str, source: str = "") -> Actor:
        """Returns the owner of a token. Unauthenticated: the token is unknown or expired."""
        ...

    async def actor_of(self, user_id: str, token_id: str | None) -> Actor:
        """Returns a user with the permissions of now. Unauthenticated: may not sign in."""
        ...


class ChangeFeed(Protocol):
    """Finds resources that changed while a subscriber was away."""

    async def changed_since(
        self, actor: Actor, kind: ResourceKind, since: datetime
    ) -> Sequence[str]:
        """Returns the ids of the changed resources that the actor may read."""
        ...


@dataclass(frozen=True, slots=True)
class ApiBackend:
    """Operations and ports that resolvers call, by their types, and settings of the API."""

    operations: Mapping[type[Any], Any]
    authenticator: Authenticator
    agents_port: int
    """Port to which agents connect."""
    cluster_domain: str = ""
    """Domain for addresses of clusters by host name; empty: there is none."""
    sealing_key: str = ""
    """Public key for sealed values in manifests, in base64."""
    introspection: bool = True
    read_slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT_READS)
    )
    """Limits concurrent reads of subscribers, since one event can wake thousands of them."""


@dataclass(slots=True)
class Context:
    """One request, or one WebSocket connection: its caller and the operations.

    An internal error puts `request_id` into the log and the response.
    """

    backend: ApiBackend
    request: object = None
    response: object = None
    connection_params: object = None
    token: str = field(default="", repr=False)
    source: str = ""
    request_id: str = field(default_factory=lambda: uuid4().hex)
    caller: Actor = ANONYMOUS
    refused: TowlineError | None = None

    def __getitem__(self, kind: type[Part]) -> Part:
        """The operations of this class, or the port: `context[Clusters]`."""
        return self.backend.operations[kind]

    @property
    def actor(self) -> Actor:
        """The caller. Raises the reason if its token was rejected."""
        if self.refused is not None:
            raise self.refused
        return self.caller

    async def sign_in(self, token: str) -> None:
        """Authenticates a token. `actor` raises the reason of a rejection."""
        if token:
            try:
                self.caller = await self.backend.authenticator.authenticate(token, self.source)
                self.refused = None
            except TowlineError as error:
                self.refused = error
        # Only now, because `renew` may run meanwhile and needs the caller of the token.
        self.token = token

    async def renew(self) -> None:
        """Authenticates the token again and reloads the permissions of the caller."""
        if token_kind(self.token) is not TokenKind.TICKET:
            await self.sign_in(self.token)
            return
        try:
            identity = self.backend.authenticator
            self.caller = await identity.actor_of(self.caller.id, self.caller.token_id)
        except TowlineError as error:
            self.refused = error

    async def recheck(self) -> None:
        """Renews before each event of a subscription. Raises the reason of a rejection."""
        await self.renew()
        if self.refused is not None:
            raise self.refused


Info = StrawberryInfo[Context, None]
