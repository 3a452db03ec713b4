"""Token exchange (RFC 8693): tokens of other issuers for service account tokens, by trust rules."""

from datetime import timedelta

from controlplane.access.model.sign_in import Claims
from controlplane.access.model.trust_rules import TrustRule
from controlplane.access.model.users import Token
from controlplane.access.operations.tokens import mint
from controlplane.access.ports import Issuers, TrustRuleStore, UserStore
from controlplane.authorization import SYSTEM
from controlplane.platform.context import StoreContext
from controlplane.platform.retry import retry_operations
from core.errors import Unauthenticated
from core.identity import TokenKind

_NO_RULE_MATCHES = "no trust rule matches this token"


@retry_operations
class TokenExchange:
    """Exchanges tokens of other issuers for tokens of service accounts."""

    def __init__(self, context: StoreContext, issuers: Issuers) -> None:
        self._context = context
        self._issuers = issuers

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
            tx.authorized_by(f"trust rule {rule.name}")
            user = await tx[UserStore].get(rule.spec.service_account_id)
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
