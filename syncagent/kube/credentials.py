"""Credentials of the agent in a Secret of its own namespace, which survives the pod."""

import base64
import binascii

from core.errors import Invalid, TowlineError
from syncagent.kube.client import MERGE, KubeClient

_TOKEN, _CLUSTER = "deployToken", "clusterId"


class CredentialSecret:
    """Reads and writes the Secret that the chart creates empty for the agent, NAMESPACE/NAME."""

    def __init__(self, client: KubeClient, place: str) -> None:
        namespace, _, name = place.partition("/")
        self._client = client
        self._place = place
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{name}"

    async def read(self) -> tuple[str, str] | None:
        """Returns deploy token and cluster ID; None before they are written."""
        found = (await self._client.request("GET", self._path)).get("data") or {}
        if not found.get(_TOKEN):
            return None
        return _decoded(found[_TOKEN]), _decoded(found.get(_CLUSTER, ""))

    async def write(self, token: str, cluster_id: str) -> None:
        """Writes deploy token and cluster ID. Invalid: the agent may not."""
        data = {_TOKEN: _encoded(token), _CLUSTER: _encoded(cluster_id)}
        try:
            await self._client.request("PATCH", self._path, body={"data": data}, content_type=MERGE)
        except TowlineError as error:
            raise Invalid(
                f"the deploy token cannot be written to Secret {self._place}: {error.message}; "
                "let the agent get and patch this Secret"
            ) from None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        raise Invalid("the Secret of the agent's credentials is damaged: delete its data") from None
