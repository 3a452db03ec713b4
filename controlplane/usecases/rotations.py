"""Rotations of secrets: the pure machine of `domain.rotation` over rows."""

from dataclasses import replace

from controlplane.domain.rotation import Decision, RotationPhase, Step, decide, step
from controlplane.domain.secrets import Secret
from controlplane.domain.services import Service
from controlplane.ports import Transaction
from controlplane.usecases.deps import SECRET, Deps
from controlplane.usecases.secretuses import consumers, follow, move, wake
from fleet.errors import Conflict, NotFound


async def decided(
    deps: Deps, tx: Transaction, secret: Secret, decision: Decision, by: str
) -> tuple[Secret, list[Service]]:
    """What a person's word makes of a rotation. Conflict: not now, or none goes on."""
    if secret.rotation is None:
        raise Conflict(f"no rotation of {secret.name!r} goes on")
    found = await consumers(tx, secret)
    done = decide(secret.rotation, decision, found, deps.clock.now())
    return await _carried_out(deps, tx, secret, done, by)


class Rotations:
    """What is done about rotations without anybody's word."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def rotating(self) -> set[str]:
        """The ids of secrets whose rotation goes on."""
        async with self._deps.store.read() as tx:
            return {secret.id for secret in await tx.secrets.select() if secret.rotating}

    async def behind(self) -> list[str]:
        """The ids of secrets whose followers are to be moved: a cluster may have thawed."""
        async with self._deps.store.read() as tx:
            current = {secret.id: secret.current for secret in await tx.secrets.select()}
            uses = await tx.secret_uses.select(pinned=False)
        return sorted({use.secret_id for use in uses if use.version != current[use.secret_id]})

    async def advance(self, secret_id: str) -> None:
        """Take a rotation as far as it goes now; without one, bring followers along."""
        deps = self._deps
        async with deps.store.write() as tx:
            secret = await tx.secrets.find(id=secret_id)
            if secret is None:
                return
            if secret.rotation is None or not secret.rotation.active:
                moved, after = await follow(deps, tx, secret, "towline"), secret
            else:
                found = await consumers(tx, secret)
                done = step(secret.rotation, found, deps.clock.now())
                after, moved = await _carried_out(deps, tx, secret, done, secret.rotation.by)
        if after != secret:
            deps.bus.publish(SECRET, secret_id)
        wake(deps, moved)


async def destroy(deps: Deps, tx: Transaction, secret: Secret, number: int) -> None:
    """Destroy a version's value; the row stays. Conflict: it is current, or used."""
    row = await tx.secret_versions.find(secret_id=secret.id, number=number)
    if row is None:
        raise NotFound
    if number == secret.current:
        raise Conflict(f"version {number} of {secret.name!r} is the current one")
    if uses := await tx.secret_uses.select(secret_id=secret.id, version=number):
        raise Conflict(f"version {number} of {secret.name!r} is used by {len(uses)} services")
    if row.revoked_at is None:
        await tx.secret_versions.change(row.id, sealed=None, revoked_at=deps.clock.now())


async def _carried_out(
    deps: Deps, tx: Transaction, secret: Secret, done: Step, by: str
) -> tuple[Secret, list[Service]]:
    """Write a step's state and do what it asks for, in one transaction."""
    after = replace(secret, rotation=done.rotation)
    moved: list[Service] = []
    if done.move:
        uses = await tx.secret_uses.select(id=done.move)
        moved = await move(deps, tx, secret, uses, done.rotation.new, by)
    if done.revoke:
        after = replace(after, current=done.rotation.new)
        await destroy(deps, tx, after, done.rotation.old)
    if done.rotation.phase is RotationPhase.ABORTED:
        moved += await follow(deps, tx, after, by)
    if after != secret:
        await tx.secrets.put(after)
    return after, moved
