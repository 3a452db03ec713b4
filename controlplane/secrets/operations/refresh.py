"""Reads secret values from external sources when they are due; keeps the last valid value."""

from dataclasses import replace
from datetime import timedelta

from controlplane.authorization import Actor, ResourceKind, Verb
from controlplane.platform.context import SECRET, OperationContext
from controlplane.platform.references import found
from controlplane.secrets.model.secret import Secret, check_value
from controlplane.secrets.operations.secrets import add_version
from controlplane.secrets.ports import ExternalSecrets, SecretStore
from controlplane.services.model.service import Service
from controlplane.services.operations.generations import wake_agents
from core.errors import Conflict, Invalid, TowlineError


class SecretRefresher:
    """Refreshes secrets with a source; one replica at a time reads each source."""

    def __init__(self, context: OperationContext, sources: ExternalSecrets) -> None:
        self._context = context
        self._sources = sources

    async def due(self) -> list[str]:
        """Ids of secrets whose sources have to be read now."""
        async with self._context.store.read() as tx:
            secrets = await tx[SecretStore].past("due_at", self._context.clock.now())
        return [secret.id for secret in secrets]

    async def request(self, actor: Actor, id: str) -> Secret:
        """Requests a refresh now. Conflict: the secret has no source."""
        async with self._context.change(actor, "refreshSecret") as tx:
            secret = found(await tx[SecretStore].get(id), ResourceKind.SECRET)
            tx.authorize(Verb.WRITE, secret.target)
            if secret.source is None:
                raise Conflict(f"secret {secret.name!r} has no source: set its value instead")
            await tx[SecretStore].set_due(id, self._context.clock.now())
            tx.audit(secret.name, id)
            tx.publish(SECRET, id)
        return secret

    async def refresh(self, id: str) -> None:
        """Refreshes a secret if it is due; stores errors on the secret."""
        secret = await self._claim(id)
        if secret is None or secret.source is None:
            return
        try:
            value = check_value(await self._sources.read(secret.source, secret.project_id))
        except TowlineError as error:
            await self._store_result(secret, None, error.message)
            return
        await self._store_result(secret, value, "")

    async def _claim(self, id: str) -> Secret | None:
        """The secret, unless another replica reads it. Sets the next due time before reading."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            secret = await tx[SecretStore].get(id)
            if secret is None or secret.due_at is None or secret.due_at > now:
                return None
            await tx[SecretStore].set_due(id, now + timedelta(seconds=secret.refresh_s))
        return None if secret.rotating else secret

    async def _store_result(self, before: Secret, value: bytes | None, problem: str) -> None:
        services: list[Service] = []
        async with self._context.store.write() as tx:
            secret = await tx[SecretStore].get(before.id)
            if secret is None or secret.source != before.source or secret.rotating:
                return
            after = replace(secret, problem=problem[:1000])
            if value is not None:
                source = str(secret.source)[:320]
                try:
                    after, services = await add_version(self._context, tx, after, value, source)
                    after = replace(after, refreshed_at=self._context.clock.now())
                except Invalid as error:
                    # Too many versions, before anything was written.
                    after = replace(after, problem=error.message)
            await tx[SecretStore].put(after)
        if (after.current, after.problem) != (secret.current, secret.problem):
            self._context.bus.publish(SECRET, before.id)
        wake_agents(self._context, services)
