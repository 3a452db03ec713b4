"""Token exchange (RFC 8693): tokens of other issuers for service account tokens, by trust rules."""

from datetime import timedelta

from controlplane.access.model.sign_in import Claims, TrustRule, TrustRuleSpec
from controlplane.access.model.users import Token
from controlplane.access.operations.tokens import mint
from controlplane.access.operations.users import (
    ADMINISTER_USERS,
    find_service_account,
    require_permissions_of_user,
)
from controlplane.access.ports import Issuers, TrustRuleStore, UserStore
from controlplane.authorization import SYSTEM, Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.context import StoreContext
from controlplane.platform.retry import retry_operations
from core.errors import Invalid, NotFound, Unauthenticated
from core.identity import TokenKind

MAX_RULES_PER_ISSUER = 100
_NO_RULE_MATCHES = "no trust rule matches this token"


@retry_operations
class TokenExchange:
    """Operations on trust rules, and the token exchange."""

    def __init__(self, context: StoreContext, issuers: Issuers) -> None:
        self._context = context
        self._issuers = issuers

    async def trust_rules(self, actor: Actor) -> list[TrustRule]:
        """Lists all trust rules."""
        require(actor, Verb.READ, Resource.whole(ResourceKind.USER))
        async with self._context.store.read() as tx:
            return await tx[TrustRuleStore].all()

    async def trust(self, actor: Actor, user_id: str, spec: TrustRuleSpec) -> TrustRule:
        """Creates a trust rule: matching tokens are exchanged for tokens of a service account.

        The actor must hold every permission of that service account.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "createTrustRule", ADMINISTER_USERS) as tx:
            spec = spec.checked()
            user = await find_service_account(tx, user_id)
            await require_permissions_of_user(tx, actor, user, now)
            rules = await tx[TrustRuleStore].of_issuer(spec.issuer)
            if len(rules) >= MAX_RULES_PER_ISSUER:
                raise Invalid(f"at most {MAX_RULES_PER_ISSUER} rules per issuer", field="issuer")
            rule = TrustRule(self._context.new_id(), user_id, now, spec)
            await tx[TrustRuleStore].add(rule)
            tx.audit(user.email, rule.id, issuer=spec.issuer, subject=spec.subject)
        return rule

    async def delete_trust_rule(self, actor: Actor, id: str) -> TrustRule:
        """Deletes a trust rule. Tokens that were issued by it stay valid until they expire."""
        async with self._context.change(actor, "deleteTrustRule", ADMINISTER_USERS) as tx:
            rule = await tx[TrustRuleStore].get(id)
            if rule is None:
                raise NotFound
            await tx[TrustRuleStore].remove(id)
            tx.audit(rule.spec.issuer, id)
        return rule

    async def exchange(self, token: str, source: str = "") -> tuple[Token, str]:
        """Issues a short-lived token of the service account whose trust rule matches `token`.

        Unauthenticated: no rule matches.
        """
        issuer = self._issuers.unverified_issuer(token)
        async with self._context.store.read() as tx:
            rules = await tx[TrustRuleStore].of_issuer(issuer)
        for rule in rules:
            try:
                claims = await self._issuers.verify_for_audience(
                    token, issuer, rule.spec.audience, rule.spec.keys
                )
            except Unauthenticated:
                continue
            if rule.spec.matches(claims):
                return await self._issue(rule, claims, source)
        raise Unauthenticated(_NO_RULE_MATCHES)

    async def _issue(self, rule: TrustRule, claims: Claims, source: str) -> tuple[Token, str]:
        now = self._context.clock.now()
        lifetime = timedelta(minutes=rule.spec.minutes)
        life = min(lifetime, claims.expires_at - now + timedelta(hours=1))
        async with self._context.change(SYSTEM, "exchangeToken") as tx:
            tx.authorized_by(f"trust rule {rule.id}")
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
            tx.audit(user.email, row.id, subject=claims.subject[:255])
        return row, secret
