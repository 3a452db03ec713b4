"""Proof that a server below a path prefix passes on impersonation.
A gateway that drops the `Impersonate-*` fields would let every user act as the agent.
"""

from core.errors import TowlineError
from syncagent.kube.client import KubeClient
from syncagent.ports import RequestRefused

PROBE = "towline:probe"
_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_FORBIDDEN = 403
_AS_PROBE = {"Impersonate-User": PROBE}


class ImpersonationProof:
    """Proves once that the API server honours impersonation, before requests rely on it."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._proven = False

    async def require(self) -> None:
        """Refused: the server does not impersonate, so requests would have the agent's rights."""
        if self._proven:
            return
        if problem := await impersonation_problem(self._client):
            raise RequestRefused(
                f"fenced services need impersonation: {problem}",
                status=_FORBIDDEN,
                reason="NoImpersonation",
            )
        self._proven = True


async def impersonation_problem(client: KubeClient) -> str:
    """Asks the API server for the name of an impersonated user. Returns the reason if users'
    requests must not be sent; empty: the server impersonates, or refuses to.
    """
    try:
        answer = await client.request("POST", _PATH, body=_REVIEW, impersonation=_AS_PROBE)
    except RequestRefused as refused:
        if refused.status == _FORBIDDEN:
            return ""
        return f"the API server does not say whom it sees: {refused.message}"
    except TowlineError as error:
        return error.message
    seen = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
    if seen == PROBE:
        return ""
    return "the server of the kubeconfig drops Impersonate-User, so users would act as the agent"
