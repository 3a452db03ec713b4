"""Proof of identity at the agent: kubectl with ID tokens, and a control plane that lies."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest

from core.mux.codec import FLAG_NOBODY, Open, add_proof
from core.outbound.issuers import IssuerHttpClient, IssuerMetadata
from core.runtime.clock import SystemClock
from proxy.domain.access import Impersonation, identity_block
from syncagent.tunnel.id_token_proofs import IdentityProofs, ProofRules
from syncagent.tunnel.proof import UNPROVEN
from syncagent.tunnel.upstream import Upstream
from tests.fakes.clock import FakeClock
from tests.fakes.issuer import FakeIssuer
from tests.fakes.kube_proxy import ANN, CLUSTER, EVERYBODY
from tests.fakes.tunnel import RecordingOwner
from tests.integration.proxy.conftest import Kubectl, proxied_kubectl
from tests.integration.proxy.stack import Stack, eventually
from towline.demo.clusters.cluster import LocalCluster

GROUP = "rbac.authorization.k8s.io"
ADMINISTRATOR = Impersonation("root", ("devs",))


def _binding(name: str, role: str, group: str) -> dict[str, object]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "Group", "name": group, "apiGroup": GROUP}],
    }


@pytest.fixture
async def issuer() -> AsyncIterator[FakeIssuer]:
    """An OpenID Connect provider; its next tokens are for the group oidc:platform."""
    async with FakeIssuer(FakeClock(SystemClock().now())).serve() as serving:
        serving.claims["aud"] = "dev-cluster"
        yield serving


@pytest.fixture
async def proving(
    stack: Stack, upstream: Upstream, cluster: LocalCluster, issuer: FakeIssuer
) -> AsyncIterator[Stack]:
    """The proxy with an agent that requires proofs, on a cluster whose RBAC knows both groups."""
    items = [
        _binding("proof-platform", "edit", "oidc:platform"),
        _binding("proof-unproven", "view", UNPROVEN),
    ]
    listed = json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    cluster.kubectl("apply", "-f", "-", stdin=listed)
    http, clock = IssuerHttpClient(), SystemClock()
    rules = ProofRules(issuer.url, ("dev-cluster",))
    stack.proofs = IdentityProofs(rules, IssuerMetadata(issuer.url, http, clock), clock)
    await stack.connect(upstream)
    yield stack
    await http.close()


def as_user(stack: Stack, program: Path, folder: Path, token: str) -> Kubectl:
    """kubectl with a bearer token that the control plane takes for Ann's."""
    stack.installation.users[token] = ANN
    return proxied_kubectl(stack, program, folder / "proof.kubeconfig", token)


async def whoami(kubectl: Kubectl) -> tuple[str, set[str]]:
    done = await kubectl("auth", "whoami", "-o", "json")
    assert done.code == 0, done.err
    user = json.loads(done.out)["status"]["userInfo"]
    return user["username"], set(user["groups"])


async def test_the_api_server_sees_the_user_of_the_id_token(
    proving: Stack, issuer: FakeIssuer, kubectl_program: Path, tmp_path: Path, namespace: str
) -> None:
    """Neither the control plane's name nor its groups; the second request comes from the cache."""
    ada = as_user(proving, kubectl_program, tmp_path, issuer.token())
    expected = ("ada@example.org", {"oidc:platform", "system:authenticated"})
    assert await whoami(ada) == expected
    assert await whoami(ada) == expected
    made = await ada("create", "secret", "generic", "mine", "-n", namespace)
    assert (made.code, made.err) == (0, "")
    # ann's group devs is bound to cluster-admin, the token's group is not.
    assert "forbidden" in (await ada("get", "nodes")).err.lower()


async def test_users_without_an_identity_proof_only_view_and_are_warned(
    proving: Stack, kubectl_program: Path, tmp_path: Path, namespace: str
) -> None:
    ann = as_user(proving, kubectl_program, tmp_path, "ann-token")
    assert await whoami(ann) == (
        "towline:unproven:ann",
        {UNPROVEN, "system:authenticated"},
    )
    shown = await ann("get", "configmaps", "-n", namespace, "-o", "name")
    assert shown.out == b"configmap/kube-root-ca.crt\n"
    assert "Warning: this request has no proof of identity" in shown.err
    written = await ann("create", "configmap", "c", "-n", namespace)
    assert written.code != 0 and 'User "towline:unproven:ann" cannot create' in written.err
    for verb in (["get", "secrets"], ["get", "--raw", f"/api/v1/namespaces/{namespace}/secrets"]):
        read = await ann(*verb, "-n", namespace)
        assert read.code != 0 and "Secrets need a proof of identity" in read.err


async def test_a_request_for_another_user_carries_no_proof(
    proving: Stack, issuer: FakeIssuer, kubectl_program: Path, tmp_path: Path
) -> None:
    """The token proves its owner only, who must not act in place of the named user."""
    proving.installation.impersonation["ann"] = EVERYBODY
    ada = as_user(proving, kubectl_program, tmp_path, issuer.token())
    done = await ada("auth", "whoami", "-o", "json", "--as=bob")
    user = json.loads(done.out)["status"]["userInfo"]
    assert user["username"] == "towline:unproven:bob"


async def test_an_expired_token_is_refused_to_kubectl(
    proving: Stack, issuer: FakeIssuer, kubectl_program: Path, tmp_path: Path
) -> None:
    now = issuer.clock.now().timestamp()
    late = as_user(proving, kubectl_program, tmp_path, issuer.token(iat=now - 90, exp=now - 60))
    done = await late("get", "pods")
    assert done.code != 0 and "this token has expired: sign in again" in done.err


async def ask(stack: Stack, identity: bytes, request: str = "GET /api/v1/pods") -> RecordingOwner:
    """Send a request to the agent as a control plane in enemy hands; its complete answer."""
    link = stack.proxy.tunnels.find(CLUSTER)
    assert link is not None
    owner = RecordingOwner()
    head = f"{request} HTTP/1.1\r\nAccept: application/json\r\n\r\n".encode()
    owner.stream = link.open(owner, Open(head, identity, b"r" * 16, FLAG_NOBODY), tenant=b"t")
    await eventually(lambda: owner.ended is not None or owner.reset is not None)
    return owner


async def test_a_lying_control_plane_gets_only_view(
    proving: Stack, cluster: LocalCluster, namespace: str
) -> None:
    """It claims an administrator on the agent's link, and may neither write nor read a Secret."""
    cluster.kubectl("create", "secret", "generic", "s", "-n", namespace)
    claimed = identity_block(ADMINISTRATOR)
    read = await ask(proving, claimed, f"GET /api/v1/namespaces/{namespace}/configmaps")
    assert bytes(read.received).startswith(b"HTTP/1.1 200 OK")
    refused = await ask(proving, claimed, f"DELETE /api/v1/namespaces/{namespace}")
    assert bytes(refused.received).startswith(b"HTTP/1.1 403 ")
    assert b"towline:unproven:root" in refused.received
    for path in ("secrets", "secrets/s", "%73ecrets/s"):
        stolen = await ask(proving, claimed, f"GET /api/v1/namespaces/{namespace}/{path}")
        assert stolen.reset is not None and stolen.reset[0] == 403
        assert not stolen.received


class BrokenKeys:
    """Keys of an issuer, whose fetch has a bug."""

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        raise RuntimeError(kid, algorithm)


async def test_a_failure_of_the_check_is_answered(stack: Stack, issuer: FakeIssuer) -> None:
    """Else the request stays open until its user gives up."""
    rules = ProofRules(issuer.url, ("dev-cluster",))
    stack.proofs = IdentityProofs(rules, BrokenKeys(), SystemClock())

    async def no_token() -> str:
        return ""

    await stack.connect(Upstream("127.0.0.1", 1, None, no_token))
    owner = await ask(stack, add_proof(identity_block(ADMINISTRATOR), issuer.token().encode()))
    assert owner.reset is not None and owner.reset[0] == 502


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"iss": "https://evil.example.org"}, "this cluster accepts proofs of http://127"),
        ({"aud": "other-cluster"}, "another audience, not for dev-cluster"),
        ({"header": {"kid": "forged"}}, "no key 'forged' for ES256, only k1"),
        ({"header": {"alg": "none"}}, "'none' are not accepted"),
    ],
)
async def test_a_forged_proof_is_refused_with_the_expected_value(
    proving: Stack, issuer: FakeIssuer, claims: dict[str, object], said: str
) -> None:
    header = claims.get("header")
    if isinstance(header, dict) and header.get("alg") == "none":
        token = "eyJhbGciOiJub25lIn0." + issuer.token().split(".")[1] + "."
    else:
        token = issuer.token(**claims)  # ty: ignore[invalid-argument-type]
    block = add_proof(identity_block(ADMINISTRATOR), token.encode())
    owner = await ask(proving, block)
    assert owner.reset is not None and owner.reset[0] == 401
    assert said in owner.reset[1]
    assert not owner.received
