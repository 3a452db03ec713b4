"""ConfigMaps by their label: the port `ConfigMaps`."""

from urllib.parse import quote

from core.errors import Invalid
from syncagent.domain.objects import KubeObject
from syncagent.kube.client import KubeClient

_MAX_CONFIGMAPS = 500


class KubeConfigMaps:
    """Implements `ports.ConfigMaps`."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def labelled(self, namespace: str, label: str) -> list[KubeObject]:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
        query = {"labelSelector": label, "limit": str(_MAX_CONFIGMAPS)}
        answer = await self._client.request("GET", path, query=query)
        if (answer.get("metadata") or {}).get("continue"):
            raise Invalid(
                f"more than {_MAX_CONFIGMAPS} ConfigMaps with the label {label} in {namespace}"
            )
        return answer.get("items") or []
