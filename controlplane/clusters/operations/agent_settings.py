"""Deployment settings: Helm values for agent installations."""

from dataclasses import dataclass, replace

from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require
from controlplane.authorization.actor import require_any
from controlplane.clusters.model.agent_settings import SETTINGS_ID, DeploymentSettings
from controlplane.clusters.ports import DeploymentSettingsStore
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Invalid

_MAX_VALUES_LENGTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class DeploymentSettingsChange:
    """Changes to the deployment settings. None leaves a field unchanged."""

    agent_values: str | None = None
    """Helm values (YAML) for the agent chart. Limit: 64 KiB."""
    agent_values_templated: bool | None = None
    """True if the values are a Liquid template with the variable `cluster`."""


@retry_operations
class DeploymentSettingsOperations:
    """Operations on the deployment settings."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context

    async def settings(self, actor: Actor) -> DeploymentSettings:
        """The settings, for actors who may register clusters in at least one project."""
        require_any(actor, Verb.WRITE, Resource.whole(ResourceKind.CLUSTER))
        async with self._context.store.read() as tx:
            return await self._stored(tx)

    async def change(self, actor: Actor, change: DeploymentSettingsChange) -> DeploymentSettings:
        installation, text = Resource.whole(ResourceKind.INSTALLATION), change.agent_values
        require(actor, Verb.ADMINISTER, installation)
        if text is not None and len(text) > _MAX_VALUES_LENGTH:
            raise Invalid(
                f"must have at most {_MAX_VALUES_LENGTH:,} characters", field="agentHelmValues"
            )
        async with self._context.change(actor, "updateDeploymentSettings") as tx:
            tx.authorize(Verb.ADMINISTER, installation)
            after = replace(await self._stored(tx), updated_at=self._context.clock.now())
            if text is not None:
                after = replace(after, agent_values=text or None)
            if change.agent_values_templated is not None:
                after = replace(after, agent_values_templated=change.agent_values_templated)
            rows = tx[DeploymentSettingsStore]
            await (rows.put(after) if await rows.get(SETTINGS_ID) else rows.add(after))
            tx.audit("deployment settings", SETTINGS_ID)
        return after

    async def reset(self, actor: Actor) -> None:
        """Deletes the settings: new agents get the defaults of the chart again."""
        installation = Resource.whole(ResourceKind.INSTALLATION)
        async with self._context.change(actor, "updateDeploymentSettings") as tx:
            tx.authorize(Verb.ADMINISTER, installation)
            await tx[DeploymentSettingsStore].remove(SETTINGS_ID)
            tx.audit("deployment settings", SETTINGS_ID)

    async def _stored(self, tx: Transaction) -> DeploymentSettings:
        stored = await tx[DeploymentSettingsStore].get(SETTINGS_ID)
        return stored or DeploymentSettings(SETTINGS_ID, self._context.clock.now())
