"""ConfigMaps by their label: the port `ConfigMaps`."""

from urllib.parse import quote

from core.errors import Invalid
from syncagent.domain.objects import KubeObject
from syncagent.kube.client import KubeClient
from syncagent.ports import RequestRefused

_MAX_CONFIGMAPS = 500
_NOT_FOUND = 404


class KubeFreezeConfigMap:
    """Implements `ports.FreezeConfigMap`; `place` is `namespace/name`. Invalid: another format."""

    def __init__(self, client: KubeClient, place: str) -> None:
        namespace, _, name = place.partition("/")
        if not namespace or not name or "/" in name:
            raise Invalid(f"{place!r} is not NAMESPACE/NAME", field="freeze.configmap")
        self._client = client
        self._path = f"/api/v1/namespaces/{quote(namespace)}/configmaps/{quote(name)}"

    async def statements(self) -> list[str]:
        try:
            answer = await self._client.request("GET", self._path)
        except RequestRefused as error:
            if error.status == _NOT_FOUND:
                return []
            raise
        values = (answer.get("data") or {}).values()
        return [line for value in values for line in str(value).splitlines()]


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
