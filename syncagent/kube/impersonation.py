"""Proof that a server below a path prefix passes on impersonation.
A gateway that drops the `Impersonate-*` fields would let every user act as the agent.
"""

from collections.abc import Mapping
from typing import Protocol

from core.json_object import JsonValue
from core.spec.bundle import KubeObject
from syncagent.ports import RequestRefused

PROBE = "towline:probe"
_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_FORBIDDEN = 403
_AS_PROBE = {"Impersonate-User": PROBE}


class ReviewClient(Protocol):
    """Sends the request that asks the API server whom it sees."""

    async def request(
        self, method: str, path: str, *, body: JsonValue, impersonation: Mapping[str, str]
    ) -> KubeObject:
        """Returns the response. RequestRefused, Unavailable."""
        ...


class ImpersonationProof:
    """Proves once that the API server honours impersonation, before requests rely on it."""

    def __init__(self, client: ReviewClient) -> None:
        self._client = client
        self._proven = False

    async def require(self) -> None:
        """Refused: the server does not impersonate, so requests would have the agent's rights.
        Unavailable: it cannot be asked now.
        """
        if self._proven:
            return
        if problem := await impersonation_problem(self._client):
            raise RequestRefused(
                f"fenced services need impersonation: {problem}",
                status=_FORBIDDEN,
                reason="NoImpersonation",
            )
        self._proven = True


async def impersonation_problem(client: ReviewClient) -> str:
    """Asks the API server for the name of an impersonated user. Returns the reason if users'
    requests must not be sent; empty: the server impersonates, or refuses to. Unavailable.
    """
    try:
        answer = await client.request("POST", _PATH, body=_REVIEW, impersonation=_AS_PROBE)
    except RequestRefused as refused:
        if refused.status == _FORBIDDEN:
            return ""
        return f"the API server does not say whom it sees: {refused.message}"
    seen = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
    if seen == PROBE:
        return ""
    return "the server of the kubeconfig drops Impersonate-User, so users would act as the agent"
