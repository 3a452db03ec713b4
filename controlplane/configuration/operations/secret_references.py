"""Secrets of `by_reference` contexts: templates contain placeholders, and agents fill in the
values."""

from collections.abc import Collection, Mapping

import orjson

from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.ports import ContextStore
from controlplane.platform.ports import Transaction
from controlplane.platform.sealing import Sealer
from controlplane.services.model.parts import SecretValue
from controlplane.services.model.service import Service
from controlplane.services.ports import ContextBindingStore, SecretUseStore, ServiceStore
from core.sealing import placeholder


def open_context_secrets(sealer: Sealer, context: ServiceContext) -> dict[str, str]:
    """The decrypted secrets of a context."""
    if context.sealed is None:
        return {}
    return orjson.loads(sealer.open(context.sealed, f"context:{context.id}"))


def reference_name(context: ServiceContext, key: str) -> str:
    """The name by which objects reference a secret of a context."""
    return f"{context.name}.{key}"


def check_references(sealer: Sealer, context: ServiceContext) -> None:
    """Invalid: the name of the context or of a secret is not allowed in a placeholder."""
    if context.by_reference:
        for key in open_context_secrets(sealer, context):
            placeholder(reference_name(context, key))


async def referenced_secrets(
    sealer: Sealer, tx: Transaction, service: Service
) -> Mapping[str, SecretValue]:
    """The secrets of bound contexts that a service's objects may reference."""
    rows = await tx[ContextBindingStore].of_services(service.id)
    ids = {row.context_id for row in rows}
    contexts = await tx[ContextStore].by_reference(ids) if ids else []
    return {
        reference_name(context, key): SecretValue(
            f"{context.id}.{context.secrets_version}", value.encode()
        )
        for context in contexts
        for key, value in open_context_secrets(sealer, context).items()
    }


async def reads_plain_secrets(tx: Transaction, service: Service) -> bool:
    """True if a render of a service can read values of secrets, instead of placeholders.

    Renderers read contexts too, not only Liquid templates.
    """
    rows = await tx[ContextBindingStore].of_services(service.id)
    ids = {row.context_id for row in rows}
    contexts = await tx[ContextStore].by_value(ids) if ids else []
    return any(context.sealed is not None for context in contexts)


async def store_secret_flags(tx: Transaction, service_ids: Collection[str]) -> None:
    """Stores on services whether their objects may reference secrets; most may not."""
    uses = await tx[SecretUseStore].of_services(service_ids)
    bindings = await tx[ContextBindingStore].of_services(service_ids)
    ids = {binding.context_id for binding in bindings}
    by_reference = await tx[ContextStore].by_reference(ids) if ids else []
    by_reference_ids = {context.id for context in by_reference}
    with_secrets = {use.service_id for use in uses}
    with_secrets |= {
        binding.service_id for binding in bindings if binding.context_id in by_reference_ids
    }
    for service in await tx[ServiceStore].by_ids(service_ids, deleted=True):
        if service.desired.uses_secrets != (service.id in with_secrets):
            await tx[ServiceStore].set_uses_secrets(service.id, service.id in with_secrets)
