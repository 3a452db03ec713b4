"""Token exchange (RFC 8693): tokens of other issuers for service account tokens, by trust rules."""

from collections.abc import Mapping
from datetime import timedelta
from fnmatch import fnmatchcase

from controlplane.domain.access import SYSTEM, Actor, Kind, Target, Verb, require
from controlplane.domain.names import check_text
from controlplane.domain.people import Token, UserKind
from controlplane.domain.signin import Claims, TrustRule
from controlplane.ports import Issuers
from controlplane.usecases.deps import Deps
from controlplane.usecases.people import require_covers_user
from controlplane.usecases.retrying import retried
from controlplane.usecases.tokens import mint
from fleet.errors import Invalid, NotFound, Unauthenticated
from fleet.identity import TokenKind

MOST_RULES_OF_ISSUER = 100
_LONGEST_KEYS = 64 << 10
_MOST_MINUTES = 24 * 60
_REFUSED = "no trust rule matches this token"


@retried
class Accounts:
    """Operations on trust rules, and the token exchange."""

    def __init__(self, deps: Deps, issuers: Issuers) -> None:
        self._deps = deps
        self._issuers = issuers

    async def trust_rules(self, actor: Actor) -> list[TrustRule]:
        """Lists all trust rules."""
        require(actor, Verb.READ, Target.whole(Kind.USER))
        async with self._deps.store.read() as tx:
            return await tx.trust_rules.select()

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
        require(actor, Verb.ADMINISTER, Target.whole(Kind.USER))
        if not issuer.startswith("https://"):
            raise Invalid("must begin with https://", field="issuer")
        for name, value in (("issuer", issuer), ("audience", audience), ("subject", subject)):
            check_text(value, name, 512)
        if not 1 <= minutes <= _MOST_MINUTES or len(claims) > 20:
            raise Invalid(
                f"must be 1 to {_MOST_MINUTES} minutes, with at most 20 claims", field="minutes"
            )
        if subject.strip("*") == "" and not claims:
            raise Invalid(
                "specify a subject or claims: this rule would trust every token", field="subject"
            )
        if keys is not None and len(keys) > _LONGEST_KEYS:
            raise Invalid(f"must have at most {_LONGEST_KEYS} characters", field="keys")
        rule = TrustRule(
            self._deps.new_id(),
            user_id,
            issuer,
            audience,
            subject,
            self._deps.clock.now(),
            dict(claims),
            minutes,
            keys or None,
        )
        async with self._deps.store.write() as tx:
            user = await tx.users.get(user_id)
            if user is None or user.kind is not UserKind.SERVICE_ACCOUNT:
                raise NotFound
            await require_covers_user(tx, actor, user, self._deps.clock.now())
            if len(await tx.trust_rules.select(issuer=issuer)) >= MOST_RULES_OF_ISSUER:
                raise Invalid(f"at most {MOST_RULES_OF_ISSUER} rules per issuer", field="issuer")
            await tx.trust_rules.add(rule)
            await self._deps.audit(
                tx, actor, "createTrustRule", user.email, rule.id, issuer=issuer, subject=subject
            )
        return rule

    async def distrust(self, actor: Actor, id: str) -> TrustRule:
        """Deletes a trust rule. Tokens that were issued by it stay valid until they expire."""
        require(actor, Verb.ADMINISTER, Target.whole(Kind.USER))
        async with self._deps.store.write() as tx:
            rule = await tx.trust_rules.get(id)
            if rule is None:
                raise NotFound
            await tx.trust_rules.remove(id)
            await self._deps.audit(tx, actor, "deleteTrustRule", rule.issuer, id)
        return rule

    async def exchange(self, token: str, source: str = "") -> tuple[Token, str]:
        """Issues a short-lived token of the service account whose trust rule matches `token`.

        Unauthenticated: no rule matches.
        """
        issuer = self._issuers.named_by(token)
        async with self._deps.store.read() as tx:
            rules = await tx.trust_rules.select(issuer=issuer)
        for rule in rules:
            try:
                claims = await self._issuers.verify_for(token, issuer, rule.audience, rule.keys)
            except Unauthenticated:
                continue
            if _fits(rule, claims):
                return await self._made(rule, claims, source)
        raise Unauthenticated(_REFUSED)

    async def _made(self, rule: TrustRule, claims: Claims, source: str) -> tuple[Token, str]:
        now = self._deps.clock.now()
        life = min(timedelta(minutes=rule.minutes), claims.expires_at - now + timedelta(hours=1))
        async with self._deps.store.write() as tx:
            user = await tx.users.get(rule.user_id)
            if user is None or user.disabled_at is not None:
                raise Unauthenticated(_REFUSED)
            row, secret = await mint(
                tx,
                self._deps,
                f"exchanged by {claims.subject}"[:255],
                user_id=user.id,
                life=life,
                kind=TokenKind.SERVICE_ACCOUNT,
                source=source[:64],
            )
            await self._deps.audit(
                tx, SYSTEM, "exchangeToken", user.email, row.id, subject=claims.subject[:255]
            )
        return row, secret


def _fits(rule: TrustRule, claims: Claims) -> bool:
    return fnmatchcase(claims.subject, rule.subject) and all(
        fnmatchcase(str(claims.every.get(name, "")), pattern)
        for name, pattern in rule.claims.items()
    )
