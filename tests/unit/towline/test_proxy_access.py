"""Rights of a user, as the proxy sees them."""

from datetime import timedelta
from typing import cast

import pytest

from controlplane.authorization.policy import ClusterIdentity
from controlplane.clusters.operations.kubernetes_access import ClusterGrant, ProxyAccess
from core.identity import ClusterId, TokenId, UserId
from proxy.domain.access import (
    AuthenticatedUser,
    Impersonation,
    ImpersonationRule,
    RecordingPolicy,
    RequestGrant,
)
from proxy.domain.attributes import read_attributes
from tests.fakes.clock import START
from towline.serve.proxy_adapters import ProxyAuthorizer

ANN = AuthenticatedUser(UserId("u1"), "ann@example.org", TokenId("t1"))
END = START + timedelta(hours=1)
EXEC = read_attributes("POST", "/api/v1/namespaces/shop/pods/web/exec")


class Granting:
    """Access that always gives the same."""

    def __init__(self, record: bool, record_input: bool) -> None:
        cluster_identity = ClusterIdentity(
            ("ops",), ("user:b*",), record, record_input, "role ops", ("b1",)
        )
        self.grant = ClusterGrant(
            "b1", ClusterId("c1"), ANN.name, ("ops",), "u1", cluster_identity, "role ops",
            (("shop", 3),), END,
        )  # fmt: skip
        self.asked: list[object] = []

    async def connect(self, *asked: object, **more: object) -> ClusterGrant:
        self.asked = [*asked, more]
        return self.grant


@pytest.mark.parametrize(
    ("record", "record_input", "kept"),
    [
        (False, False, RecordingPolicy.OFF),
        (True, False, RecordingPolicy.OUTPUT),
        (True, True, RecordingPolicy.ALL),
    ],
)
async def test_roles_say_what_of_a_session_is_kept(
    record: bool, record_input: bool, kept: RecordingPolicy
) -> None:
    access = Granting(record, record_input)
    grant = await ProxyAuthorizer(cast(ProxyAccess, access)).authorize(ANN, "dev", EXEC)
    assert grant == RequestGrant(
        cluster_id=ClusterId("c1"),
        impersonate=Impersonation(ANN.name, ("ops",), "u1"),
        may_impersonate=ImpersonationRule.of(("user:b*",)),
        rule="role ops",
        recording=kept,
        grant_ids=("b1",),
        stream_limits=(("shop", 3),),
        expires_at=END,
    )
    assert access.asked[:2] == ["u1", "dev"]
    assert access.asked[-1] == {"token_id": "t1"}
