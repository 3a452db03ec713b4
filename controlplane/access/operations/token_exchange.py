"""Token exchange (RFC 8693): tokens of other issuers for service account tokens, by trust rules."""

from collections.abc import Mapping
from datetime import timedelta
from fnmatch import fnmatchcase

from controlplane.access.model.sign_in import Claims, TrustRule
from controlplane.access.model.users import Token, UserKind
from controlplane.access.operations.tokens import mint
from controlplane.access.operations.users import require_permissions_of_user
from controlplane.access.ports import Issuers, TrustRuleStore, UserStore
from controlplane.authorization import SYSTEM, Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.context import StoreContext
from controlplane.platform.names import check_text
from controlplane.platform.retry import retry_operations
from core.errors import Invalid, NotFound, Unauthenticated
from core.identity import TokenKind

MAX_RULES_PER_ISSUER = 100
_MAX_KEYS_LENGTH = 64 << 10
_MAX_MINUTES = 24 * 60
_NO_RULE_MATCHES = "no trust rule matches this token"


@retry_operations
class TokenExchange:
    """Operations on trust rules, and the token exchange."""

    def __init__(self, deps: StoreContext, issuers: Issuers) -> None:
        self._context = deps
        self._issuers = issuers

    async def trust_rules(self, actor: Actor) -> list[TrustRule]:
        """Lists all trust rules."""
        require(actor, Verb.READ, Resource.whole(ResourceKind.USER))
        async with self._context.store.read() as tx:
            return await tx[TrustRuleStore].select()

    async def trust(
        self,
        actor: Actor,
        user_id: str,
        *,
        issuer: str,
        audience: str,
        subject: str,
        claims: Mapping[str, str],
        minutes: int = 60,
        keys: str | None = None,
    ) -> TrustRule:
        """Creates a trust rule: matching tokens are exchanged for tokens of a service account.

        The actor must hold every permission of that service account.
        """
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        if not issuer.startswith("https://"):
            raise Invalid("must begin with https://", field="issuer")
        for name, value in (("issuer", issuer), ("audience", audience), ("subject", subject)):
            check_text(value, name, 512)
        if not 1 <= minutes <= _MAX_MINUTES or len(claims) > 20:
            raise Invalid(
                f"must be 1 to {_MAX_MINUTES} minutes, with at most 20 claims", field="minutes"
            )
        if subject.strip("*") == "" and not claims:
            raise Invalid(
                "specify a subject or claims: this rule would trust every token", field="subject"
            )
        if keys is not None and len(keys) > _MAX_KEYS_LENGTH:
            raise Invalid(f"must have at most {_MAX_KEYS_LENGTH} characters", field="keys")
        rule = TrustRule(
            self._context.new_id(),
            user_id,
            issuer,
            audience,
            subject,
            self._context.clock.now(),
            dict(claims),
            minutes,
            keys or None,
        )
        async with self._context.store.write() as tx:
            user = await tx[UserStore].get(user_id)
            if user is None or user.kind is not UserKind.SERVICE_ACCOUNT:
                raise NotFound
            await require_permissions_of_user(tx, actor, user, self._context.clock.now())
            if len(await tx[TrustRuleStore].select(issuer=issuer)) >= MAX_RULES_PER_ISSUER:
                raise Invalid(f"at most {MAX_RULES_PER_ISSUER} rules per issuer", field="issuer")
            await tx[TrustRuleStore].add(rule)
            await self._context.audit(
                tx, actor, "createTrustRule", user.email, rule.id, issuer=issuer, subject=subject
            )
        return rule

    async def delete_trust_rule(self, actor: Actor, id: str) -> TrustRule:
        """Deletes a trust rule. Tokens that were issued by it stay valid until they expire."""
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.USER))
        async with self._context.store.write() as tx:
            rule = await tx[TrustRuleStore].get(id)
            if rule is None:
                raise NotFound
            await tx[TrustRuleStore].remove(id)
            await self._context.audit(tx, actor, "deleteTrustRule", rule.issuer, id)
        return rule

    async def exchange(self, token: str, source: str = "") -> tuple[Token, str]:
        """Issues a short-lived token of the service account whose trust rule matches `token`.

        Unauthenticated: no rule matches.
        """
        issuer = self._issuers.unverified_issuer(token)
        async with self._context.store.read() as tx:
            rules = await tx[TrustRuleStore].select(issuer=issuer)
        for rule in rules:
            try:
                claims = await self._issuers.verify_for_audience(
                    token, issuer, rule.audience, rule.keys
                )
            except Unauthenticated:
                continue
            if _fits(rule, claims):
                return await self._made(rule, claims, source)
        raise Unauthenticated(_NO_RULE_MATCHES)

    async def _made(self, rule: TrustRule, claims: Claims, source: str) -> tuple[Token, str]:
        now = self._context.clock.now()
        life = min(timedelta(minutes=rule.minutes), claims.expires_at - now + timedelta(hours=1))
        async with self._context.store.write() as tx:
            user = await tx[UserStore].get(rule.user_id)
            if user is None or user.disabled_at is not None:
                raise Unauthenticated(_NO_RULE_MATCHES)
            row, secret = await mint(
                tx,
                self._context,
                f"exchanged by {claims.subject}"[:255],
                user_id=user.id,
                life=life,
                kind=TokenKind.SERVICE_ACCOUNT,
                source=source[:64],
            )
            await self._context.audit(
                tx, SYSTEM, "exchangeToken", user.email, row.id, subject=claims.subject[:255]
            )
        return row, secret


def _fits(rule: TrustRule, claims: Claims) -> bool:
    return fnmatchcase(claims.subject, rule.subject) and all(
        fnmatchcase(str(claims.every.get(name, "")), pattern)
        for name, pattern in rule.claims.items()
    )
