"""JSON Schemas of kinds, read by a validator for editors."""

import json
import re

import pytest
import yaml

from tests.fakes.manifest_examples import EVERYTHING
from tests.fakes.manifest_world import manifest_world

jsonschema = pytest.importorskip("jsonschema", reason="`make charts` installs it")

MANIFESTS = manifest_world().manifests
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
