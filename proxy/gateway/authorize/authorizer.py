"""Authorization of one request: identity, permission, and the route to the agent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf

from core.errors import Forbidden, Unauthenticated, Unavailable
from core.identity import TokenKind, token_kind
from core.runtime.clock import Clock
from core.runtime.single_flight import SingleFlight
from core.runtime.ttl_cache import TTLCache
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
from proxy.domain.limits import Timeouts
from proxy.domain.terminal import TERMINALS
from proxy.gateway.authorize.agents import AgentLocator
from proxy.gateway.authorize.impersonation import allowed_impersonation
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.ports import AgentRoute, Authenticator, Authorizer

_MAX_RENEWALS = 5
_CacheKey = tuple[str, str | None, str | None, str, RequestAttributes]


@dataclass(frozen=True, slots=True)
class AuthorizedRequest:
    """An authorized request: its identity, grant, and the route to the agent.
    `changes`: the authorizer's counter of changes before the first check.
    """

    identity: AuthenticatedUser
    grant: RequestGrant
    acting_as: Impersonation
    agent: AgentRoute
    changes: int


@dataclass(frozen=True, slots=True)
class CachedAuthorization:
    """An authorization for the next request with the same head.
    It is valid until `until` (monotonic seconds), and only while the authorizer's counter of
    changes stays the same.
    """

    authorized: AuthorizedRequest
    until: float


class RequestAuthorizer:
    """Authorizes requests through its ports, and caches the results briefly.
    `passthrough`: handles of the clusters whose API server authenticates the user's own token.
    `changes` counts the calls of `forget`; a result from before such a call may be stale.
    `on_change`: called at each of them.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        agents: AgentLocator,
        clock: Clock,
        timeouts: Timeouts,
        passthrough: frozenset[str] = frozenset(),
    ) -> None:
        self._authenticator, self._authorizer = authenticator, authorizer
        self._agents, self._clock, self._passthrough = agents, clock, passthrough
        self._identities: TTLCache[bytes, AuthenticatedUser] = TTLCache(
            clock, timeouts.identity_cache
        )
        self._grants: TTLCache[_CacheKey, RequestGrant] = TTLCache(clock, timeouts.verdict_cache)
        # When a cached result expires, all requests of a busy connection pool miss it at once.
        # With `changes` in the key, no request gets an answer from before a change.
        self._authentications: SingleFlight[tuple[int, bytes], AuthenticatedUser] = SingleFlight()
        self._authorizations: SingleFlight[tuple[int, _CacheKey], RequestGrant] = SingleFlight()
        self.changes = 0
        self.on_change: list[Callable[[], None]] = []

    # The stage

    def recall(
        self, parsed: ParsedRequest, last: CachedAuthorization | None
    ) -> CachedAuthorization | None:
        """Returns the cached authorization of a read; None: call `authorize`.
        `last`: the previous result for the same head.
        """
        attributes = parsed.attributes
        if not parsed.plain or attributes is None or attributes.writes:
            return None
        if last is None or not self.is_valid(last):
            return self.find_cached(parsed.credential, parsed.route.handle, attributes)
        return last

    async def renew(self, parsed: ParsedRequest, source: str) -> CachedAuthorization | None:
        """Authorizes a read again before its cached authorization expires; None: the result is not
        cached. Raises the errors of `identify` and `admit`.
        """
        credential, attributes = parsed.credential, parsed.attributes
        if credential is None or attributes is None:
            return None
        identity = await self._authenticate(credential, source)
        await self._authorize_and_cache(identity, parsed.route.handle, attributes)
        return self.find_cached(credential, parsed.route.handle, attributes)

    async def authorize(self, parsed: ParsedRequest, record: RequestRecord) -> AuthorizedRequest:
        """Authenticates the user and authorizes the request.
        Adds user and attributes to the record, so that the audit row of a refusal has them.
        BadHead: the credential is refused. Invalid: the path is ambiguous. Also raises the errors
        of `identify` and `admit`.
        """
        changes, identity = self.changes, record.identity
        if identity is None:
            identity = await self.identify(parsed.read_credential(), record.source)
            record.identity = identity
        attributes = record.attributes = parsed.read_attributes()
        impersonation_fields = parsed.head.impersonation
        authorized = await self.admit(identity, record.handle, attributes, impersonation_fields)
        return replace(authorized, changes=changes)

    async def confirm(
        self, authorized: AuthorizedRequest, parsed: ParsedRequest
    ) -> AuthorizedRequest:
        """Authorizes the request again if permissions have changed since `authorize` began.
        Unavailable: the grant differs from the recorded one, or permissions keep changing.
        """
        changes = authorized.changes
        for _ in range(_MAX_RENEWALS):
            if changes == self.changes:
                return authorized
            changes = self.changes
            renewed = await self.admit(
                authorized.identity,
                parsed.route.handle,
                parsed.read_attributes(),
                parsed.head.impersonation,
            )
            if renewed.grant != authorized.grant:
                break
            authorized = renewed
        raise Unavailable("permissions changed while the request was being authorized; try again")

    async def reauthorize(self, authorized: AuthorizedRequest, record: RequestRecord) -> None:
        """Authorizes an open request again and raises the errors of `Authorizer.authorize`.
        Unauthenticated: its session has ended. Forbidden: the request would now get a lesser
        identity, or its session would be recorded. The end of a short-lived token does not end the
        request.
        """
        attributes, handle = record.attributes, record.handle
        if attributes is None:
            return
        identity, old_grant = authorized.identity, authorized.grant
        if identity.session_id is not None and self._is_expired(identity):
            raise Unauthenticated("the session has ended; sign in again")
        new_grant = await self._authorizer.authorize(identity, handle, attributes)
        lost = (
            None
            if old_grant.passthrough
            else lost_permission(authorized.acting_as, old_grant, new_grant)
        )
        if lost is not None:
            raise Forbidden(f'user "{identity.name}" may no longer act as {lost} on "{handle}"')
        if attributes.subresource in TERMINALS and new_grant.recording.records_more_than(
            old_grant.recording
        ):
            raise Forbidden(f'sessions on "{handle}" are now recorded; start a new session')

    # Its steps

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
        identity = self._identities.get(credential.digest)
        if identity is None or self._is_expired(identity):
            identity = await self._authenticate(credential, source)
        return identity

    async def admit(
        self,
        identity: AuthenticatedUser,
        handle: str,
        attributes: RequestAttributes,
        impersonation_fields: list[tuple[str, str]],
    ) -> AuthorizedRequest:
        """Authorizes a request of a user and finds the route to the agent.
        `impersonation_fields`: the client's own `Impersonate-*` header fields.
        """
        changes = self.changes
        grant = await self._grant(identity, handle, attributes)
        acting_as = grant.impersonate
        if impersonation_fields:
            acting_as = allowed_impersonation(identity, grant, handle, impersonation_fields)
        agent = await self._agents.reach(grant.cluster_id, handle)
        return AuthorizedRequest(identity, grant, acting_as, agent, changes)

    def find_cached(
        self, credential: Credential | None, handle: str, attributes: RequestAttributes
    ) -> CachedAuthorization | None:
        """Returns an authorization from the caches; None: call `identify` and `admit`."""
        identity = self._identities.get(credential.digest) if credential else None
        if identity is None or credential is None or self._is_expired(identity):
            return None
        key = _cache_key(identity, handle, attributes)
        grant = self._grants.get(key)
        agent = self._agents.find(grant.cluster_id) if grant else None
        if grant is None or grant.passthrough or agent is None:
            return None
        until = min(
            self._identities.until(credential.digest),
            self._grants.until(key),
            self._monotonic_expiry(identity.expires_at),
        )
        authorized = AuthorizedRequest(identity, grant, grant.impersonate, agent, self.changes)
        return CachedAuthorization(authorized, until)

    def is_valid(self, cached: CachedAuthorization) -> bool:
        """Reports whether a result of `find_cached` is still valid."""
        authorized = cached.authorized
        if authorized.changes != self.changes or self._clock.monotonic() >= cached.until:
            return False
        return self._agents.find(authorized.grant.cluster_id) is authorized.agent

    # The caches

    def forget(self, *, user: str | None, token: str | None, session: str | None) -> None:
        """Drops the cached identities that match one of these values, and all cached grants."""

        def matches(identity: AuthenticatedUser) -> bool:
            return (
                (user is not None and identity.user_id == user)
                or (token is not None and identity.token_id == token)
                or (session is not None and identity.session_id == session)
            )

        self.changes += 1
        for notify in self.on_change:
            notify()
        self._identities.drop(matches)
        self._grants.clear()

    def sweep(self) -> None:
        """Drops expired cache entries."""
        self._identities.sweep()
        self._grants.sweep()

    @property
    def cached_results(self) -> int:
        """Number of cached results."""
        return len(self._identities) + len(self._grants)

    async def _grant(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        grant = self._grants.get(_cache_key(identity, handle, attributes))
        return (
            await self._authorize_and_cache(identity, handle, attributes)
            if grant is None
            else grant
        )

    async def _authenticate(self, credential: Credential, source: str) -> AuthenticatedUser:
        changes, digest = self.changes, credential.digest
        identity = await self._authentications.once(
            (changes, digest),
            lambda: self._authenticator.authenticate(credential, source=source),
        )
        if self._is_expired(identity):
            raise Unauthenticated(f"token expired at {identity.expires_at}; run towline login")
        # A token revoked while it was looked up must not be cached as valid.
        if changes == self.changes:
            self._identities.put(digest, identity)
        return identity

    async def _authorize_and_cache(
        self, identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
    ) -> RequestGrant:
        changes, key = self.changes, _cache_key(identity, handle, attributes)
        grant = await self._authorizations.once(
            (changes, key), lambda: self._authorizer.authorize(identity, handle, attributes)
        )
        if handle in self._passthrough:
            grant = replace(grant, passthrough=True)
        if changes == self.changes and len(attributes.path) <= CACHED_LENGTH:
            self._grants.put(key, grant, self._monotonic_expiry(grant.expires_at))
        return grant

    def _monotonic_expiry(self, expires_at: datetime | None) -> float:
        """An expiry time in monotonic seconds."""
        if expires_at is None:
            return inf
        remaining = expires_at - self._clock.now()
        return self._clock.monotonic() + remaining.total_seconds()

    def _is_expired(self, identity: AuthenticatedUser) -> bool:
        return identity.expires_at is not None and identity.expires_at <= self._clock.now()


def _cache_key(
    identity: AuthenticatedUser, handle: str, attributes: RequestAttributes
) -> _CacheKey:
    return (identity.user_id, identity.token_id, identity.session_id, handle, attributes)
