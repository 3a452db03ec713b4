"""Manifests on the command line: plan, apply, conflict, export, prune and delete."""

import json
from pathlib import Path

from tests.integration.cli.conftest import Installation

FLEET = """\
apiVersion: towline.io/v1
kind: Project
metadata: {name: shop}
spec: {description: The shop, fence: {unrestricted: true}}
---
apiVersion: towline.io/v1
kind: GitRepository
metadata: {name: "https://git.example.org/shop.git"}
---
apiVersion: towline.io/v1
kind: Cluster
metadata: {name: shop-1, project: shop}
spec:
  tags: {tier: prod}
---
apiVersion: towline.io/v1
kind: Service
metadata: {name: web, cluster: shop-1, labels: {team: web}}
spec:
  namespace: web
  repository: https://git.example.org/shop.git
  folder: web
  configuration: {color: blue}
"""


def test_a_fleet_lives_through_its_manifests(installation: Installation, tmp_path: Path) -> None:
    run = installation.run
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)

    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(FLEET.replace("tags:", "tagz:").replace("folder: web", "foldr: web"))
    refused = run("apply", "-f", str(wrong), code=2).stderr
    assert f"{wrong}:14: Cluster shop-1 spec.tagz: unknown field 'tagz'; did you mean" in refused
    assert "unknown field 'foldr'; did you mean folder?" in refused

    assert "+ Service shop-1/web would be created" in run("diff", "-f", str(file), code=7).stdout
    applied = run("apply", "-f", str(tmp_path / "fleet.yaml"), "--prune-set", "shop").stdout
    assert "+ Service shop-1/web created" in applied
    assert run("diff", "-f", str(file)).stdout == ""
    for selector, found in (("team=web,tier=prod", "shop-1/web\n"), ("team!=web,tier=prod", "")):
        assert run("services", "list", "-l", selector, "-o", "name").stdout == found
    assert "team=shop" in run("label", "service", "shop-1/web", "team=shop", "old-").stderr
    refused = run("label", "services", "shop-1/web", "team=shop", code=3).stderr
    assert "kind 'services' does not exist; use one of" in refused
    assert run("services", "list", "-l", "team=shop", "-o", "name").stdout == "shop-1/web\n"
    relabelled = run("diff", "-f", str(file), code=7).stdout
    assert '  metadata.labels.team: "shop" → "web"' in relabelled

    file.write_text(FLEET.replace("blue", "green"))
    assert (
        '  spec.configuration.color: "blue" → "green"'
        in run("diff", "-f", str(file), code=7).stdout
    )
    conflict = run("apply", "-f", str(file), "--manager", "git", code=2).stderr
    assert "spec.configuration.color was set by cli" in conflict
    run("apply", "-f", str(file), "--manager", "git", "--force")

    exported = run("export", "Cluster", "Service").stdout
    assert "color: green" in exported
    assert "unchanged" in run("apply", "-f", "-", "--dry-run", stdin=exported).stdout

    file.write_text(FLEET.rpartition("---")[0])
    over = run("apply", "-f", str(file), "--prune-set", "shop", code=2).stderr
    assert "would lose 1 resource," in over
    pruned = run("apply", "-f", str(file), "--prune-set", "shop", "--max-deletions", "1").stdout
    assert "- Service shop-1/web deleted" in pruned

    schema = json.loads(run("schema", "service").stdout)
    assert schema["properties"]["spec"]["properties"]["folder"]["type"] == "string"
    explained = run("explain", "service.spec.helm").stdout
    assert "Service.spec.helm <object>" in explained
    assert "Helm settings." in explained
    assert "chart <string>" in explained
    # The fields of a step stand in a type that the schema refers to.
    explained = run("explain", "pipeline.spec.stages.workflow.rule.steps").stdout
    assert "Pipeline.spec.stages.workflow.rule.steps <[]object>" in explained
    assert "rule <object, required>" in explained
