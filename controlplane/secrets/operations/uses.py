"""Uses of secrets: the version that each service gets, and how its agent is notified."""

from collections.abc import Collection, Iterable, Sequence

from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.clusters.operations.freezes import frozen_clusters
from controlplane.configuration.operations.secret_references import store_secret_flags
from controlplane.platform.context import OperationContext
from controlplane.platform.limits import check_count
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found, reference
from controlplane.secrets.model.rotation import SecretConsumer
from controlplane.secrets.model.secret import MAX_USES, Secret, check_name
from controlplane.secrets.ports import SecretStore, SecretVersionStore
from controlplane.services.model.parts import SecretUse, UsedSecrets
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import raise_generation
from controlplane.services.ports import SecretUseStore, ServiceStore
from core.errors import Conflict
from core.spec.status import Phase


async def set_uses(
    context: OperationContext, tx: Transaction, actor: Actor, service: Service, uses: UsedSecrets
) -> bool:
    """Replaces the secrets that a service uses; True if any changed.

    NotFound: the secret does not exist, or the actor may not see it. Forbidden: the actor may not
    use the secret.
    """
    check_count(len(uses), "uses", MAX_USES)
    current = {use.name: use for use in await tx[SecretUseStore].of_services(service.id)}
    secrets = {name: await usable_secret(tx, actor, id) for name, (id, _) in sorted(uses.items())}
    names: list[str] = []
    for name, secret in secrets.items():
        pinned_version = uses[name][1]
        version = await _version_for_use(tx, secret, pinned_version)
        before, pinned = current.get(name), pinned_version is not None
        if before is not None:
            if _is_same_use(before, secret, version, pinned=pinned):
                continue
            await tx[SecretUseStore].remove(before.id)
        await tx[SecretUseStore].add(
            SecretUse(
                context.new_id(),
                secret.id,
                service.id,
                check_name(name, "uses.name"),
                version,
                service.desired.generation + bool(service.desired.digest),
                context.clock.now(),
                pinned,
            )
        )
        names.append(f"{name} is version {version} of {secret.name}")
    for name in sorted(current.keys() - uses.keys()):
        await tx[SecretUseStore].remove(current[name].id)
        names.append(f"{name} is gone")
    if names:
        await store_secret_flags(tx, [service.id])
        await raise_generation(context, tx, service, names, actor.shown_name)
    return bool(names)


async def move_uses(
    context: OperationContext,
    tx: Transaction,
    secret: Secret,
    uses: Iterable[SecretUse],
    version: int,
    by: str,
) -> list[Service]:
    """Sets uses to a version; returns the services whose agents must be notified."""
    moved: dict[str, Service] = {}
    for use in sorted(uses, key=lambda use: (use.service_id, use.id)):
        # All uses of a service share the generation that the first one raises.
        service = moved.get(use.service_id)
        service = service or await tx[ServiceStore].get(use.service_id, deleted=True)
        if service is None:
            continue
        sequence = service.desired.generation + bool(service.desired.digest)
        await tx[SecretUseStore].change(
            use.id, version=version, sequence=sequence, changed_at=context.clock.now()
        )
        if service.id not in moved:
            text = f"{use.name} is version {version} of {secret.name}"
            await raise_generation(context, tx, service, [text], by)
            moved[service.id] = service
    return list(moved.values())


async def follow_current_version(
    context: OperationContext, tx: Transaction, secret: Secret, by: str
) -> list[Service]:
    """Moves all uses that follow a secret to its current version, except in frozen clusters."""
    if secret.rotating or not secret.current:
        return []
    uses = await tx[SecretUseStore].following(secret.id)
    outdated = [use for use in uses if use.version != secret.current]
    movable = await _in_unfrozen_clusters(tx, outdated)
    return await move_uses(context, tx, secret, movable, secret.current, by)


async def consumers(tx: Transaction, secret: Secret) -> list[SecretConsumer]:
    """The uses of a secret, with the state of their services."""
    uses = await tx[SecretUseStore].of_secret(secret.id)
    services = await services_of(tx, uses)
    frozen = await frozen_clusters(tx) if uses else {}
    return [
        _consumer(use, services[use.service_id], frozen)
        for use in uses
        if use.service_id in services
    ]


async def services_of(tx: Transaction, uses: Collection[SecretUse]) -> dict[str, Service]:
    """The services of uses, by id."""
    ids = {use.service_id for use in uses}
    services = await tx[ServiceStore].by_ids(ids) if ids else []
    return {service.id: service for service in services}


def _consumer(use: SecretUse, service: Service, frozen: Collection[str]) -> SecretConsumer:
    has_version = service.observed.observed_generation >= use.sequence
    return SecretConsumer(
        use.id,
        service.name,
        use.version,
        settled=has_version and service.observed.phase is Phase.HEALTHY,
        failed=has_version and service.observed.phase in (Phase.FAILED, Phase.DEGRADED),
        movable=not use.pinned and service.cluster_id not in frozen,
    )


async def _in_unfrozen_clusters(tx: Transaction, uses: Sequence[SecretUse]) -> Sequence[SecretUse]:
    frozen = await frozen_clusters(tx) if uses else {}
    if not frozen:
        return uses
    services = await services_of(tx, uses)
    unfrozen = {id for id, service in services.items() if service.cluster_id not in frozen}
    return [use for use in uses if use.service_id in unfrozen]


async def usable_secret(tx: Transaction, actor: Actor, id: str) -> Secret:
    """A secret that the actor may use in services. NotFound, Forbidden."""
    with reference("secretId", id):
        secret = found(await tx[SecretStore].get(id), ResourceKind.SECRET)
        require(actor, Verb.USE, secret.target)
    return secret


async def _version_for_use(tx: Transaction, secret: Secret, pinned: int | None) -> int:
    """The version for a new use. Conflict: it does not exist, or was revoked."""
    rotation = secret.rotation
    number = pinned or (rotation.new if rotation and rotation.active else secret.current)
    row = await tx[SecretVersionStore].numbered(secret.id, number)
    if row is None or row.revoked_at is not None:
        missing = f"version {number}" if number else "value yet"
        raise Conflict(f"secret {secret.name!r} has no {missing}")
    return number


def _is_same_use(before: SecretUse, secret: Secret, version: int, *, pinned: bool) -> bool:
    is_same = before.secret_id == secret.id and before.pinned == pinned
    return is_same and (before.version == version or not pinned)
