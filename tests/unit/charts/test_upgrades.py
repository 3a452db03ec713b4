"""A release of the version before becomes one of this version in place, with the same values."""

from pathlib import Path

import pytest
import yaml

from tests import previous
from tests.unit.charts.rendering import NAMES, Json, render

# What an API server refuses to change; everything else of these kinds is changed in place.
IMMUTABLE = {
    "StatefulSet": ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"),
    "Deployment": ("selector",),
    "Service": ("clusterIP", "ipFamilies"),
    "PersistentVolumeClaim": ("accessModes", "storageClassName", "selector", "volumeName"),
    "RoleBinding": (),
    "ClusterRoleBinding": (),
}
# Objects with state: a release that no longer has them has lost something.
KEPT = {"StatefulSet", "Deployment", "Secret", "PersistentVolumeClaim", "ServiceAccount", "Service"}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The charts of the version before."""
    return previous.unpack(tmp_path_factory.mktemp("charts") / "before", "charts") / "charts"


def fixed(one: Json) -> Json:
    """The parts of an object that can only be had otherwise by making it anew."""
    spec = one.get("spec", {})
    parts = {name: spec.get(name) for name in IMMUTABLE[one["kind"]]}
    return parts | {"roleRef": one.get("roleRef")}


def named(objects: list[Json]) -> dict[tuple[str, str], Json]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


@pytest.mark.parametrize("chart", NAMES)
def test_whatever_was_installed_is_upgraded_in_place(before: Path, chart: str) -> None:
    """By every set of values of the version before: nothing immutable changes or is lost."""
    sets = sorted((before / chart / "ci").glob("*-values.yaml"))
    assert len(sets) >= 6
    for path in sets:
        values = yaml.safe_load(path.read_text())
        then = named(render(chart, values, charts=before))
        now = named(render(chart, values))
        assert {key for key in then if key[0] in KEPT} <= now.keys(), path.name
        for key in then.keys() & now.keys():
            if key[0] in IMMUTABLE:
                assert fixed(now[key]) == fixed(then[key]), (path.name, key)
