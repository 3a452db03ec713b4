"""The decisions for one request, in order: who, may they, over which link, within which limits."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from fleet.errors import Forbidden, Invalid, LimitExceeded, Unauthenticated, Unavailable
from fleet.identity import ClusterId, TokenKind, token_kind
from fleet.runtime.clock import Clock
from proxy.domain.access import (
    Credential,
    CredentialKind,
    Grant,
    Identity,
    Impersonation,
    lost_part,
)
from proxy.domain.attributes import USUAL_LENGTH, RequestAttributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import StreamLimits, Timeouts
from proxy.domain.terminal import TERMINALS, TerminalSession
from proxy.gateway.answers import age
from proxy.gateway.memory import Memory
from proxy.gateway.meters import Meters
from proxy.ports import (
    AgentPresence,
    AuditLog,
    Authenticator,
    Authorizer,
    Recorder,
    Tape,
    Tunnels,
    Way,
)

Counts = dict[Hashable, int]
_Question = tuple[str, str | None, str | None, str, RequestAttributes]


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that may pass: over this link, as this user."""

    identity: Identity
    grant: Grant
    acting_as: Impersonation
    link: Way


class Desk:
    """Asks the ports, remembers their verdicts for a short while, counts open requests.

    `changes` counts the calls of `forget`: a verdict from before one may be true no more.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        audit: AuditLog,
        presence: AgentPresence,
        tunnels: Tunnels,
        clock: Clock,
        limits: StreamLimits,
        timeouts: Timeouts,
        *,
        recorder: Recorder | None = None,
        passthrough: frozenset[str] = frozenset(),
    ) -> None:
        self.audit = audit
        self.recorder = recorder or NoRecorder()
        self.meters = Meters()
        self._passthrough = passthrough
        self._authenticator, self._authorizer = authenticator, authorizer
        self._presence, self._tunnels, self._clock = presence, tunnels, clock
        self._limits = limits
        self._identities: Memory[bytes, Identity] = Memory(clock, timeouts.identity_cache)
        self._grants: Memory[_Question, Grant] = Memory(clock, timeouts.verdict_cache)
        self._open: Counts = {}
        self._of_user: Counts = {}
        self._upgrades: Counts = {}
        self._total = 0
        self.changes = 0

    def recall(
        self, credential: Credential | None, handle: str, attributes: RequestAttributes
    ) -> Admission | None:
        """An admission that needs no question; None: `identify` and `admit`."""
        identity = self._identities.get(credential.digest) if credential else None
        if identity is None or self._expired(identity):
            return None
        grant = self._grants.get(_question(identity, handle, attributes))
        link = self._tunnels.find(grant.cluster_id) if grant else None
        if grant is None or grant.passthrough or link is None or not self._has_room(link):
            return None
        return Admission(identity, grant, grant.impersonate, link)

    async def identify(self, credential: Credential | None, source: str) -> Identity:
        """The user behind a credential. Unauthenticated: none."""
        if credential is None:
            raise Unauthenticated("no token was sent; run towline login, or send a bearer token")
        if token_kind(credential.secret) in {TokenKind.AGENT, TokenKind.BOOTSTRAP}:
            raise Unauthenticated("an agent's token is not for users")
        if credential.kind is CredentialKind.TICKET:
            # Good once: to remember it would be to take it twice.
            return await self._authenticator.authenticate(credential, source=source)
        digest = credential.digest
        identity = self._identities.get(digest)
        if identity is None or self._expired(identity):
            before = self.changes
            identity = await self._authenticator.authenticate(credential, source=source)
            if self._expired(identity):
                raise Unauthenticated(f"token expired at {identity.expires_at}; run towline login")
            # A token revoked while it was looked up must not be remembered as good.
            if before == self.changes:
                self._identities.put(digest, identity)
        return identity

    def forget(self, *, user: str | None, token: str | None, session: str | None) -> None:
        """Drop the identities that match one of these, and all verdicts."""

        def matches(known: Identity) -> bool:
            return (
                (user is not None and known.user_id == user)
                or (token is not None and known.token_id == token)
                or (session is not None and known.session_id == session)
            )

        self.changes += 1
        self._identities.drop(matches)
        self._grants.clear()

    def sweep(self) -> None:
        """Let go of verdicts that are too old."""
        self._identities.sweep()
        self._grants.sweep()

    @property
    def remembered(self) -> int:
        """How many verdicts are held."""
        return len(self._identities) + len(self._grants)

    async def admit(
        self,
        identity: Identity,
        handle: str,
        attributes: RequestAttributes,
        asked: list[tuple[str, str]],
    ) -> Admission:
        """Authorize, and find the way. `asked`: the client's own Impersonate- fields."""
        grant = await self._grant(identity, handle, attributes)
        acting_as = grant.impersonate
        if asked:
            acting_as = _impersonation(identity, grant, handle, asked)
        link = await self._tunnels.reach(grant.cluster_id)
        if link is None or not link.open_for_new:
            raise Unavailable(await self._absence(handle, grant.cluster_id))
        if not self._has_room(link):
            raise LimitExceeded(f'too many requests are open on cluster "{handle}"')
        return Admission(identity, grant, acting_as, link)

    async def check_again(
        self, admission: Admission, handle: str, attributes: RequestAttributes
    ) -> None:
        """Raise what `authorize` raises now, Unauthenticated at the end of a session, or Forbidden
        where the request acts as somebody, or is kept less, than it would be now.

        A short-lived token may end: whoever has shown it once goes on.
        """
        identity, before = admission.identity, admission.grant
        if identity.session_id is not None and self._expired(identity):
            raise Unauthenticated("the session has ended; sign in again")
        now = await self._authorizer.authorize(identity, handle, attributes)
        part = None if before.passthrough else lost_part(admission.acting_as, before, now)
        if part is not None:
            raise Forbidden(f'user "{identity.name}" may no longer act as {part} on "{handle}"')
        if attributes.subresource in TERMINALS and now.recording.keeps_more_than(before.recording):
            raise Forbidden(f'sessions on "{handle}" are recorded from now on; begin another one')

    def enter(self, record: RequestRecord) -> None:
        """Count a request in. LimitExceeded: too many are open."""
        key = _key(record)
        user, limits = key[0], self._limits
        here, everywhere = self._open.get(key, 0), self._of_user.get(user, 0)
        if here >= limits.per_user_and_cluster:
            raise LimitExceeded(f'{here} requests open for "{user}" on "{key[1]}"')
        if everywhere >= limits.per_user:
            raise LimitExceeded(f'{everywhere} requests open for "{user}"')
        if self._total >= limits.per_process:
            raise LimitExceeded("too many requests are open")
        if record.upgrade:
            self._enter_upgrade(user)
        self._open[key] = here + 1
        self._of_user[user] = everywhere + 1
        self._total += 1
        self.meters.opened(record)

    def _enter_upgrade(self, user: str) -> None:
        waiting = self._upgrades.get(user, 0)
        if waiting >= self._limits.upgrades_per_user:
            raise LimitExceeded(f'too many connections of "{user}" wait for their upgrade')
        self._upgrades[user] = waiting + 1

    def upgraded(self, record: RequestRecord) -> None:
        """An upgrade has been answered: it no longer counts as unfinished."""
        _less(self._upgrades, _key(record)[0])

    def leave(self, record: RequestRecord) -> None:
        """Count out a request that `enter` let in."""
        key = _key(record)
        _less(self._open, key)
        _less(self._of_user, key[0])
        self._total -= 1

    async def _grant(self, identity: Identity, handle: str, attributes: RequestAttributes) -> Grant:
        question = _question(identity, handle, attributes)
        grant = self._grants.get(question)
        if grant is None:
            before = self.changes
            grant = await self._authorizer.authorize(identity, handle, attributes)
            if handle in self._passthrough:
                grant = replace(grant, passthrough=True)
            if before == self.changes and len(attributes.path) <= USUAL_LENGTH:
                self._grants.put(question, grant)
        return grant

    async def _absence(self, handle: str, cluster_id: ClusterId) -> str:
        seen = await self._presence.last_seen(cluster_id)
        when = f"last seen {age(self._clock.now() - seen)} ago" if seen else "never seen yet"
        return f'cluster "{handle}" is not connected: agent {when}'

    def _has_room(self, link: Way) -> bool:
        full = link.crowded or len(link.streams) >= self._limits.per_agent
        return link.open_for_new and not full

    def _expired(self, identity: Identity) -> bool:
        return identity.expires_at is not None and identity.expires_at <= self._clock.now()


def impersonation_asked(fields: list[tuple[str, str]]) -> Impersonation:
    """The user whom a client's own Impersonate- fields name. Invalid: they name none."""
    users = [value for name, value in fields if name == "impersonate-user"]
    uids = [value for name, value in fields if name == "impersonate-uid"]
    groups = tuple(value for name, value in fields if name == "impersonate-group")
    extra = tuple(
        (unquote(name.removeprefix("impersonate-extra-")), value)
        for name, value in fields
        if name.startswith("impersonate-extra-")
    )
    known = len(users) + len(uids) + len(groups) + len(extra)
    if len(users) != 1 or len(uids) > 1 or known != len(fields):
        raise Invalid("Impersonate- fields must name one user, and groups, a uid or extras with it")
    return Impersonation(users[0], groups, uids[0] if uids else None, extra)


class NoRecorder:
    """Where nothing can be kept, nobody whose sessions must be kept gets in."""

    async def begin(self, record: RequestRecord, session: TerminalSession) -> Tape:
        raise Unavailable(f"{session.title} must be recorded, and there is nowhere to keep it")


def _impersonation(
    identity: Identity, grant: Grant, handle: str, asked: list[tuple[str, str]]
) -> Impersonation:
    """The user asked for. Forbidden: not one as whom this user may act."""
    rule = grant.may_impersonate
    if rule is None or grant.passthrough:
        raise Forbidden(f'user "{identity.name}" may not act as another user on cluster "{handle}"')
    target = impersonation_asked(asked)
    part = rule.forbidden_part(target)
    if part is not None:
        raise Forbidden(f'user "{identity.name}" may not act as {part} on cluster "{handle}"')
    return target


def _question(identity: Identity, handle: str, attributes: RequestAttributes) -> _Question:
    return (identity.user_id, identity.token_id, identity.session_id, handle, attributes)


def _key(record: RequestRecord) -> tuple[str, str]:
    return (record.identity.name if record.identity else "", record.handle)


def _less(counts: Counts, key: Hashable) -> None:
    """A name that counts nothing takes no room."""
    count = counts.get(key, 0)
    if count > 1:
        counts[key] = count - 1
    else:
        counts.pop(key, None)
