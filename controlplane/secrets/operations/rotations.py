"""Secret rotations: applies the state machine of `model.rotation` to the store."""

from dataclasses import replace

from controlplane.platform.context import SECRET, ContextOperations, OperationContext
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found
from controlplane.secrets.model.rotation import (
    RotationDecision,
    RotationPhase,
    RotationStep,
    advance_rotation,
    apply_decision,
)
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.operations.uses import consumers, follow_current_version, move_uses
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import wake_agents
from controlplane.services.ports import SecretUseStore
from core.errors import Conflict


async def decide_rotation(
    context: OperationContext, tx: Transaction, secret: Secret, decision: RotationDecision, by: str
) -> tuple[Secret, list[Service]]:
    """Applies a user's decision to a rotation.

    Conflict: not possible now, or no rotation is active.
    """
    if secret.rotation is None:
        raise Conflict(f"secret {secret.name!r} has no active rotation")
    secret_consumers = await consumers(tx, secret)
    step = apply_decision(secret.rotation, decision, secret_consumers, context.clock.now())
    return await _apply_step(context, tx, secret, step, by)


class Rotations(ContextOperations):
    """Steps of rotations that need no decision of a user."""

    async def rotating(self) -> set[str]:
        """Ids of secrets with an active rotation."""
        async with self._context.store.read() as tx:
            return {secret.id for secret in await tx[SecretStore].all() if secret.rotating}

    async def outdated(self) -> list[str]:
        """Ids of secrets with services on an older version, for example after a cluster was
        unfrozen."""
        async with self._context.store.read() as tx:
            current = {secret.id: secret.current for secret in await tx[SecretStore].all()}
            uses = await tx[SecretUseStore].unpinned()
        return sorted({use.secret_id for use in uses if use.version != current[use.secret_id]})

    async def advance(self, secret_id: str) -> None:
        """Advances a rotation as far as possible; without one, moves services to the current
        version."""
        context = self._context
        async with context.store.write() as tx:
            secret = await tx[SecretStore].get(secret_id)
            if secret is None:
                return
            if secret.rotation is None or not secret.rotation.active:
                moved, after = await follow_current_version(context, tx, secret, "towline"), secret
            else:
                secret_consumers = await consumers(tx, secret)
                step = advance_rotation(secret.rotation, secret_consumers, context.clock.now())
                after, moved = await _apply_step(context, tx, secret, step, secret.rotation.by)
        if after != secret:
            context.bus.publish(SECRET, secret_id)
        wake_agents(context, moved)


async def destroy_version(
    context: OperationContext, tx: Transaction, secret: Secret, number: int
) -> None:
    """Deletes a version's value and keeps its row. Conflict: it is current, or in use."""
    row = found(await tx[SecretVersionStore].numbered(secret.id, number))
    if number == secret.current:
        raise Conflict(f"version {number} of {secret.name!r} is the current one")
    if uses := await tx[SecretUseStore].of_version(secret.id, number):
        raise Conflict(f"version {number} of {secret.name!r} is used by {len(uses)} services")
    if row.revoked_at is None:
        await tx[SecretVersionStore].revoke(row.id, context.clock.now())


async def _apply_step(
    context: OperationContext, tx: Transaction, secret: Secret, step: RotationStep, by: str
) -> tuple[Secret, list[Service]]:
    """Writes the state of a step, and carries out its actions, in one transaction."""
    after = replace(secret, rotation=step.rotation)
    moved: list[Service] = []
    if step.move:
        uses = await tx[SecretUseStore].by_ids(step.move)
        moved = await move_uses(context, tx, secret, uses, step.rotation.new, by)
    if step.revoke:
        after = replace(after, current=step.rotation.new)
        await destroy_version(context, tx, after, step.rotation.old)
    if step.rotation.phase is RotationPhase.ABORTED:
        moved += await follow_current_version(context, tx, after, by)
    if after != secret:
        await tx[SecretStore].put(after)
    return after, moved
