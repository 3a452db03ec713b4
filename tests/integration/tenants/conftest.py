"""One API server with an audit log, and an agent of it; both for all hostile tenants."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.integration.tenants.corpus import ACCOUNT, BANK, SHOP, definition, text
from towline.demo.clusters.cluster import LocalCluster

_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


@dataclass(frozen=True)
class AuditedCluster:
    """A cluster whose API server writes an audit log."""

    cluster: LocalCluster
    log: Path

    def forbidden(self, user: str) -> set[tuple[str, str]]:
        """Resource and name of each request that was answered with 403 to an impersonated user."""
        events = map(orjson.loads, self.log.read_bytes().splitlines())
        return {
            (event["objectRef"]["resource"], event["objectRef"].get("name", ""))
            for event in events
            if event["responseStatus"].get("code") == 403
            and event.get("impersonatedUser", {}).get("username") == user
        }


@pytest.fixture(scope="module")
def audited(kubernetes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedCluster]:
    """The accounts of shop and bank are administrators of their own namespace, and nothing else."""
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(_POLICY)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with LocalCluster("tenants", kubernetes, apiserver_flags=flags) as cluster:
        for namespace in (SHOP, BANK):
            cluster.kubectl("create", "namespace", namespace)
            cluster.kubectl("-n", namespace, "create", "serviceaccount", ACCOUNT)
            rights = ("--clusterrole=admin", f"--serviceaccount={namespace}:{ACCOUNT}")
            cluster.kubectl("-n", namespace, "create", "rolebinding", namespace, *rights)
        cluster.kubectl("label", "namespace", SHOP, "pod-security.kubernetes.io/enforce=baseline")
        cluster.kubectl("apply", "-f", "-", stdin=text(definition("Cluster", "wells")))
        cluster.kubectl(
            "wait", "--for=condition=Established", "crd/wells.example.org", "--timeout=30s"
        )
        yield AuditedCluster(cluster, log)
