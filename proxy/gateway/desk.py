"""Authorization of one request: identity, permission, route to the agent, limits."""

from dataclasses import dataclass, replace
from math import inf
from urllib.parse import unquote

from fleet.errors import Forbidden, Invalid, LimitExceeded, Unauthenticated, Unavailable
from fleet.identity import ClusterId, TokenKind, token_kind
from fleet.runtime.clock import Clock
from fleet.runtime.flights import Flights
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
from proxy.gateway.counting import OpenRequests
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

_Question = tuple[str, str | None, str | None, str, RequestAttributes]


@dataclass(frozen=True, slots=True)
class Admission:
    """An authorized request: its identity, grant, and the route to the agent."""

    identity: Identity
    grant: Grant
    acting_as: Impersonation
    link: Way


@dataclass(frozen=True, slots=True)
class Verdict:
    """A cached admission for the next request with the same head.
    It is valid until `until` (monotonic seconds) and while `changes` equals the counter of the
    desk.
    """

    admission: Admission
    changes: int
    until: float


class Desk:
    """Authorizes requests through its ports, caches the results briefly, and counts open requests.
    `changes` counts the calls of `forget`; a result from before such a call may be stale.
    `requests`: the counts of open requests.
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
        requests: OpenRequests | None = None,
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
        # When a cached result expires, all requests of a busy connection pool miss it at once.
        # With `changes` in the key, no request gets an answer from before a change.
        self._who: Flights[tuple[int, bytes], Identity] = Flights()
        self._may: Flights[tuple[int, _Question], Grant] = Flights()
        self.requests = requests or OpenRequests(limits)
        self.changes = 0

    def recall(
        self, credential: Credential | None, handle: str, attributes: RequestAttributes
    ) -> Verdict | None:
        """Returns an admission from the caches; None: call `identify` and `admit`."""
        identity = self._identities.get(credential.digest) if credential else None
        if identity is None or credential is None or self._expired(identity):
            return None
        question = _question(identity, handle, attributes)
        grant = self._grants.get(question)
        link = self._tunnels.find(grant.cluster_id) if grant else None
        if grant is None or grant.passthrough or link is None or not self._has_room(link):
            return None
        until = min(
            self._identities.until(credential.digest),
            self._grants.until(question),
            self._end_of(identity),
        )
        return Verdict(Admission(identity, grant, grant.impersonate, link), self.changes, until)

    def holds(self, verdict: Verdict) -> bool:
        """Reports whether a result of `recall` is still valid."""
        if verdict.changes != self.changes or self._clock.monotonic() >= verdict.until:
            return False
        link = verdict.admission.link
        found = self._tunnels.find(verdict.admission.grant.cluster_id)
        return found is link and self._has_room(link)

    async def identify(self, credential: Credential | None, source: str) -> Identity:
        """Authenticates a credential. Unauthenticated: it is missing or not valid."""
        if credential is None:
            raise Unauthenticated(
                "the request has no token; run towline login, or send a bearer token"
            )
        if token_kind(credential.secret) in {TokenKind.AGENT, TokenKind.BOOTSTRAP}:
            raise Unauthenticated("an agent's token is not for users")
        if credential.kind is CredentialKind.TICKET:
            # A ticket is valid once; a cached one would be accepted twice.
            return await self._authenticator.authenticate(credential, source=source)
        digest = credential.digest
        identity = self._identities.get(digest)
        if identity is None or self._expired(identity):
            before = self.changes
            identity = await self._who.once(
                (before, digest),
                lambda: self._authenticator.authenticate(credential, source=source),
            )
            if self._expired(identity):
                raise Unauthenticated(f"token expired at {identity.expires_at}; run towline login")
            # A token revoked while it was looked up must not be remembered as good.
            if before == self.changes:
                self._identities.put(digest, identity)
        return identity

    def forget(self, *, user: str | None, token: str | None, session: str | None) -> None:
        """Drops the cached identities that match one of these values, and all cached grants."""

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
        """Drops expired cache entries."""
        self._identities.sweep()
        self._grants.sweep()

    @property
    def remembered(self) -> int:
        """Number of cached results."""
        return len(self._identities) + len(self._grants)

    async def admit(
        self,
        identity: Identity,
        handle: str,
        attributes: RequestAttributes,
        asked: list[tuple[str, str]],
    ) -> Admission:
        """Authorizes a request and finds the route to its agent.
        `asked`: the client's own `Impersonate-*` header fields.
        """
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
        """Authorizes an open request again and raises the errors of `authorize`.
        Unauthenticated: its session has ended. Forbidden: the request would now get a lesser
        identity, or its session would be recorded. The end of a short-lived token does not end the
        request.
        """
        identity, before = admission.identity, admission.grant
        if identity.session_id is not None and self._expired(identity):
            raise Unauthenticated("the session has ended; sign in again")
        now = await self._authorizer.authorize(identity, handle, attributes)
        part = None if before.passthrough else lost_part(admission.acting_as, before, now)
        if part is not None:
            raise Forbidden(f'user "{identity.name}" may no longer act as {part} on "{handle}"')
        if attributes.subresource in TERMINALS and now.recording.keeps_more_than(before.recording):
            raise Forbidden(f'sessions on "{handle}" are now recorded; start a new session')

    def enter(self, record: RequestRecord) -> None:
        """Counts a new request. LimitExceeded: too many are open."""
        self.requests.enter(_name(record), record.handle, upgrade=record.upgrade)
        self.meters.opened(record)

    def upgraded(self, record: RequestRecord) -> None:
        """Stops counting a request as an unanswered upgrade."""
        self.requests.upgraded(_name(record))

    def leave(self, record: RequestRecord) -> None:
        """Removes a request that `enter` counted."""
        self.requests.leave(_name(record), record.handle)

    async def _grant(self, identity: Identity, handle: str, attributes: RequestAttributes) -> Grant:
        question = _question(identity, handle, attributes)
        grant = self._grants.get(question)
        if grant is None:
            before = self.changes
            grant = await self._may.once(
                (before, question),
                lambda: self._authorizer.authorize(identity, handle, attributes),
            )
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

    def _end_of(self, identity: Identity) -> float:
        """Expiry of an identity in monotonic seconds."""
        if identity.expires_at is None:
            return inf
        left = identity.expires_at - self._clock.now()
        return self._clock.monotonic() + left.total_seconds()

    def _expired(self, identity: Identity) -> bool:
        return identity.expires_at is not None and identity.expires_at <= self._clock.now()


def impersonation_asked(fields: list[tuple[str, str]]) -> Impersonation:
    """Parses the client's own `Impersonate-*` fields. Invalid: they name no single user."""
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
    """Recorder without storage: refuses every session that must be recorded."""

    async def begin(self, record: RequestRecord, session: TerminalSession) -> Tape:
        raise Unavailable(
            f"{session.title} must be recorded, but no folder for recordings is configured"
        )


def _impersonation(
    identity: Identity, grant: Grant, handle: str, asked: list[tuple[str, str]]
) -> Impersonation:
    """The requested user to impersonate. Forbidden: the grant does not allow it."""
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


def _name(record: RequestRecord) -> str:
    return record.identity.name if record.identity else ""
