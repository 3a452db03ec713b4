"""Implements the port `AgentManifests` with the agent's chart of this installation."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.clusters.model.agent_settings import EffectiveAgentSettings
from controlplane.clusters.model.cluster import Cluster
from core.errors import Invalid
from core.json_object import JsonObject
from core.spec.statements.signing_keys import SigningIdentity
from gitcache.render.charts import merge_values
from towline.agent_manifests import NAMESPACE, agent_values, render_manifests
from towline.serve.agent_chart import chart_folder, package


class ChartManifests:
    """Renders the agent's chart.

    `public_url` names the host that agents connect to, at `agents_port`. `ca`: the CA of the
    installation's certificate; None: agents trust public CAs. The Helm values of agent settings
    take precedence, also over this address. Unavailable: the chart is missing.
    """

    def __init__(
        self,
        public_url: str,
        agents_port: int,
        ca: Path | None,
        signing_identity: Callable[[], Awaitable[SigningIdentity]],
    ) -> None:
        self._host = urlsplit(public_url).hostname or ""
        self._port = agents_port
        self._ca = ca
        self._signing_identity = signing_identity
        self._chart = package(chart_folder())

    async def render(
        self, cluster: Cluster, token: str, settings: EffectiveAgentSettings | None
    ) -> str:
        values = merge_values(await self._hub_values(), _settings_values(cluster, settings))
        hub = values["hub"]
        address = hub.get("address") if isinstance(hub, dict) else ""
        if not address and not values.get("consoleUrl"):
            raise Invalid(
                "the address for agents is unknown: set auth.public_url, or hub.address in the "
                "agentValues of agent settings"
            )
        cluster_values = {
            "secrets": {"bootstrapToken": token},
            "clusterName": cluster.handle,
            "clusterId": cluster.id,
        }
        return await asyncio.to_thread(
            render_manifests, self._chart, merge_values(values, cluster_values), NAMESPACE
        )

    async def _hub_values(self) -> JsonObject:
        identity = await self._signing_identity()
        hub = {
            "address": f"{self._host}:{self._port}" if self._host else "",
            "ca": self._ca.read_text() if self._ca and self._ca.exists() else "",
            "signingKey": identity.key_id,
        }
        return {"hub": {name: value for name, value in hub.items() if value}}


def _settings_values(cluster: Cluster, effective: EffectiveAgentSettings | None) -> JsonObject:
    if effective is None:
        return {}
    settings = effective.settings.spec
    template_parameters = {
        "handle": cluster.handle,
        "name": cluster.name,
        "tags": dict(cluster.tags),
    }
    return agent_values(
        settings.chart_values,
        settings.agent_values,
        template_parameters,
        templated=settings.agent_values_templated,
    )
