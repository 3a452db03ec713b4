"""Requests as a service account of the cluster, by impersonation.

Kubernetes documentation: Authenticating, User impersonation. The agent needs the permission to
`impersonate` the account; the API server decides about each request by the account's own roles.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

import aiohttp

from core.errors import Invalid
from core.spec.bundle import KubeObject
from syncagent.kube.client import JSON, KubeClient
from syncagent.ports import RequestRefused


class ServiceAccountClient:
    """Sends requests as a service account, `namespace:name`. Invalid: another format."""

    def __init__(self, client: KubeClient, account: str) -> None:
        namespace, _, name = account.partition(":")
        if not namespace or not name or not account.isprintable() or "/" in account:
            raise Invalid(f"{account!r} is not NAMESPACE:NAME of a service account")
        self._client = client
        self._namespace, self._name = namespace, name
        # Without groups in the request, the API server adds those of the account.
        self._headers = {"Impersonate-User": f"system:serviceaccount:{namespace}:{name}"}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> KubeObject:
        """Sends a request; see `KubeClient.request`.

        Refused: also if the account does not exist, with the command that creates it.
        """
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
            if error.status == 403 and not await self._exists():
                raise self._missing() from error
            raise

    def stream(
        self, path: str, query: Mapping[str, str]
    ) -> AbstractAsyncContextManager[aiohttp.StreamReader]:
        """Opens the body of a long response; see `KubeClient.stream`."""
        return self._client.stream(path, query, impersonation=self._headers)

    async def _exists(self) -> bool:
        namespace, name = quote(self._namespace, safe=""), quote(self._name, safe="")
        try:
            await self._client.request(
                "GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
            )
        except RequestRefused as error:
            return error.status != 404
        return True

    def _missing(self) -> RequestRefused:
        return RequestRefused(
            f"the service account {self._name} does not exist in the namespace {self._namespace}; "
            f"create it with `kubectl -n {self._namespace} create serviceaccount {self._name}` "
            "and bind a role to it",
            status=403,
            reason="NoServiceAccount",
        )


def sender_as(client: KubeClient, account: str) -> KubeClient | ServiceAccountClient:
    """Returns the sender of a service account's requests; without one, of the agent's own."""
    return ServiceAccountClient(client, account) if account else client
