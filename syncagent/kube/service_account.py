"""Requests as a service account of the cluster, by impersonation.

Kubernetes documentation: Authenticating, User impersonation. The agent needs the permission to
`impersonate` the account; the API server decides about each request by the account's own roles.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

from core.errors import Invalid
from core.json_object import JsonValue
from core.spec.bundle import KubeObject
from syncagent.kube.client import JSON, KubeClient
from syncagent.kube.http import HttpBody
from syncagent.kube.impersonation import ImpersonationProof
from syncagent.ports import RequestRefused


class ServiceAccountClient:
    """Sends requests as a service account, `namespace:name`. Invalid: another format."""

    def __init__(self, client: KubeClient, account: str, proof: ImpersonationProof) -> None:
        namespace, _, name = account.partition(":")
        if not namespace or not name or not account.isprintable() or "/" in account:
            raise Invalid(f"{account!r} is not NAMESPACE:NAME of a service account")
        self._client = client
        self._proof = proof
        self._namespace, self._name = namespace, name
        # Without groups in the request, the API server adds those of the account.
        self._headers = {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonValue = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> KubeObject:
        """Sends a request; see `KubeClient.request`.

        Refused: also if the account does not exist, with the command that creates it.
        """
        await self._proof.require()
        try:
            return await self._client.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                accept=accept,
                impersonation=self._headers,
            )
        except RequestRefused as error:
            if error.status == 403 and (missing := await self._describe_missing()):
                raise RequestRefused(missing, status=403, reason="NoServiceAccount") from error
            raise

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[HttpBody]:
        """Opens the body of a long response; see `KubeClient.stream`."""
        await self._proof.require()
        async with self._client.stream(path, query, impersonation=self._headers) as body:
            yield body

    async def _describe_missing(self) -> str:
        """Names the namespace or account that is missing, and the commands that create it."""
        namespace, name = self._namespace, self._name
        account = f"kubectl -n {namespace} create serviceaccount {name}"
        namespace_path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
        if not await self._exists(namespace_path):
            return (
                f"the namespace {namespace} of the service account {name} does not exist; "
                f"create both with `kubectl create namespace {namespace} && {account}` and bind a "
                "role to it"
            )
        if not await self._exists(f"{namespace_path}/serviceaccounts/{quote(name, safe='')}"):
            return (
                f"the service account {name} does not exist in the namespace {namespace}; create "
                f"it with `{account}` and bind a role to it"
            )
        return ""

    async def _exists(self, path: str) -> bool:
        try:
            await self._client.request("GET", path)
        except RequestRefused as error:
            return error.status != 404
        return True


def sender_as(
    client: KubeClient, account: str, proof: ImpersonationProof
) -> KubeClient | ServiceAccountClient:
    """Returns the sender of a service account's requests; without one, of the agent's own."""
    return ServiceAccountClient(client, account, proof) if account else client
