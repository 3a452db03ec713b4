"""The agent's chart with the values that the Terraform provider sets.

The provider gives Helm a Go map of texts for `secrets`. Helm does not merge such a map with the
chart's defaults, and Helm's validator refuses it for every schema but `true`.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, helm, of_kind, pod_of, render

AGENT = "towline-agent"
PROGRAM = Path(__file__).parents[2] / "terraform" / "typed_values"
VALUES = {
    "secrets": {"deployToken": "twa_typed"},
    "consoleUrl": "https://towline.example.org/ext/gql",
    "clusterId": "c1",
}

Json = dict[str, Any]


@pytest.fixture
def charts(tmp_path: Path) -> Path:
    """The chart without defaults of `secrets`, as for a typed map."""
    shutil.copytree(CHARTS / AGENT, tmp_path / AGENT)
    defaults = yaml.safe_load((CHARTS / AGENT / "values.yaml").read_text())
    del defaults["secrets"]
    (tmp_path / AGENT / "values.yaml").write_text(yaml.safe_dump(defaults))
    return tmp_path


def check(objects: list[Json]) -> None:
    """The agent reads the token from the Secret, and connects to the console's host."""
    secret = of_kind(objects, "Secret")
    assert secret["data"] == {"deployToken": "dHdhX3R5cGVk"}
    sources = next(
        volume["projected"]["sources"]
        for volume in pod_of(objects)["volumes"]
        if volume["name"] == "credentials"
    )
    assert sources[0]["secret"]["name"] == secret["metadata"]["name"]
    assert sources[0]["secret"]["items"] == [{"key": "deployToken", "path": "token"}]
    assert "towline.example.org:8444" in json.dumps(pod_of(objects))


def test_the_schema_leaves_the_typed_map_to_the_templates() -> None:
    schema = json.loads((CHARTS / AGENT / "values.schema.json").read_text())
    assert schema["properties"]["secrets"] is True


def test_the_token_alone_is_enough_without_defaults(charts: Path) -> None:
    check(render(AGENT, VALUES, charts=charts))


def test_an_existing_secret_needs_no_default_key(charts: Path) -> None:
    objects = render(AGENT, {**VALUES, "secrets": {"existingSecret": "own"}}, charts=charts)
    (volume,) = (v for v in pod_of(objects)["volumes"] if v["name"] == "credentials")
    expected = {"name": "own", "items": [{"key": "deployToken", "path": "token"}]}
    assert volume["projected"]["sources"][0]["secret"] == expected


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ("twa_precious", "secrets: must be a map"),
        ({"deployToken": 424242}, "secrets.deployToken: must be a string"),
        ({"tokn": "twa_precious"}, "secrets.tokn: unknown"),
        ({"existingSecret": "Not a name"}, "secrets.existingSecret: must be the name"),
    ],
)
def test_the_templates_check_what_the_schema_leaves(secrets: object, words: str) -> None:
    with pytest.raises(helm.HelmError, match=words) as refusal:
        render(AGENT, {**VALUES, "secrets": secrets})
    assert "precious" not in str(refusal.value) and "424242" not in str(refusal.value)


@pytest.mark.skipif(not shutil.which("go"), reason="`go` builds Helm for a map of Go's own type")
@pytest.mark.timeout(600)
def test_helm_takes_the_typed_map() -> None:
    """Helm itself, in a program that builds the map as the provider does."""
    chart = str(CHARTS / AGENT)
    done = subprocess.run(["go", "run", ".", chart], cwd=PROGRAM, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    check([one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if isinstance(one, dict)])
