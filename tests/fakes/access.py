"""Users, groups and bindings for tests of access, and the ports of sign-in as fakes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.sign_in import Claims, Issuer
from controlplane.access.model.users import Group, Membership, Token, User
from controlplane.authorization import (
    INSTALLATION,
    Actor,
    ActorKind,
    Grant,
    Limit,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Scope,
)
from controlplane.platform.ports import Store, Transaction
from core.errors import NotFound, Unauthenticated, Unavailable
from core.identity import ClusterId, TokenKind, new_token, token_hash
from tests.fakes.clock import START

_PEOPLE = (ResourceKind.USER, ResourceKind.GROUP, ResourceKind.ROLE, ResourceKind.BINDING)
USER_MANAGER = Actor(
    ActorKind.USER,
    id="mia",
    name="mia",
    email="mia@example.org",
    policy=Policy((Grant(Role("managing", "managing", rules=(Rule(kinds=_PEOPLE),))),)),
)
"""Administers users, groups, roles and bindings, but reads no cluster."""


def limited(actor: Actor) -> Actor:
    """The actor with a token that may only read."""
    return replace(actor, policy=Policy(actor.policy.grants, (Limit(kinds=_PEOPLE),)))


def make_user(id: str, **columns: Any) -> User:
    """A user whose name is the id."""
    return User(id, f"{id}@example.org", id, START, START, **columns)


def make_group(id: str, **columns: Any) -> Group:
    """A group whose name is the id."""
    return Group(id, id, START, START, **columns)


def join(user: User, group: Group, **columns: Any) -> Membership:
    """A membership whose id is `<group>-<user>`."""
    return Membership(f"{group.id}-{user.id}", group.id, user.id, START, **columns)


def bind(
    role: str, subject: User | Group, scope: Scope = INSTALLATION, until: datetime | None = None
) -> Binding:
    """A binding whose id begins with `<subject>-<role>`."""
    kind = SubjectKind.USER if isinstance(subject, User) else SubjectKind.GROUP
    return Binding(f"{subject.id}-{role}-{scope}"[:36], role, kind, subject.id, scope, START, until)


def make_token(user: User, kind: TokenKind = TokenKind.USER, **columns: Any) -> tuple[Token, str]:
    """A token and its secret."""
    secret = new_token(kind)
    id = columns.pop("id", f"{user.id}-{kind.value}")
    return Token(id, kind, id, token_hash(secret), START, user.id, **columns), secret


def password_hash(password: str) -> str:
    """The hash that `FakePasswords` makes."""
    return sha256(password.encode()).hexdigest()


class FakePasswords:
    """Implements `Passwords` with a fast hash."""

    async def hash(self, password: str) -> str:
        return password_hash(password)

    async def verify(self, hash: str | None, password: str) -> bool:
        return hash == password_hash(password)


class FakeIssuers:
    """Implements `Issuers`: `claims` by token or code; the claim `aud` is the audience."""

    def __init__(self, *known: Issuer) -> None:
        self._known = known
        self.claims: dict[str, Claims] = {}
        self.began: list[tuple[str, ...]] = []

    def configured(self) -> tuple[Issuer, ...]:
        return self._known

    async def authorization_url(
        self, name: str, redirect: str, state: str, nonce: str, challenge: str
    ) -> str:
        if all(issuer.name != name for issuer in self._known):
            raise NotFound
        self.began.append((redirect, state, nonce, challenge))
        return f"https://idp.example.org/auth?state={state}"

    async def check_reply(self, name: str, issuer: str) -> None:
        (known,) = (known for known in self._known if known.name == name)
        if issuer not in ("", known.url):
            raise Unauthenticated("a reply of another issuer")

    async def redeem_code(
        self, name: str, redirect: str, code: str, verifier: str, nonce: str
    ) -> Claims:
        return await self.verify(code)

    def unverified_issuer(self, token: str) -> str:
        return self.claims[token].issuer

    async def verify(self, token: str) -> Claims:
        if token not in self.claims:
            raise Unauthenticated("not a token of this issuer")
        return self.claims[token]

    async def verify_for_audience(
        self, token: str, issuer: str, audience: str, keys: str | None
    ) -> Claims:
        claims = await self.verify(token)
        if claims.raw.get("aud") != audience:
            raise Unauthenticated("another audience")
        return claims


class FakeDeployTokens:
    """Implements `DeployTokens` with a dictionary."""

    def __init__(self, rows: Mapping[str, tuple[Token, ClusterId | None]]) -> None:
        self.rows = rows

    async def find(self, hash: str) -> tuple[Token, ClusterId | None] | None:
        return self.rows.get(hash)


class ReadOnlyStore:
    """A store that reads, and refuses each transaction that writes while `is_read_only`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_read_only = True

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Transaction, None]:
        async with self._store.read() as tx:
            yield tx

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Transaction, None]:
        if self.is_read_only:
            raise Unavailable("read-only")
        async with self._store.write() as tx:
            yield tx
