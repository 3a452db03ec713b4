"""Authorization of one request: identity, permission, route to the agent, limits."""

from dataclasses import dataclass, replace
from math import inf
from urllib.parse import unquote

from core.errors import Forbidden, Invalid, LimitExceeded, Unauthenticated, Unavailable
from core.identity import ClusterId, TokenKind, token_kind
from core.runtime.clock import Clock
from core.runtime.single_flight import SingleFlight
from proxy.domain.access import (
    AuthenticatedUser,
    Credential,
    CredentialKind,
    Impersonation,
    RequestGrant,
    lost_permission,
)
from proxy.domain.attributes import CACHED_LENGTH, RequestAttributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import StreamLimits, Timeouts
from proxy.domain.terminal import TERMINALS, TerminalSession
from proxy.gateway.error_response import age
from proxy.gateway.metrics import ProxyMetrics
from proxy.gateway.open_requests import OpenRequests
from proxy.gateway.ttl_cache import TTLCache
from proxy.ports import (
    AgentPresence,
    AgentRoute,
    AgentRouter,
    Authenticator,
    Authorizer,
    RequestAudit,
    SessionRecorder,
    TerminalRecording,
)

_CacheKey = tuple[str, str | None, str | None, str, RequestAttributes]


@dataclass(frozen=True, slots=True)
class AuthorizedRequest:
    """An authorized request: its identity, grant, and the route to the agent."""

    identity: AuthenticatedUser
    grant: RequestGrant
    acting_as: Impersonation
    link: AgentRoute


@dataclass(frozen=True, slots=True)
class CachedAuthorization:
    """A cached admission for the next request with the same head.
    It is valid until `until` (monotonic seconds) and while `changes` equals the counter of the
    desk.
    """

    admission: AuthorizedRequest
    changes: int
    until: float


class RequestAuthorizer:
    """Authorizes requests through its ports, caches the results briefly, and counts open requests.
    `changes` counts the calls of `forget`; a result from before such a call may be stale.
    `requests`: the counts of open requests.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        audit: RequestAudit,
        presence: AgentPresence,
        tunnels: AgentRouter,
        clock: Clock,
        limits: StreamLimits,
        timeouts: Timeouts,
        *,
        requests: OpenRequests | None = None,
        recorder: SessionRecorder | None = None,
        passthrough: frozenset[str] = frozenset(),
    ) -> None:
        self.audit = audit
        self.recorder = recorder or NoRecorder()
        self.meters = ProxyMetrics()
        self._passthrough = passthrough
        self._authenticator, self._authorizer = authenticator, authorizer
        self._presence, self._tunnels, self._clock = presence, tunnels, clock
        self._limits = limits
        self._identities: TTLCache[bytes, AuthenticatedUser] = TTLCache(
            clock, timeouts.identity_cache
        )
        self._grants: TTLCache[_CacheKey, RequestGrant] = TTLCache(clock, timeouts.verdict_cache)
        # When a cached result expires, all requests of a busy connection pool miss it at once.
        # With `changes` in the key, no request gets an answer from before a change.
        self._authentications: SingleFlight[tuple[int, bytes], AuthenticatedUser] = SingleFlight()
        self._authorizations: SingleFlight[tuple[int, _CacheKey], RequestGrant] = SingleFlight()
        self.requests = requests or OpenRequests(limits)
        self.changes = 0

    def find_cached(
        self, credential: Credential | None, handle: str, attributes: RequestAttributes
    ) -> CachedAuthorization | None:
        """Returns an admission from the caches; None: call `identify` and `admit`."""
        identity = self._identities.get(credential.digest) if credential else None
        if identity is None or credential is None or self._expired(identity):
            return None
        question = _cache_key(identity, handle, attributes)
        grant = self._grants.get(question)
        link = self._tunnels.find(grant.cluster_id) if grant else None
        if grant is None or grant.passthrough or link is None or not self._has_room(link):
            return None
        until = min(
            self._identities.until(credential.digest),
            self._grants.until(question),
            self._expiry(identity),
        )
        return CachedAuthorization(
            AuthorizedRequest(identity, grant, grant.impersonate, link), self.changes, until
        )

    def is_valid(self, cached: CachedAuthorization) -> bool:
        """Reports whether a result of `find_cached` is still valid."""
        if cached.changes != self.changes or self._clock.monotonic() >= cached.until:
            return False
        link = cached.admission.link
        found = self._tunnels.find(cached.admission.grant.cluster_id)
        return found is link and self._has_room(link)

    async def identify(self, credential: Credential | None, source: str) -> AuthenticatedUser:
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
            identity = await self._authentications.once(
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

        def matches(known: AuthenticatedUser) -> bool:
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
        identity: AuthenticatedUser,
        handle: str,
        attributes: RequestAttributes,
        asked: list[tuple[str, str]],
    ) -> AuthorizedRequest:
        """Authorizes a request and finds the route to its agent.
        `asked`: the client's own `Impersonate-*` header fields.
        """
        grant = await self._grant(identity, handle, attributes)
        acting_as = grant.impersonate
        if asked:
            acting_as = _impersonation(identity, grant, handle, asked)
        link = await self._tunnels.reach(grant.cluster_id)
        if link is None or not link.accepts_streams:
            raise Unavailable(await self._describe_absence(handle, grant.cluster_id))
        if not self._has_room(link):
            raise LimitExceeded(f'too many requests are open on cluster "{handle}"')
        return AuthorizedRequest(identity, grant, acting_as, link)

    async def reauthorize(
        self, admission: AuthorizedRequest, handle: str, attributes: RequestAttributes
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
        part = None if before.passthrough else lost_permission(admission.acting_as, before, now)
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

    async def _grant(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        question = _cache_key(identity, handle, attributes)
        grant = self._grants.get(question)
        if grant is None:
            before = self.changes
            grant = await self._authorizations.once(
                (before, question),
                lambda: self._authorizer.authorize(identity, handle, attributes),
            )
            if handle in self._passthrough:
                grant = replace(grant, passthrough=True)
            if before == self.changes and len(attributes.path) <= CACHED_LENGTH:
                self._grants.put(question, grant)
        return grant

    async def _describe_absence(self, handle: str, cluster_id: ClusterId) -> str:
        seen = await self._presence.last_seen(cluster_id)
        when = f"last seen {age(self._clock.now() - seen)} ago" if seen else "never seen yet"
        return f'cluster "{handle}" is not connected: agent {when}'

    def _has_room(self, link: AgentRoute) -> bool:
        full = link.crowded or len(link.streams) >= self._limits.per_agent
        return link.accepts_streams and not full

    def _expiry(self, identity: AuthenticatedUser) -> float:
        """Expiry of an identity in monotonic seconds."""
        if identity.expires_at is None:
            return inf
        left = identity.expires_at - self._clock.now()
        return self._clock.monotonic() + left.total_seconds()

    def _expired(self, identity: AuthenticatedUser) -> bool:
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

    async def begin(self, record: RequestRecord, session: TerminalSession) -> TerminalRecording:
        raise Unavailable(
            f"{session.title} must be recorded, but no folder for recordings is configured"
        )


def _impersonation(
    identity: AuthenticatedUser, grant: RequestGrant, handle: str, asked: list[tuple[str, str]]
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


def _cache_key(
    identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
) -> _CacheKey:
    return (identity.user_id, identity.token_id, identity.session_id, handle, attributes)


def _name(record: RequestRecord) -> str:
    return record.identity.name if record.identity else ""
