"""Secrets that the objects of a service reference, sealed for the agent that applies them."""

from collections.abc import Mapping

from controlplane.configuration.operations.secret_references import referenced_secrets
from controlplane.platform.context import ContextOperations
from controlplane.secrets.ports import SecretVersionStore
from controlplane.services.model.parts import SecretValue
from controlplane.services.model.service import Service
from controlplane.services.ports import SecretUseStore
from core.errors import Conflict
from core.sealing import seal
from core.spec.sealed_secrets import SealedSecret


class StoredSecrets(ContextOperations):
    """Implements `ServiceSecrets` with the versions of uses, and the secrets of contexts."""

    async def of(self, service: Service) -> Mapping[str, SecretValue]:
        if not service.desired.uses_secrets:
            return {}
        async with self._context.store.read() as tx:
            values = dict(await referenced_secrets(self._context.sealer, tx, service))
            uses = await tx[SecretUseStore].of_services(service.id)
            ids = {use.secret_id for use in uses}
            rows = await tx[SecretVersionStore].usable(ids) if ids else []
        versions = {(row.secret_id, row.number): row for row in rows}
        for use in uses:
            row = versions.get((use.secret_id, use.version))
            if row is None or row.sealed is None:
                raise Conflict(f"version {use.version} of the secret {use.name!r} was revoked")
            plain = self._context.sealer.open(row.sealed, row.context)
            # The id distinguishes a secret that was deleted and created again with another value.
            values[use.name] = SecretValue(row.id, plain)
        return values


def sealed_values(
    values: Mapping[str, SecretValue], service: Service, public_key: bytes | None
) -> list[SealedSecret]:
    """The values, sealed for the agent and bound to this service.

    Conflict: the agent reported no key; its version does not support secrets.
    """
    if not values:
        return []
    if public_key is None:
        raise Conflict(
            "the service has secrets, but its agent has no key to seal them with: upgrade it"
        )
    return [
        seal(public_key, service.id, name, value.version, value.plain)
        for name, value in values.items()
    ]
