"""Secrets: their values, versions and uses.

The API never returns values. They leave only sealed for the agent of the cluster that needs them.
"""

from dataclasses import dataclass, field, replace

from controlplane.access.operations.scopes import check_not_moved, find_project, project_for
from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.platform.context import SECRET, NamedOperations, OperationContext
from controlplane.platform.names import check_length, check_text, join_names
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.secrets.model.generated import ValueGenerator
from controlplane.secrets.model.rotation import Rotation, RotationDecision, RotationPlan
from controlplane.secrets.model.secret import (
    MAX_VALUE_LENGTH,
    MAX_VERSIONS,
    Secret,
    SecretVersion,
    check_name,
    check_refresh,
    check_value,
)
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.operations import rotations
from controlplane.secrets.operations.uses import follow_current_version, services_of, set_uses
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.services.model.parts import SecretUse, UsedSecrets
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import wake_agents
from controlplane.services.operations.lookup import find_managed_service
from controlplane.services.ports import SecretUseStore
from core.errors import Conflict, Invalid, TowlineError
from core.sealed_values import open_value

_MAX_TEXT_LENGTH = 1000
_MAX_SEALED_LENGTH = 2 * MAX_VALUE_LENGTH
_VALUE_FIELDS = ("value", "source", "generate", "sealed_value")


@dataclass(frozen=True, slots=True)
class SecretChange:
    """Changes to a secret. None leaves a field unchanged.

    `value`, `source`, `generate` and `sealed_value` exclude each other; setting one clears the
    others.
    """

    value: bytes | None = field(default=None, repr=False)
    """New value. Limit: 512 KiB."""
    source: SecretSource | None = None
    """External source."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    project_id: str | None = None
    """ID of the project. Default: the default project."""
    refresh_s: int | None = None
    """Seconds between two reads of the source, from 10 to 604,800. Default: 300."""
    plan: RotationPlan | None = None
    """Plan for moving services to a new value. A batch of 0 removes it: they get new values at
    once. Default: the present one."""
    generate: ValueGenerator | None = None
    """Form of a random value, which nobody sees. A new form generates a new value."""
    sealed_value: str | None = None
    """Value that only this installation can open, as `towline secrets seal` prints it. Exports
    contain it."""

    def columns(self) -> Columns:
        """The validated fields without the value. Invalid: names the field."""
        given_names = [name for name in _VALUE_FIELDS if getattr(self, name) not in (None, "")]
        if len(given_names) > 1:
            raise Invalid(
                "specify one of a value, a sealed value, a source and generate",
                field=given_names[0],
            )
        columns: Columns = {}
        if self.description is not None:
            text = self.description
            columns["description"] = (
                check_text(text, "description", _MAX_TEXT_LENGTH) if text else ""
            )
        if self.refresh_s is not None:
            columns["refresh_s"] = check_refresh(self.refresh_s)
        if self.plan is not None:
            columns["plan"] = self.plan.checked() if self.plan.batch else None
        if given_names == ["source"]:
            columns |= {"source": self.source and self.source.checked(), "generate": None}
        elif given_names:
            columns |= {"source": None, "due_at": None, "problem": "", "refreshed_at": None}
            columns["generate"] = self.generate and self.generate.checked()
        if given_names or self.sealed_value is not None:
            columns["sealed_value"] = check_length(
                self.sealed_value or "", "sealedValue", _MAX_SEALED_LENGTH
            )
        return columns


@dataclass(frozen=True, slots=True)
class UseView:
    """A use of a secret with its service."""

    use: SecretUse
    service: Service
    secret: Secret

    @property
    def applied(self) -> bool:
        """Returns whether the service's agent has applied the version."""
        return self.service.observed.observed_generation >= self.use.sequence


@retry_operations
class Secrets(NamedOperations[Secret]):
    """Operations on secrets, without their values."""

    kind = ResourceKind.SECRET
    noun = "secret"
    port = SecretStore

    async def versions(self, actor: Actor, id: str) -> list[SecretVersion]:
        """The versions of a secret, newest first, without values."""
        async with self._context.read(actor) as tx:
            require(actor, Verb.READ, (await self._find(tx, id)).target)
            rows = await tx[SecretVersionStore].of_secret(id)
        without_values = [replace(version, sealed=None) for version in rows]
        return sorted(without_values, key=lambda version: version.number, reverse=True)

    async def consumers(self, actor: Actor, id: str) -> list[UseView]:
        """The uses of a secret by services that the actor may see."""
        async with self._context.read(actor) as tx:
            secret = await self._find(tx, id)
            require(actor, Verb.READ, secret.target)
            uses = await tx[SecretUseStore].of_secret(id)
            services = await services_of(tx, uses)
        views = [
            UseView(u, services[u.service_id], secret) for u in uses if u.service_id in services
        ]
        readable = [view for view in views if actor.may(Verb.READ, view.service.target)]
        return sorted(
            readable, key=lambda view: (view.service.name, view.service.id, view.use.name)
        )

    async def used_by(self, actor: Actor, service_id: str) -> list[UseView]:
        """The uses of a service, of secrets that the actor may see."""
        async with self._context.read(actor) as tx:
            service = await find_managed_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            uses = await tx[SecretUseStore].of_services(service_id)
            rows = await tx[SecretStore].by_ids({use.secret_id for use in uses}) if uses else []
        readable = {secret.id: secret for secret in rows if actor.may(Verb.READ, secret.target)}
        views = [
            UseView(u, service, readable[u.secret_id]) for u in uses if u.secret_id in readable
        ]
        return sorted(views, key=lambda view: view.use.name)

    async def save(self, actor: Actor, name: str, change: SecretChange) -> Secret:
        """Creates or changes a secret.

        A different value creates a version. Services that follow the secret get it at once, or in
        batches if the secret has a plan. Conflict: a rotation is active.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "saveSecret") as tx:
            before = await tx[SecretStore].by_name(check_name(name))
            if before is None:
                project = await project_for(tx, ResourceKind.SECRET, change.project_id)
                before = Secret(self._context.new_id(), name, now, now, project)
                await tx[SecretStore].add(before)
            tx.authorize(Verb.WRITE, before.target)
            check_not_moved(f"secret {name!r}", before.project_id, change.project_id)
            columns = change.columns()
            if change.source is not None:
                await change.source.check_access(self._context, tx, actor)
                columns["due_at"] = now
            after = replace(before, **columns, updated_at=now)
            moved: list[Service] = []
            value = await self._new_value(tx, before, change)
            if value is not None:
                user, checked_value = actor.shown_name, check_value(value)
                after, moved = await add_version(self._context, tx, after, checked_value, user)
            await tx[SecretStore].put(after)
            changed = sorted(columns.keys() - {"due_at", "problem", "refreshed_at"})
            tx.audit(name, after.id, version=after.newest, changed=changed)
            tx.publish(SECRET, after.id)
        wake_agents(self._context, moved)
        return after

    async def current_value(self, tx: Transaction, secret: Secret) -> str:
        """Returns the value of a secret, empty without one: the caller must drop it."""
        row = await tx[SecretVersionStore].numbered(secret.id, secret.current)
        if row is None or row.sealed is None:
            return ""
        return self._context.sealer.open(row.sealed, row.context).decode(errors="replace")

    async def _new_value(
        self, tx: Transaction, before: Secret, change: SecretChange
    ) -> bytes | None:
        """The new value of a secret. None: it keeps its value."""
        if change.generate is not None and before.generate != change.generate:
            return change.generate.value()
        if not change.sealed_value or change.sealed_value == before.sealed_value:
            return change.value
        project = await find_project(tx, before.project_id)
        key = self._context.sealer.manifest_key
        try:
            return open_value(key, change.sealed_value, project.name, before.name)
        except Invalid as error:
            raise Invalid(error.message, field="sealedValue") from None

    async def delete(self, actor: Actor, id: str) -> Secret:
        """Deletes a secret with all its values. Conflict: services still use it."""
        async with self._context.change(actor, "deleteSecret") as tx:
            secret = await self._find(tx, id)
            tx.authorize(Verb.WRITE, secret.target)
            uses = await tx[SecretUseStore].of_secret(id)
            if uses:
                services = await services_of(tx, uses)
                names = sorted({service.name for service in services.values()})
                raise Conflict(
                    f"secret {secret.name!r} is in use by {join_names(names)}: "
                    f"`towline secrets consumers {secret.name}` shows them; end each use first"
                )
            for version in await tx[SecretVersionStore].of_secret(id):
                await tx[SecretVersionStore].remove(version.id)
            await tx[SecretStore].remove(id)
            tx.audit(secret.name, id)
        return secret

    async def use(self, actor: Actor, service_id: str, secrets: UsedSecrets) -> list[UseView]:
        """Replaces the secrets that a service uses. Conflict: its cluster is frozen."""
        async with self._context.change(actor, "useSecrets") as tx:
            service = await find_managed_service(tx, service_id)
            tx.authorize(Verb.WRITE, service.target)
            await check_not_frozen(tx, service.cluster_id)
            if await set_uses(self._context, tx, actor, service, secrets):
                tx.audit(service.name, service_id, names=sorted(secrets)[:50])
        wake_agents(self._context, [service])
        return await self.used_by(actor, service_id)

    async def revoke(self, actor: Actor, id: str, number: int) -> Secret:
        """Deletes a version's value. Conflict: it is current, or still used."""
        async with self._context.change(actor, "revokeSecretVersion") as tx:
            secret = await self._find(tx, id)
            tx.authorize(Verb.WRITE, secret.target)
            if secret.rotating:
                raise Conflict(f"a rotation of {secret.name!r} is active: finish or abort it first")
            await rotations.destroy_version(self._context, tx, secret, number)
            tx.audit(secret.name, id, version=number)
            tx.publish(SECRET, id)
        return secret

    async def decide(self, actor: Actor, id: str, decision: RotationDecision) -> Secret:
        """Applies a user's decision to the active rotation.

        Conflict: not possible now, or no rotation is active.
        """
        async with self._context.change(actor, "decideSecretRotation") as tx:
            secret = await self._find(tx, id)
            tx.authorize(Verb.WRITE, secret.target)
            user = actor.shown_name
            after, moved = await rotations.decide_rotation(
                self._context, tx, secret, decision, user
            )
            tx.audit(secret.name, id, decision=decision.value)
            tx.publish(SECRET, id)
        wake_agents(self._context, moved)
        return after


async def add_version(
    context: OperationContext, tx: Transaction, secret: Secret, value: bytes, by: str
) -> tuple[Secret, list[Service]]:
    """Adds a version if the value differs; returns the secret and the services to notify.

    The caller writes the secret's row. Conflict: a rotation is active.
    """
    if secret.rotating:
        raise Conflict(f"a rotation of {secret.name!r} is active: finish or abort it first")
    if secret.newest and await _has_same_value(context, tx, secret, value):
        return secret, []
    await _check_version_limit(tx, secret)
    version = SecretVersion(context.new_id(), secret.id, secret.newest + 1, context.clock.now(), by)
    sealed = context.sealer.seal(value, version.context)
    await tx[SecretVersionStore].add(replace(version, sealed=sealed))
    number = version.number
    if secret.plan is not None and secret.current:
        rotation = Rotation(secret.current, number, context.clock.now(), by, secret.plan)
        return replace(secret, newest=number, rotation=rotation), []
    after = replace(secret, newest=number, current=number)
    return after, await follow_current_version(context, tx, after, by)


async def _has_same_value(
    context: OperationContext, tx: Transaction, secret: Secret, value: bytes
) -> bool:
    row = await tx[SecretVersionStore].numbered(secret.id, secret.current)
    if row is None or row.sealed is None:
        return False
    try:
        return context.sealer.open(row.sealed, row.context) == value
    except TowlineError:
        # A secret that cannot be decrypted is repaired by setting it again.
        return False


async def _check_version_limit(tx: Transaction, secret: Secret) -> None:
    versions = await tx[SecretVersionStore].usable(secret.id)
    if len(versions) >= MAX_VERSIONS:
        raise Invalid(f"{MAX_VERSIONS} versions have a value: revoke some first", field="value")
