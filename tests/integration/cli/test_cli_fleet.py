"""Services for a fleet on the command line, as docs/how-to/fleet-services.md shows them."""

import json
from pathlib import Path
from typing import Any

from tests.integration.cli.conftest import Installation
from towline.cli.shell.polling import poll_until

FLEET = """
apiVersion: towline.io/v1
kind: GitRepository
metadata: {name: https://git.example.org/fleet.git}
---
apiVersion: towline.io/v1
kind: Cluster
metadata: {name: eu}
spec:
  tags: {tier: prod}
---
apiVersion: towline.io/v1
kind: Cluster
metadata: {name: us}
spec:
  tags: {tier: prod}
---
apiVersion: towline.io/v1
kind: ClusterGroup
metadata: {name: europe}
spec:
  clusters: [eu]
---
apiVersion: towline.io/v1
kind: AgentSettings
metadata: {name: europe}
spec:
  selector: {groups: [europe]}
  size: LARGE
  agentValues: "logLevel: debug"
---
apiVersion: towline.io/v1
kind: ManagedNamespace
metadata: {name: team-a}
spec:
  selector: {groups: [europe]}
  namespaceLabels: {team: a}
  quota: {pods: "20"}
---
apiVersion: towline.io/v1
kind: GlobalService
metadata: {name: monitoring}
spec:
  selector: {tags: {tier: prod}}
  onLeave: DELETE
  template:
    name: monitoring
    namespace: monitoring
    repository: https://git.example.org/fleet.git
    ref: main
    folder: monitoring
    helm: {chart: ./chart, values: "a: 1"}
    configuration: {replicas: "2"}
---
apiVersion: towline.io/v1
kind: HelmRepository
metadata: {name: https://charts.example.org/stable}
---
apiVersion: towline.io/v1
kind: GlobalService
metadata: {name: cache}
spec:
  selector: {tags: {tier: prod}}
  template:
    name: cache
    namespace: cache
    helm: {repository: https://charts.example.org/stable, chart: redis, version: "^20"}
---
apiVersion: towline.io/v1
kind: ServiceSet
metadata: {name: tenants}
spec:
  generator: {items: [{tenant: red}, {tenant: blue}]}
  deletionBudget: 3
  template:
    name: "shop-${item.tenant}"
    namespace: "tenant-${item.tenant}"
    repository: https://git.example.org/fleet.git
    ref: main
    folder: "tenants/${item.tenant}"
"""


def test_definitions_are_applied_and_reach_the_clusters(
    installation: Installation, tmp_path: Path
) -> None:
    run = installation.run

    def output_of(*words: str) -> Any:
        return json.loads(run(*words, "-o", "json").stdout)

    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    assert run("apply", "-f", str(file), "--dry-run").stdout.count("would be created") == 10
    assert run("apply", "-f", str(file)).stdout.count(" created") == 10
    lines = run("apply", "-f", str(file)).stdout.splitlines()
    assert [line for line in lines if not line.startswith("=")] == []

    def services(sort: str, name: str) -> list[tuple[str, str]]:
        found = output_of(sort, "services", name)
        return sorted((one["cluster"]["handle"], one["name"]) for one in found)

    values = run("clusters", "agent-values", "eu").stdout
    assert values.startswith("# settings: europe\nresources:") and "logLevel: debug" in values
    assert "memory: 2Gi" in values
    assert "no settings of agents match us" in run("clusters", "agent-values", "us", code=3).stderr

    both = [("eu", "monitoring"), ("us", "monitoring")]
    poll_until(lambda: services("globals", "monitoring"), lambda found: found == both, 30)
    poll_until(lambda: services("sets", "tenants"), lambda found: len(found) == 4, 30)
    inside = [("eu", "namespace-team-a")]
    poll_until(lambda: services("namespaces", "team-a"), lambda found: found == inside, 30)

    file.write_text(FLEET.replace('replicas: "2"', 'replicas: "3"'))
    changed = run("apply", "-f", str(file)).stdout
    assert "~ GlobalService monitoring changed" in changed and '"2" → "3"' in changed

    run("globals", "override", "monitoring", "--cluster", "eu", "--set", "replicas=5")
    views = output_of("globals", "clusters", "monitoring")
    assert {v["cluster"]["handle"]: [d["effective"] for d in v["delta"]] for v in views} == {
        "eu": ['"5"'],
        "us": [],
    }
    refused = run("services", "update", "eu/monitoring", "--ref", "other", "--folder", "x", code=1)
    assert "comes from global service 'monitoring'" in refused.stderr

    run("cluster-groups", "freeze", "europe", "--reason", "audit")
    frozen = run("services", "update", "eu/monitoring", "--pause", code=1)
    assert "frozen through cluster group 'europe'" in frozen.stderr and "audit" in frozen.stderr
    assert [one["handle"] for one in output_of("cluster-groups", "clusters", "europe")] == ["eu"]
    assert "froze the cluster group europe at " in run("clusters", "list").stdout
    words = ("services", "create", "late", "--cluster", "eu", "--namespace", "late")
    source = ("--repo", "https://git.example.org/late.git", "--folder", "late")
    assert "frozen through cluster group" in run(*words, *source, code=1).stderr
    assert "late.git" not in run("repos", "list").stdout
    run("cluster-groups", "unfreeze", "europe")
    newer = ("--version", "9.9.9", "--image", "registry.example.org/towline:9.9.9")
    upgrade = ("cluster-groups", "upgrade-agents", "europe", *newer)
    assert output_of(*upgrade, "--exclude", "eu") == []
    assert [one["handle"] for one in output_of(*upgrade)] == ["eu"]

    file.write_text(FLEET.replace("items: [{tenant: red}, {tenant: blue}]", "items: []"))
    run("apply", "-f", str(file))
    poll_until(
        lambda: output_of("sets", "list")[0]["state"]["waiting"], lambda count: count == 4, 30
    )
    assert "withheld" in run("sets", "preview", "tenants").stdout
    run("sets", "sync", "tenants", "--confirm", "4")
    poll_until(lambda: services("sets", "tenants"), lambda found: found == [], 30)

    for name in ("monitoring", "cache"):
        run("globals", "delete", name, "--yes")
    poll_until(lambda: output_of("globals", "list"), lambda found: found == [], 30)
