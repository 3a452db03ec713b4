"""Creates, changes and deletes trust rules.

A rule gives the permissions of its service account to everybody with a matching token. So the actor
must hold all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.access.model.trust_rules import TrustRule, TrustRuleSpec
from controlplane.access.operations.delegation import require_permissions_of_user
from controlplane.access.operations.service_accounts import find_service_account
from controlplane.access.operations.users import ADMINISTER_USERS
from controlplane.access.ports import TrustRuleStore
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import Change, StoreOperations
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.names import check_label
from controlplane.platform.parts import Given, given_part
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from core.errors import Invalid

MAX_RULES_PER_ISSUER = 100


@dataclass(frozen=True, slots=True)
class TrustRuleChange:
    """Changes to a trust rule. None leaves a field unchanged."""

    name: str | None = None
    """Unique name, which cannot be changed. Required on creation."""
    spec: Given[TrustRuleSpec] = given_part(TrustRuleSpec)
    """Fields to change."""

    def applied(self, spec: TrustRuleSpec) -> TrustRuleSpec:
        """Returns the changed spec. Raises Invalid if a value is not allowed."""
        after = self.spec.applied(spec)
        for name in ("service_account_id", "issuer", "audience", "subject"):
            if not getattr(after, name):
                raise Invalid("is required", field=_API_NAMES.get(name, name))
        return after.checked()


_API_NAMES = {"service_account_id": "serviceAccount"}


@retry_operations
class TrustRules(StoreOperations):
    """Operations on trust rules."""

    async def all(self, actor: Actor, labels: Sequence[LabelRequirement] = ()) -> list[TrustRule]:
        """Lists the trust rules that meet label requirements."""
        require(actor, Verb.READ, Resource.whole(ResourceKind.USER))
        async with self._context.store.read() as tx:
            return await tx[TrustRuleStore].with_labels(labels)

    async def create(self, actor: Actor, change: TrustRuleChange) -> TrustRule:
        """Creates a trust rule: matching tokens are exchanged for tokens of a service account.

        Forbidden: the service account has a permission that the actor lacks.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "createTrustRule", ADMINISTER_USERS) as tx:
            name = check_label(change.name or "", "name")
            spec = change.applied(TrustRuleSpec())
            rule = TrustRule(self._context.new_id(), name, now, now, spec)
            if (existing := await tx[TrustRuleStore].by_name(name)) is not None:
                raise name_conflict(actor, existing, f"trust rule {name!r} already exists")
            await self._check_rule(tx, rule)
            await tx[TrustRuleStore].add(rule)
            self._audit(tx, rule)
        return rule

    async def update(self, actor: Actor, id: str, change: TrustRuleChange) -> TrustRule:
        """Changes a trust rule. Tokens that were issued by it stay valid until they expire.

        Forbidden: its old or new service account has a permission that the actor lacks.
        """
        async with self._context.change(actor, "updateTrustRule", ADMINISTER_USERS) as tx:
            before = await _find(tx, id)
            if change.name not in (None, before.name):
                raise Invalid("cannot be changed: create another rule", field="name")
            spec = change.applied(before.spec)
            rule = replace(before, spec=spec, updated_at=self._context.clock.now())
            if spec.service_account_id != before.spec.service_account_id:
                await self._check_account(tx, before.spec)
            await self._check_rule(tx, rule)
            await tx[TrustRuleStore].put(rule)
            self._audit(tx, rule)
        return rule

    async def delete(self, actor: Actor, id: str) -> TrustRule:
        """Deletes a trust rule. Tokens that were issued by it stay valid until they expire."""
        async with self._context.change(actor, "deleteTrustRule", ADMINISTER_USERS) as tx:
            rule = await _find(tx, id)
            await tx[TrustRuleStore].remove(id)
            self._audit(tx, rule)
        return rule

    async def _check_rule(self, tx: Change, rule: TrustRule) -> None:
        await self._check_account(tx, rule.spec)
        rules = await tx[TrustRuleStore].of_issuer(rule.spec.issuer)
        if sum(other.id != rule.id for other in rules) >= MAX_RULES_PER_ISSUER:
            raise Invalid(f"at most {MAX_RULES_PER_ISSUER} rules per issuer", field="issuer")

    async def _check_account(self, tx: Change, spec: TrustRuleSpec) -> None:
        with reference("serviceAccount", spec.service_account_id):
            user = await find_service_account(tx, spec.service_account_id)
        await require_permissions_of_user(tx, tx.actor, user, self._context.clock.now())

    def _audit(self, tx: Change, rule: TrustRule) -> None:
        spec = rule.spec
        account = spec.service_account_id
        tx.audit(rule.name, rule.id, issuer=spec.issuer, subject=spec.subject, account=account)


async def _find(tx: Transaction, id: str) -> TrustRule:
    return found(await tx[TrustRuleStore].get(id))
