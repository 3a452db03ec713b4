"""Schemas for editors, which the documentation publishes: every example in it is valid."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from controlplane.manifest_schemas import manifest_schemas
from docs.editor_schemas import ALL, editor_schemas

ROOT = Path(__file__).parents[2]
SITE = "https://docs.example.org/schemas/"
_BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SCHEMAS = {path: json.loads(text) for path, text in editor_schemas().items()}


def examples() -> Iterator[Any]:
    for page in sorted([*ROOT.joinpath("docs").rglob("*.md"), ROOT / "README.md"]):
        for number, found in enumerate(_BLOCK.finditer(page.read_text())):
            if "apiVersion: towline.io/" in found[2]:
                name = f"{page.relative_to(ROOT)}:{number}"
                yield pytest.param(re.sub(f"^{found[1]}", "", found[2], flags=re.M), id=name)
    for file in sorted(ROOT.joinpath("docs", "examples").rglob("*.yaml")):
        if "apiVersion: towline.io/" in file.read_text():
            yield pytest.param(file.read_text(), id=str(file.relative_to(ROOT)))


EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def validator() -> Any:
    """Reads the schema of any kind, with its references to the schemas of single kinds."""
    resources = [(SITE + path, Resource.from_contents(one)) for path, one in SCHEMAS.items()]
    registry: Any = Registry().with_resources(resources)
    return jsonschema.Draft202012Validator({"$ref": SITE + ALL}, registry=registry)


def test_the_published_schemas_are_those_of_the_model() -> None:
    by_path = {
        f"towline.io/{kind.lower()}_v1.json": one for kind, one in manifest_schemas().items()
    }
    assert {path: one for path, one in SCHEMAS.items() if path != ALL} == by_path


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 15


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_of_the_documentation_is_valid(validator: Any, text: str) -> None:
    found = [
        f"{document.get('kind')}: {error.json_path}: {error.message}"
        for document in yaml.safe_load_all(text)
        if document and document.get("apiVersion") == "towline.io/v1"
        for error in validator.iter_errors(document)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"kind": "Nothing"}, "$.kind"),
        ({"kind": "Project", "spec": {"descriptoin": "x"}}, "$.spec"),
        ({"kind": "Project", "spec": {"description": 5}}, "$.spec.description"),
        ({"kind": "Service", "metadata": {"name": "web"}}, "$.metadata"),
    ],
)
def test_an_error_is_marked_at_its_field(
    validator: Any, document: dict[str, Any], path: str
) -> None:
    whole = {"apiVersion": "towline.io/v1", "metadata": {"name": "shop"}, **document}
    assert path in [error.json_path for error in validator.iter_errors(whole)]
