"""What the objects of services name as secrets, sealed to the agent that applies them."""

from collections.abc import Mapping

from controlplane.domain.services import Service
from controlplane.secretports import SecretValue
from controlplane.usecases.deps import Deps
from controlplane.usecases.references import referred
from fleet.errors import Conflict
from fleet.sealing import SealedSecret, seal


class StoredSecrets:
    """Fills in `ServiceSecrets`: the versions that uses name, and secrets of contexts."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def of(self, service: Service) -> Mapping[str, SecretValue]:
        if not service.uses_secrets:
            return {}
        async with self._deps.store.read() as tx:
            found = dict(await referred(self._deps, tx, service))
            uses = await tx.secret_uses.select(service_id=service.id)
            ids = {use.secret_id for use in uses}
            rows = await tx.secret_versions.select(secret_id=ids, revoked_at=None) if ids else []
        versions = {(row.secret_id, row.number): row for row in rows}
        for use in uses:
            row = versions.get((use.secret_id, use.version))
            if row is None or row.sealed is None:
                raise Conflict(f"version {use.version} of the secret {use.name!r} was revoked")
            plain = self._deps.sealer.open(row.sealed, row.context)
            # The id tells apart a secret that was deleted and made anew with another value.
            found[use.name] = SecretValue(row.id, plain)
        return found


def sealed_values(
    values: Mapping[str, SecretValue], service: Service, public: bytes | None
) -> list[SealedSecret]:
    """The values in boxes that only the agent opens, for this service only.

    Conflict: the agent has told no key; it is too old for secrets.
    """
    if not values:
        return []
    if public is None:
        raise Conflict("this service has secrets, and its agent has no key to seal them to")
    return [
        seal(public, service.id, name, value.version, value.plain) for name, value in values.items()
    ]
