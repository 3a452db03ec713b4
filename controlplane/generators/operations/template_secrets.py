"""Secrets that a generator's template assigns to the services that it creates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.authorization import SYSTEM, Actor
from controlplane.generators.model.plan import GeneratorEvaluation
from controlplane.platform.context import OperationContext
from controlplane.platform.limits import check_count
from controlplane.platform.ports import Transaction
from controlplane.secrets.model.secret import MAX_USES, check_name
from controlplane.secrets.operations.uses import set_uses, usable_secret
from controlplane.secrets.ports import SecretStore
from controlplane.services.model.parts import UsedSecrets
from controlplane.services.model.service import Service
from controlplane.services.ports import SecretUseStore
from core.errors import Invalid
from core.identity import ServiceId

Uses = Mapping[str, str]
"""Ids of secrets, by the names that objects reference."""


async def template_secrets(tx: Transaction, actor: Actor, uses: UsedSecrets) -> dict[str, str]:
    """The secrets of a template. NotFound, Forbidden: the actor may not use one in services.

    Invalid: too many, a name that is not allowed, or a version, since services follow the current
    version.
    """
    check_count(len(uses), "template.secrets", MAX_USES)
    secrets = {}
    for name, (id, version) in sorted(uses.items()):
        if version is not None:
            raise Invalid(
                "must not specify a version: services follow the current one",
                field="template.secrets",
            )
        secret = await usable_secret(tx, actor, id)
        if not secret.current:
            raise Invalid(f"secret {secret.name!r} has no value yet", field="template.secrets")
        secrets[check_name(name, "template.secrets")] = secret.id
    return secrets


async def secrets_of_services(
    tx: Transaction, services: Sequence[Service]
) -> dict[ServiceId, dict[str, str]]:
    """The secrets of each service that has any."""
    secrets: dict[ServiceId, dict[str, str]] = {}
    rows = (
        await tx[SecretUseStore].of_services({service.id for service in services})
        if services
        else []
    )
    for row in rows:
        secrets.setdefault(ServiceId(row.service_id), {})[row.name] = row.secret_id
    return secrets


async def without_deleted_secrets(
    tx: Transaction, evaluation: GeneratorEvaluation
) -> GeneratorEvaluation:
    """The evaluation without deleted secrets, which become a problem."""
    secret_ids = {
        id for target in evaluation.services for id in (target.template.secrets or {}).values()
    }
    if not secret_ids:
        return evaluation
    existing = {secret.id for secret in await tx[SecretStore].by_ids(secret_ids) if secret.current}
    if secret_ids <= existing:
        return evaluation
    services = tuple(
        replace(
            target,
            template=replace(
                target.template, secrets=_without_deleted(target.template.secrets, existing)
            ),
        )
        for target in evaluation.services
    )
    problem = f"{len(secret_ids - existing)} secrets of the template were deleted: select others"
    return GeneratorEvaluation(services, (*evaluation.problems, problem))


async def assign_template_secrets(
    context: OperationContext, tx: Transaction, service: Service, secrets: Uses | None
) -> bool:
    """Replaces the secrets of a service with those of its template, if it defines any."""
    if secrets is None:
        return False
    return await set_uses(
        context, tx, SYSTEM, service, {k: (id, None) for k, id in secrets.items()}
    )


def _without_deleted(secrets: Uses | None, existing: set[str]) -> Uses | None:
    return None if secrets is None else {k: id for k, id in secrets.items() if id in existing}
