"""Proof that an API server impersonates: an outage is none of its answers."""

from collections.abc import Mapping

import pytest

from core.errors import Unavailable
from core.spec.bundle import KubeObject
from syncagent.kube.impersonation import PROBE, ImpersonationProof
from syncagent.ports import RequestRefused


class Server:
    """An API server that answers for the user of each request, unless it has another answer."""

    def __init__(self) -> None:
        self.answer: Exception | None = None
        self.seen = ""
        self.asked = 0

    async def request(
        self, method: str, path: str, *, body: object, impersonation: Mapping[str, str]
    ) -> KubeObject:
        self.asked += 1
        if self.answer is not None:
            raise self.answer
        user = self.seen or impersonation["Impersonate-User"]
        return {"status": {"userInfo": {"username": user}}}


async def test_an_outage_refuses_nothing_and_proves_nothing() -> None:
    """Else a service failed for good on a 403 while its API server restarted."""
    server = Server()
    proof = ImpersonationProof(server)
    server.answer = Unavailable("the API server does not answer")
    with pytest.raises(Unavailable, match="does not answer"):
        await proof.require()
    server.answer = None
    await proof.require()
    await proof.require()
    assert server.asked == 2


@pytest.mark.parametrize("answer", [None, RequestRefused("no", status=404, reason="NotFound")])
async def test_a_server_that_does_not_impersonate_is_refused(answer: Exception | None) -> None:
    server = Server()
    server.answer, server.seen = answer, "agent"
    with pytest.raises(RequestRefused) as refused:
        await ImpersonationProof(server).require()
    assert refused.value.status == 403 and PROBE not in refused.value.message
