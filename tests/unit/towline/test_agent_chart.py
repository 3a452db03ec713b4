"""The package of the agent's chart."""

import io
import tarfile
from pathlib import Path

import yaml

from towline.serve.agent_chart import NAME, package

FOLDER = Path(__file__).parents[3] / "charts" / NAME


def test_the_package_holds_what_helm_needs_below_one_folder() -> None:
    """And no values that only serve to test it."""
    with tarfile.open(fileobj=io.BytesIO(package(FOLDER)), mode="r:gz") as archive:
        names = archive.getnames()
        chart = archive.extractfile(f"{NAME}/Chart.yaml")
        assert chart is not None
        assert yaml.safe_load(chart)["name"] == NAME
    assert f"{NAME}/values.yaml" in names
    assert f"{NAME}/templates/deployment.yaml" in names
    assert {name.split("/")[0] for name in names} == {NAME}
    assert not any("/ci/" in name for name in names)


def test_the_same_files_make_the_same_package() -> None:
    """So that its entity tag tells whether the chart has changed."""
    assert package(FOLDER) == package(FOLDER)
