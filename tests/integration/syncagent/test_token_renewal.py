"""The agent renews the token of its kubeconfig with Kubernetes' own TokenRequest."""

import json
from datetime import timedelta
from pathlib import Path

from core.runtime.clock import SystemClock
from syncagent.kube.access import from_kubeconfig
from syncagent.kube.client import KubeClient
from syncagent.upkeep.credentials import TokenRenewal, claims_of
from tests.fakes.clock import FakeClock
from tests.integration.syncagent.conftest import Bench

RULE = "--verb=create --resource=serviceaccounts/token --resource-name=agent"


def kubeconfig(bench: Bench, folder: Path) -> Path:
    """A kubeconfig with a token for one hour, as an operator would write it."""
    kubectl, space = bench.cluster.kubectl, ("-n", bench.namespace)
    kubectl("create", "serviceaccount", "agent", *space)
    token = kubectl("create", "token", "agent", "--duration=1h", *space).strip()
    view = kubectl("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    config = json.loads(view)
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(f"# Kept.\n{json.dumps(config)}")
    path.chmod(0o600)
    return path


async def test_a_token_is_renewed_before_it_ends(bench: Bench, tmp_path: Path) -> None:
    """Not before a third of its life is left; then the file and all requests have the new one."""
    path, space = kubeconfig(bench, tmp_path), ("-n", bench.namespace)
    bench.cluster.kubectl("create", "role", "renew", *RULE.split(), *space)
    account = f"--serviceaccount={bench.namespace}:agent"
    bench.cluster.kubectl("create", "rolebinding", "renew", "--role=renew", account, *space)
    clock = FakeClock(SystemClock().now())
    access = from_kubeconfig(path, None, clock)
    client = KubeClient(access, clock)
    renewal = TokenRenewal(access.kubeconfig_token, client, clock)
    before, first = path.read_text(), await access.bearer()
    await clock.advance(1800)
    await renewal.renew()
    assert path.read_text() == before
    await clock.advance(900)
    await renewal.renew()
    await clock.advance(61)
    second = await access.bearer()
    assert second != first and path.read_text() == before.replace(first, second)
    assert path.stat().st_mode & 0o777 == 0o600
    old, new = claims_of(first), claims_of(second)
    assert old and new and new.subject == old.subject and new.audiences == old.audiences
    assert new.expires_at - new.issued_at == timedelta(hours=1) and renewal.end == new.expires_at
    assert (await client.request("GET", "/version"))["major"] == "1"
    await client.close()


async def test_an_agent_that_may_not_renew_says_so(bench: Bench, tmp_path: Path) -> None:
    """Within the last 7 days, with the reason of the API server."""
    clock = FakeClock(SystemClock().now() + timedelta(minutes=45))
    access = from_kubeconfig(kubeconfig(bench, tmp_path), None, clock)
    client = KubeClient(access, clock)
    renewal = TokenRenewal(access.kubeconfig_token, client, clock)
    assert renewal.problem == ""
    await renewal.renew()
    assert "and cannot be renewed: " in renewal.problem
    assert 'cannot create resource "serviceaccounts/token"' in renewal.problem
    await client.close()


async def test_a_new_token_in_the_kubeconfig_is_used(bench: Bench, tmp_path: Path) -> None:
    """As `towline clusters join` writes it, while the agent runs."""
    path, clock = kubeconfig(bench, tmp_path), FakeClock()
    access = from_kubeconfig(path, None, clock)
    first = await access.bearer()
    path.write_text(path.read_text().replace(first, "another"))
    await clock.advance(61)
    assert await access.bearer() == "another"
