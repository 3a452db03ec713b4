"""Token of the service account that sends users' requests, if it is not the agent's own.
This account may only impersonate, so that a request without its user's name would have no
permissions. The token comes from TokenRequest (authentication.k8s.io/v1).
"""

from datetime import timedelta

from core.errors import Invalid
from core.runtime.clock import Clock
from syncagent.kube.access import Bearer, BearerToken
from syncagent.kube.client import KubeClient

LIFE_SECONDS = 3600
# Maximum delay until the token of a recreated account is used.
_KEPT = timedelta(minutes=5)


def token_of(account: str, client: KubeClient, clock: Clock) -> BearerToken:
    """Returns the token of a service account, `namespace:name`. Invalid: another format.
    Getting it raises Refused if the agent may not `create` its `serviceaccounts/token`.
    """
    namespace, _, name = account.partition(":")
    if not namespace or not name or not account.replace("-", "").replace(":", "", 1).isalnum():
        raise Invalid(f"{account!r} is not NAMESPACE:NAME of a service account")
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFE_SECONDS},
    }

    async def ask() -> Bearer:
        answer = await client.request("POST", path, body=body)
        return str(answer["status"]["token"]), clock.now() + _KEPT

    return BearerToken(ask, clock)
