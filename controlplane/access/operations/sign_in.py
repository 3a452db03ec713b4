"""Sign-in by password, identity provider, device code, or setup link.

Each method creates a session or a token. The store counts failures by account and by source. An
unknown account takes the same time and gets the same error as a wrong password.
"""

import base64
import hashlib
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from controlplane.access.model.sign_in import (
    FAILURES_WINDOW,
    MAX_FAILURES_PER_ACCOUNT,
    MAX_FAILURES_PER_SOURCE,
    ChallengeKind,
    SignInChallenge,
    SignInFailures,
    source_network,
)
from controlplane.access.model.users import (
    SESSION_IDLE,
    SESSION_LIFE,
    USER_TOKEN_LIFE,
    User,
    UserKind,
)
from controlplane.access.operations.federation import Federation
from controlplane.access.operations.refresh_tokens import IssuedTokens, RefreshTokens
from controlplane.access.operations.tokens import latest_expiry, mint
from controlplane.access.operations.users import check_address, find_user
from controlplane.access.ports import (
    ChallengeStore,
    LoginStore,
    Passwords,
    SignInFailureStore,
    TokenStore,
    UserStore,
)
from controlplane.authorization import ADMIN, SYSTEM, Actor, ActorKind, require_member
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.context import REVOKED, StoreContext
from controlplane.platform.limits import check_length
from controlplane.platform.names import check_text
from controlplane.platform.notification import NotificationKind, notification
from controlplane.platform.ports import AuditTrail, NotificationOutbox, PageQuery, Transaction
from controlplane.platform.retry import retry_on_collision
from core.errors import Conflict, Forbidden, LimitExceeded, NotFound, TowlineError, Unauthenticated
from core.identity import TokenKind
from core.runtime.token_bucket import RatePolicy, TokenBuckets

MIN_PASSWORD_LENGTH = 12
MAX_PASSWORD_LENGTH = 256
OIDC_LIFE = timedelta(minutes=10)
DEVICE_LIFE = timedelta(minutes=10)
SETUP_LIFE = timedelta(days=1)
MAX_CHALLENGES = 10_000
MAX_STARTED = 120
"""Sign-ins that one address starts in a minute."""
MAX_SOURCES = 20_000
_EVICTED = 100
_WRONG = "wrong address or password"
_LINK_USED = "this link was already used or has expired"
# Without vowels and lookalikes, so that codes are easy to type and form no words.
_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_CODE_LENGTH = 8


@dataclass(frozen=True, slots=True)
class StartedSignIn:
    """A started sign-in: the URL for the browser, and the secret that it must send back."""

    url: str
    browser: str


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """The reply of an identity provider, by the browser.

    `redirect` is the URL on which it arrived, and `issuer` its parameter `iss` (RFC 9207).
    """

    redirect: str
    state: str
    code: str
    issuer: str = ""


class DevicePending(TowlineError):
    """No user has decided on the device's code yet."""


class SignIn:
    """Operations for signing in. `local` enables passwords."""

    def __init__(
        self,
        context: StoreContext,
        federation: Federation,
        passwords: Passwords,
        *,
        local: bool = True,
    ) -> None:
        self._context = context
        self._federation = federation
        self._passwords = passwords
        self.local = local
        self.refresh_tokens = RefreshTokens(context)
        policy, now = RatePolicy.per(60.0, MAX_STARTED), context.clock.monotonic()
        self._started = TokenBuckets[str](policy, now, MAX_SOURCES)

    def providers(self) -> list[tuple[str, str]]:
        """(name, title) of each identity provider."""
        return [(issuer.name, issuer.title) for issuer in self._federation.issuers.configured()]

    async def sign_in_with_password(self, email: str, password: str, source: str) -> str:
        """The secret of a new session.

        Unauthenticated: wrong address or password. LimitExceeded: too many failures.
        """
        if not self.local:
            raise Forbidden("password sign-in is disabled: use an identity provider")
        counters = {
            _counter_id("account", email.lower()): MAX_FAILURES_PER_ACCOUNT,
            _counter_id("source", source_network(source)): MAX_FAILURES_PER_SOURCE,
        }
        # Counted before the check, which is slow: concurrent attempts must not pass the limit.
        await self._count_attempt(counters)
        async with self._context.store.read() as tx:
            user = await tx[UserStore].by_email(email)
        hash = user.password if user and user.kind is UserKind.PERSON else None
        try:
            is_correct = await self._passwords.verify(hash, password[: MAX_PASSWORD_LENGTH + 1])
        except LimitExceeded:
            await self._uncount_attempt(counters)
            raise
        if user is None or not is_correct or user.disabled_at is not None:
            await self._audit_failure(email, source)
            raise Unauthenticated(_WRONG)
        await self._uncount_attempt(counters)
        return await self._create_session(user, source, "password")

    async def begin_oidc(self, issuer: str, redirect: str, back: str, source: str) -> StartedSignIn:
        """Starts a sign-in at an identity provider; `back` is the local path to open afterwards.

        LimitExceeded: the address `source` starts too many sign-ins.
        """
        self._check_start_rate(source)
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        url = await self._federation.issuers.authorization_url(
            issuer, redirect, state, nonce, challenge
        )
        detail = {
            "issuer": issuer,
            "redirect": redirect,
            "verifier": verifier,
            "nonce": nonce,
            "back": back,
            "browser": _sha256(browser),
        }
        await self._add_challenge(ChallengeKind.OIDC, state, OIDC_LIFE, detail)
        return StartedSignIn(url, browser)

    async def finish_oidc(self, reply: ProviderReply, browser: str, source: str) -> tuple[str, str]:
        """(secret of a new session, path to open).

        Unauthenticated: the sign-in was started in another browser or at another provider, or
        finished before.
        """
        challenge = await self._use_challenge(ChallengeKind.OIDC, reply.state)
        detail = challenge.detail
        if not secrets.compare_digest(detail["browser"], _sha256(browser)):
            raise Unauthenticated("this sign-in was started in another browser: start again")
        issuers = self._federation.issuers
        if detail["redirect"] != reply.redirect:
            raise Unauthenticated("this sign-in was started at another provider: start again")
        await issuers.check_reply(detail["issuer"], reply.issuer)
        claims = await issuers.redeem_code(
            detail["issuer"], reply.redirect, reply.code, detail["verifier"], detail["nonce"]
        )
        user = await self._federation.admit(claims)
        if user.disabled_at is not None:
            raise Unauthenticated(f"the account {user.email} is disabled")
        return await self._create_session(user, source, detail["issuer"]), detail["back"]

    async def begin_device(
        self, client: str, source: str, *, renewable: bool = False
    ) -> tuple[str, str]:
        """(device code, user code) for a program without a browser (RFC 8628).

        `renewable`: issues a short-lived token with a refresh token instead of a token for 90 days.
        LimitExceeded: the address `source` starts too many sign-ins.
        """
        self._check_start_rate(source)
        check_text(client[:80], "client_id")
        device = secrets.token_urlsafe(32)
        code = "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_LENGTH))
        detail = {"client": client[:80], "source": source[:64]}
        if renewable:
            detail["renewable"] = "yes"
        await self._add_challenge(ChallengeKind.DEVICE, device, DEVICE_LIFE, detail, code)
        return device, code

    async def pending_device(self, actor: Actor, code: str) -> SignInChallenge:
        """The pending sign-in with this code, for review before the decision."""
        async with self._context.read(actor) as tx:
            return await self._find_pending_device(tx, code)

    async def decide_device(self, actor: Actor, code: str, *, approve: bool) -> None:
        """Approves or denies the device with this code to act as the caller.

        Forbidden: the caller's token has limited permissions.
        """
        require_member(actor)
        if actor.kind is not ActorKind.USER or actor.policy.limits:
            raise Forbidden("only a signed-in user can decide on devices")
        action = "approveDevice" if approve else "refuseDevice"
        async with self._context.change(actor, action) as tx:
            tx.authorized_by("signed-in user")
            if await latest_expiry(tx, actor) is not None:
                raise Forbidden("sign in to decide on devices: your token expires")
            challenge = await self._find_pending_device(tx, code)
            detail = {"decision": "yes" if approve else "no", **challenge.detail}
            await tx[ChallengeStore].decide(challenge.id, actor.id, detail)
            tx.audit(detail["client"], challenge.id, device=detail["source"])

    async def poll_device(self, device: str) -> IssuedTokens:
        """The token of an approved device, returned once. DevicePending: not decided yet.

        Forbidden: denied. Unauthenticated: expired, or unknown code.
        """
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            challenge = await self._find_challenge(tx, ChallengeKind.DEVICE, device)
            if challenge.user_id is None:
                raise DevicePending("not decided yet")
            await tx[ChallengeStore].mark_used(challenge.id, now)
            user = await find_user(tx, challenge.user_id)
            # Disabling a user revokes all tokens, so this one must not come after it.
            if challenge.detail.get("decision") == "yes" and user.disabled_at is None:
                return await self._token_of_device(tx, challenge.detail, user.id)
        raise Forbidden("the request was denied")

    async def _token_of_device(
        self, tx: Transaction, detail: Mapping[str, str], user_id: str
    ) -> IssuedTokens:
        name, source = detail["client"], detail["source"]
        if "renewable" in detail:
            return await self.refresh_tokens.start_family(tx, name, user_id, source)
        minted = await mint(
            tx, self._context, name, user_id=user_id, life=USER_TOKEN_LIFE, source=source
        )
        return IssuedTokens(*minted)

    async def setup_secret(self) -> str | None:
        """The secret of a link to set the first administrator's password.

        None after any user has set a password or signed in through a provider.
        """
        async with self._context.store.read() as tx:
            users = await tx[UserStore].all()
            logins = await tx[LoginStore].all()
        if not self.local or logins or any(user.password for user in users):
            return None
        secret = secrets.token_urlsafe(32)
        await self._add_challenge(ChallengeKind.SETUP, secret, SETUP_LIFE, {})
        return secret

    async def set_up(self, secret: str, email: str, name: str, password: str, source: str) -> str:
        """Sets up the first administrator with a password; returns a session's secret.

        The link is valid once.
        """
        hash = await self._passwords.hash(_check_password(password))
        check_address(email)
        check_text(name or email, "name", 320)
        await self._use_challenge(ChallengeKind.SETUP, secret)
        now = self._context.clock.now()
        async with self._context.change(SYSTEM, "setUp") as tx:
            tx.authorized_by("setup link")
            admin = await tx[UserStore].by_email("admin")
            if admin is None or await tx[UserStore].by_email(email) is not None:
                raise Conflict("the first administrator is already set up")
            user = replace(admin, email=email, name=name or email, password=hash, updated_at=now)
            await tx[UserStore].put(user)
            tx.audit(email, user.id, role=ADMIN.id)
        return await self._create_session(user, source, "setup link")

    async def sign_out(self, actor: Actor) -> None:
        """Ends the caller's session."""
        require_member(actor)
        if actor.token_id is None:
            return
        async with self._context.change(actor, "signOut") as tx:
            tx.authorized_by("own session")
            await tx[TokenStore].revoke(actor.token_id, self._context.clock.now())
            tx.audit(actor.email, actor.token_id)
            tx.publish(REVOKED, actor.token_id)

    async def _create_session(self, user: User, source: str, method: str) -> str:
        now = self._context.clock.now()
        actor = Actor(ActorKind.USER, user.id, user.name, user.email, source=source)
        async with self._context.change(actor, "signIn") as tx:
            tx.authorized_by(method)
            await self._notify_of_new_address(tx, user, source[:64])
            row, secret = await mint(
                tx,
                self._context,
                f"session by {method}",
                user_id=user.id,
                life=SESSION_LIFE,
                kind=TokenKind.SESSION,
                idle_at=now + SESSION_IDLE,
                source=source[:64],
            )
            tx.audit(user.email, row.id, by=method)
            await tx[SignInFailureStore].remove(_counter_id("account", user.email.lower()))
        return secret

    async def _notify_of_new_address(self, tx: Transaction, user: User, source: str) -> None:
        """Notifies of a sign-in from a new address; an account's first sign-in is no new
        address."""
        sessions = await tx[TokenStore].of_user(user.id, TokenKind.SESSION)
        if sessions and all(session.source != source for session in sessions):
            subject = f"{user.email} signed in from a new address: {source}"
            kind = NotificationKind.LOGIN_NEW_PLACE
            await tx[NotificationOutbox].append(
                [notification(kind, self._context.clock.now(), subject)]
            )

    @retry_on_collision
    async def _count_attempt(self, counters: Mapping[str, int]) -> None:
        """Counts an attempt for each counter, and deletes expired counters.

        LimitExceeded: a counter is at its limit.
        """
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            await tx[SignInFailureStore].remove_before("until", now)
            rows = {row.id: row for row in await tx[SignInFailureStore].lock(list(counters))}
            for id, limit in counters.items():
                row = rows.get(id)
                if row is not None and row.count >= limit:
                    wait = (row.until - now).total_seconds()
                    raise LimitExceeded(
                        f"too many failed sign-ins: try again in {wait / 60:.0f} minutes",
                        retry_after=wait,
                    )
            for id in counters:
                if (row := rows.get(id)) is not None:
                    await tx[SignInFailureStore].set_count(id, row.count + 1)
                else:
                    await tx[SignInFailureStore].add(SignInFailures(id, 1, now + FAILURES_WINDOW))

    @retry_on_collision
    async def _uncount_attempt(self, counters: Mapping[str, int]) -> None:
        """Takes back the count of an attempt that did not fail."""
        async with self._context.store.write() as tx:
            for row in await tx[SignInFailureStore].lock(list(counters)):
                if row.count > 1:
                    await tx[SignInFailureStore].set_count(row.id, row.count - 1)
                else:
                    await tx[SignInFailureStore].remove(row.id)

    async def _audit_failure(self, email: str, source: str) -> None:
        async with self._context.store.write() as tx:
            anonymous = Actor(ActorKind.ANONYMOUS, name="", source=source)
            entry = self._context.audit_entry(anonymous, "signIn", email, "")
            await tx[AuditTrail].append([replace(entry, verdict=AuditVerdict.REFUSED)])

    async def _add_challenge(
        self,
        kind: ChallengeKind,
        secret: str,
        life: timedelta,
        detail: dict[str, str],
        code: str | None = None,
    ) -> None:
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            await tx[ChallengeStore].remove_before("expires_at", now)
            if await tx[ChallengeStore].count() >= MAX_CHALLENGES:
                # The limit of each address keeps an attacker with few addresses below this number.
                # One with many must not stop the sign-ins of others, so the oldest end early.
                started = {"kind": [ChallengeKind.OIDC, ChallengeKind.DEVICE]}
                oldest = await tx[ChallengeStore].page(PageQuery(_EVICTED, equals=started))
                await tx[ChallengeStore].remove_each([row.id for row in oldest.items])
            await tx[ChallengeStore].add(
                SignInChallenge(
                    self._context.new_id(), kind, _sha256(secret), now, now + life, code, detail
                )
            )

    def _check_start_rate(self, source: str) -> None:
        now = self._context.clock.monotonic()
        if wait := self._started.get(source_network(source), now).take(now):
            raise LimitExceeded(
                f"too many sign-ins were started from {source or 'this address'}: try again in "
                f"{math.ceil(wait)} s",
                retry_after=wait,
            )

    async def _use_challenge(self, kind: ChallengeKind, secret: str) -> SignInChallenge:
        """Marks a challenge as used, and returns it."""
        async with self._context.store.write() as tx:
            challenge = await self._find_challenge(tx, kind, secret)
            await tx[ChallengeStore].mark_used(challenge.id, self._context.clock.now())
        return challenge

    async def _find_challenge(
        self, tx: Transaction, kind: ChallengeKind, secret: str
    ) -> SignInChallenge:
        challenge = await tx[ChallengeStore].by_hash(_sha256(secret), kind)
        now = self._context.clock.now()
        if challenge is None or challenge.taken_at is not None or challenge.expires_at <= now:
            raise Unauthenticated(_LINK_USED)
        return challenge

    async def _find_pending_device(self, tx: Transaction, code: str) -> SignInChallenge:
        normalized = code.upper().replace("-", "").replace(" ", "")
        challenge = await tx[ChallengeStore].by_code(normalized)
        now = self._context.clock.now()
        if challenge is None or challenge.user_id is not None or challenge.expires_at <= now:
            raise NotFound("no device waits for this code: it is mistyped or has expired")
        return challenge


def _check_password(password: str) -> str:
    check_length(password, "password", MAX_PASSWORD_LENGTH, least=MIN_PASSWORD_LENGTH)
    return password


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _counter_id(kind: str, name: str) -> str:
    return _sha256(f"{kind}:{name}")
