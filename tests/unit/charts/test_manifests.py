"""The plain manifests are what the charts make, and what the documentation builds on them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from charts.manifests import CHART_OF, manifests_of, objects_of
from tests.unit.charts.rendering import render

ROOT = Path(__file__).parents[3]
BASES = ROOT / "deploy" / "kubernetes"

kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="no kubectl here: `make test` builds one"
)


@pytest.mark.parametrize("base", CHART_OF)
def test_they_are_what_the_charts_make(base: str) -> None:
    """`make manifests` puts this right."""
    assert (BASES / base / "manifests.yaml").read_text() == manifests_of(base)


@pytest.mark.parametrize("base", CHART_OF)
def test_nothing_is_left_out_and_helm_is_not_named(base: str) -> None:
    values = yaml.safe_load((BASES / base / "values.yaml").read_text())
    objects = objects_of(base)
    assert len(objects) == len(render(CHART_OF[base], values)) + 1
    assert not re.search(r"helm", yaml.safe_dump_all(objects), re.IGNORECASE)


@kubectl
def test_the_documented_overlay_says_what_is_its_own(tmp_path: Path) -> None:
    """Kustomize takes it, with image, address and Secret in the Deployment."""
    blocks = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/how-to/install.md").read_text(), re.DOTALL
    )
    (overlay,) = [one for one in blocks if "kind: Kustomization" in one]
    shutil.copytree(BASES / "agent", tmp_path / "agent")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(overlay)
    for name in ("token", "ca.crt"):
        (mine / name).write_text(name)
    done = subprocess.run(
        ["kubectl", "kustomize", mine], capture_output=True, text=True, check=True
    )
    objects = {one["kind"]: one for one in yaml.safe_load_all(done.stdout)}
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example.org/towline:0.1.0"
    assert "--url=towline.corp.example.org:8444" in pod["containers"][0]["args"]
    secrets = {
        one["secret"]["name"]
        for one in pod["volumes"][0]["projected"]["sources"]
        if "secret" in one
    }
    assert secrets == {objects["Secret"]["metadata"]["name"]}
