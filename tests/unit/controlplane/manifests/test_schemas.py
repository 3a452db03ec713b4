"""JSON Schemas of kinds, read by a validator for editors."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from controlplane.manifest_schemas import write_schemas
from controlplane.manifests.model.documents import write_documents
from controlplane.manifests.model.plan import ManifestAction
from tests.fakes.actors import ADMIN
from tests.fakes.manifest_examples import EVERYTHING
from tests.fakes.manifest_world import document, manifest_world

MANIFESTS = manifest_world().manifests
ROOT = Path(__file__).parents[4]
EXAMPLES = list(yaml.safe_load_all(EVERYTHING))


@pytest.mark.parametrize("kind", MANIFESTS.kind_names())
def test_the_schema_of_a_kind_accepts_its_examples(kind: str) -> None:
    validator = jsonschema.Draft202012Validator(MANIFESTS.schema(kind))
    validator.check_schema(validator.schema)
    examples = [example for example in EXAMPLES if example["kind"] == kind]
    assert examples
    assert [error.message for one in examples for error in validator.iter_errors(one)] == []


@pytest.mark.parametrize("kind", MANIFESTS.kind_names())
def test_fields_say_their_unit_in_words(kind: str) -> None:
    schema = json.dumps(MANIFESTS.schema(kind))
    assert re.findall(r'"[a-zA-Z]+(?:S|Ms)": \{', schema) == []


@pytest.mark.parametrize("kind", MANIFESTS.kind_names())
def test_no_field_has_the_name_of_metadata(kind: str) -> None:
    """Terraform has the fields of metadata and spec side by side."""
    parts = MANIFESTS.schema(kind)["properties"]
    assert parts["metadata"]["properties"].keys() & parts["spec"]["properties"].keys() == set()


def test_the_page_of_kinds_has_a_row_with_existing_parts_for_each() -> None:
    """Mutations, commands, resources of Terraform and routes of the console."""
    rows = re.findall(
        r"^\| `(\w+)` \| .* \| `(\w+)` \| `towline ([a-z-]+)` \| manifest"
        r" \| `towline_(\w+)` \| `/([^`]+)` \|$",
        (ROOT / "docs/reference/kinds.md").read_text(),
        re.MULTILINE,
    )
    assert [kind for kind, *_ in rows] == sorted(MANIFESTS.kind_names())
    schema = (ROOT / "schema.graphql").read_text()
    commands = (ROOT / "docs/reference/cli.md").read_text()
    routes = (ROOT / "console/src/app/pages.ts").read_text()
    for _, mutation, command, resource, route in rows:
        assert f"\n  {mutation}(" in schema
        assert f"## `towline {command}" in commands
        assert (ROOT / f"terraform/docs/resources/{resource}.md").is_file()
        assert f'path: "/{route}"' in routes


def test_the_console_shows_each_kind_as_yaml() -> None:
    pages = [path.read_text() for path in (ROOT / "console/src").rglob("*.tsx")]
    shown = re.compile(r"<AsYaml kind=\"(\w+)\"|declared: .*")
    found = [match for page in pages for match in shown.finditer(page)]
    names = {name for match in found for name in re.findall(r"kind(?:: |=)\"(\w+)\"", match[0])}
    assert names == set(MANIFESTS.kind_names())


def test_schemas_tell_lists_without_an_order_and_fields_that_never_change() -> None:
    group = MANIFESTS.schema("Group")["properties"]["spec"]["properties"]
    assert group["members"]["uniqueItems"] is True
    service = MANIFESTS.schema("Service")["properties"]["spec"]["properties"]
    assert service["contexts"]["uniqueItems"] is True
    assert service["imports"]["x-kubernetes-list-map-keys"] == ["alias"]
    assert "uniqueItems" not in service["helm"]["properties"]["valuesFiles"]
    fixed = {name for name, field in service.items() if field.get("x-immutable")}
    assert fixed == {"namespace", "repository", "promoted"}


def test_steps_of_a_gate_have_the_schema_of_gates() -> None:
    """A step is itself of a kind of gate: its schema refers to the one that it stands in."""
    validator = jsonschema.Draft202012Validator(MANIFESTS.schema("Pipeline"))

    def problems(seconds: object) -> list[str]:
        wait = {"name": "wait", "rule": {"kind": "WAIT", "waitSeconds": seconds}}
        rule = {"kind": "WORKFLOW", "steps": [wait]}
        stages = [{"name": "dev"}, {"name": "prod"}]
        edge = {"source": "dev", "target": "prod", "gates": [{"name": "checks", "rule": rule}]}
        spec = {"stages": stages, "edges": [edge]}
        metadata = {"name": "shop"}
        one = {"apiVersion": "towline.io/v1", "kind": "Pipeline", "metadata": metadata}
        return [error.json_path for error in validator.iter_errors({**one, "spec": spec})]

    assert problems(60) == []
    assert problems("soon") != []


@pytest.mark.parametrize("kind", MANIFESTS.kind_names())
async def test_a_schema_takes_the_names_that_an_apply_takes(kind: str) -> None:
    world = manifest_world()
    assert (await world.apply(EVERYTHING)).applied
    example = next(one for one in EXAMPLES if one["kind"] == kind)
    validator = jsonschema.Draft202012Validator(MANIFESTS.schema(kind))
    for name in ("shop-2", "Shop_2", "-shop", "shöp", "s" * 64, "a.b", ""):
        renamed = {**example, "metadata": {**example["metadata"], "name": name}}
        errors = {".".join(map(str, error.path)) for error in validator.iter_errors(renamed)}
        plan = await world.apply(write_documents([renamed]), dry_run=True)
        refused = {problem.field for problem in plan.problems} & {"metadata.name"}
        is_address = any(char in example["metadata"]["name"] for char in ":@")
        if not is_address or not name:
            assert errors == refused, name


@pytest.mark.parametrize(
    ("labels", "is_fine"),
    [
        ({"team": "shop", "example.org/tier": ""}, True),
        ({"a" * 63: "a" * 63, "a.b-c.d/e_f": "A.b"}, True),
        ({"a b": "x"}, False),
        ({"a" * 64: "x"}, False),
        ({"team": "-"}, False),
        ({"team": "a" * 64}, False),
        ({"Example.org/x": "x"}, False),
        ({"/x": "x"}, False),
        ({"a/": "x"}, False),
        ({f"{'a.' * 160}a/x": "x"}, False),
    ],
)
async def test_a_schema_takes_the_labels_that_an_apply_takes(
    labels: dict[str, str], is_fine: bool
) -> None:
    validator = jsonschema.Draft202012Validator(MANIFESTS.schema("Cluster"))
    given = document("Cluster", "eu-1", labels=labels)
    assert (not (await manifest_world().apply(given)).problems) is is_fine
    assert validator.is_valid(yaml.safe_load(given)) is is_fine


async def test_an_export_with_managed_fields_is_a_manifest() -> None:
    """Applies skip them, as those of Kubernetes do."""
    world = manifest_world()
    await world.apply(document("Cluster", "eu-1", {"tags": {"env": "prod"}}))
    export = await world.manifests.export(ADMIN, ["Cluster"], managed_fields=True)
    assert "managedFields" in export
    validator = jsonschema.Draft202012Validator(MANIFESTS.schema("Cluster"))
    assert validator.is_valid(yaml.safe_load(export))
    plan = await world.apply(export)
    assert (plan.applied, [item.action for item in plan.items]) == (
        True,
        [ManifestAction.UNCHANGED],
    )


def test_the_schemas_of_a_folder_are_those_of_the_present_kinds(tmp_path: Path) -> None:
    """A schema of a kind that no longer exists would still be published."""
    (tmp_path / "Vanished.json").write_text("{}")
    (tmp_path / "Cluster.json").write_text("{}")
    (tmp_path / "README.md").write_text("Schemas.")
    write_schemas(tmp_path)
    assert {path.stem for path in tmp_path.glob("*.json")} == set(MANIFESTS.kind_names())
    assert json.loads((tmp_path / "Cluster.json").read_text()) == MANIFESTS.schema("Cluster")
    assert (tmp_path / "README.md").exists()
