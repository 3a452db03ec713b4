"""Deployment settings: Helm values for agent installations."""

from dataclasses import dataclass, replace

from controlplane.domain.access import Actor, Resource, ResourceKind, Verb, require
from controlplane.domain.access.actor import require_any
from controlplane.domain.deployment import SETTINGS_ID, DeploymentSettings
from controlplane.ports import Transaction
from controlplane.usecases.deps import OperationContext
from controlplane.usecases.retrying import retry_operations
from core.errors import Invalid

_MAX_VALUES_LENGTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class DeploymentSettingsChange:
    """Changes to the deployment settings. None leaves a field unchanged."""

    agent_values: str | None = None
    agent_values_templated: bool | None = None


@retry_operations
class DeploymentSettingsOperations:
    """Operations on the deployment settings."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps

    async def settings(self, actor: Actor) -> DeploymentSettings:
        """The settings, for actors who may register clusters in at least one project."""
        require_any(actor, Verb.WRITE, Resource.whole(ResourceKind.CLUSTER))
        async with self._context.store.read() as tx:
            return await self._kept(tx)

    async def change(self, actor: Actor, change: DeploymentSettingsChange) -> DeploymentSettings:
        require(actor, Verb.ADMINISTER, Resource.whole(ResourceKind.INSTALLATION))
        text = change.agent_values
        if text is not None and len(text) > _MAX_VALUES_LENGTH:
            raise Invalid(
                f"must have at most {_MAX_VALUES_LENGTH:,} characters", field="agentHelmValues"
            )
        async with self._context.store.write() as tx:
            after = replace(await self._kept(tx), updated_at=self._context.clock.now())
            if text is not None:
                after = replace(after, agent_values=text or None)
            if change.agent_values_templated is not None:
                after = replace(after, agent_values_templated=change.agent_values_templated)
            known = await tx.deployment_settings.get(SETTINGS_ID)
            rows = tx.deployment_settings
            await (rows.put(after) if known else rows.add(after))
            await self._context.audit(
                tx, actor, "updateDeploymentSettings", "deployment settings", SETTINGS_ID
            )
        return after

    async def _kept(self, tx: Transaction) -> DeploymentSettings:
        kept = await tx.deployment_settings.get(SETTINGS_ID)
        return kept or DeploymentSettings(SETTINGS_ID, self._context.clock.now())
