"""Helm itself upgrades releases of the version before, and takes them back."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from core import __version__
from tests import previous
from tests.integration.charts.conftest import listed
from tests.unit.charts.rendering import CHARTS, Json
from towline.demo.clusters.cluster import LocalCluster

Objects = dict[tuple[str, str], Json]

KINDS = (
    "statefulsets,deployments,services,secrets,serviceaccounts,configmaps,persistentvolumeclaims,"
    "networkpolicies,clusterroles,clusterrolebindings"
)


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The charts of the version before, with its number."""
    charts = previous.unpack(tmp_path / "before", "charts") / "charts"
    for path in charts.glob("*/Chart.yaml"):
        chart = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(chart | {"version": "0.0.9", "appVersion": "0.0.9"}))
    return charts


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize(
    ("chart", "values"),
    [("towline", "tiers"), ("towline-agent", "default")],
)
def test_a_release_of_the_version_before_is_upgraded_and_taken_back(
    cluster: LocalCluster, namespace: str, releases: Any, before: Path, chart: str, values: str
) -> None:
    """With the same values; each object stays the one that it is, with the secrets it holds."""
    name = f"up-{namespace.rpartition('-')[2]}"
    given = yaml.safe_load((before / chart / "ci" / f"{values}-values.yaml").read_text()) or {}

    def there() -> Objects:
        found = listed(cluster, KINDS, "-A", "-l", f"app.kubernetes.io/instance={name}")
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    releases.install(before / chart, name, given, namespace=namespace)
    try:
        then = there()
        assert versions(then) == {f"{chart}-0.0.9"}
        releases.upgrade(CHARTS / chart, name, given, namespace=namespace)
        now = there()
        assert versions(now) == {f"{chart}-{__version__}"}
        assert uids(now, then) == uids(then, then)
        assert secrets(now) == secrets(then)
        releases.rollback(name, version=1)
        again = there()
        assert versions(again) == {f"{chart}-0.0.9"}
        assert uids(again, then) == uids(then, then)
    finally:
        releases.uninstall(name, ignore_not_found=True)


def uids(objects: Objects, names: Iterable[tuple[str, str]]) -> list[str]:
    """What tells objects from those of the same names that were made anew."""
    return [objects[name]["metadata"]["uid"] for name in names]


def versions(objects: Objects) -> set[str]:
    """Which charts say that they have made these."""
    labels = [one["metadata"]["labels"] for one in objects.values()]
    return {one["helm.sh/chart"] for one in labels if "helm.sh/chart" in one}


def secrets(objects: Objects) -> list[Json]:
    return [one["data"] for key, one in sorted(objects.items()) if key[0] == "Secret"]
