"""Values of the wrong type in any field of any kind: each is a problem, and none an error."""

import copy
import json
from collections.abc import Iterator
from itertools import product

import pytest

from controlplane.manifests.model.documents import DocumentProblem, Source, read_documents
from core.json_object import JsonObject, JsonValue
from tests.fakes.manifest_examples import EVERYTHING, REPOSITORY
from tests.fakes.manifest_world import document, manifest_world

ODD: tuple[JsonValue, ...] = (
    [], [["a"], [1]], {}, {"kind": ["a"], "a": {"b": [1]}}, -1, 10**39, 0.5, "\u202e x", True,
)  # fmt: skip
WRITTEN: list[DocumentProblem] = []
MANIFESTS = read_documents([Source("all.yaml", EVERYTHING)], WRITTEN)
KINDS = sorted({manifest.kind for manifest in MANIFESTS})


def places(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values inside of a value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for name, inner in items:
        yield from places(inner, (*path, name))


def replaced(spec: JsonObject, path: tuple[str | int, ...], value: JsonValue) -> JsonObject:
    made = copy.deepcopy(spec)
    target: JsonValue = made
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return made


@pytest.mark.parametrize("kind", KINDS)
async def test_a_value_of_the_wrong_type_is_a_problem_or_accepted(kind: str) -> None:
    """In each field that an example of the kind has, also inside of lists and objects."""
    world = manifest_world()
    for manifest in (each for each in MANIFESTS if each.kind == kind):
        place = {"project": manifest.project, "cluster": manifest.cluster}
        given = {name: value for name, value in place.items() if value}
        for path, odd in product(places(manifest.spec), ODD):
            spec = json.loads(json.dumps(replaced(manifest.spec, path, odd)))
            text = document(kind, manifest.name, spec, **given)
            plan = await world.apply(text, dry_run=True)
            assert isinstance(plan.problems, tuple), path


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (document("Role", "r", {"rules": [{"verbs": [["READ"]]}]}), "spec.rules[0].verbs[0]",
         "\"['READ']\" is not one of READ"),
        (document("NotificationSink", "s", {"settings": {"kind": ["SLACK"]}}),
         "spec.settings.kind", "\"['SLACK']\" is not one of"),
        (document("NotificationSink", "s", {"settings": "SLACK"}), "spec.settings.kind",
         "'None' is not one of"),
        (document("NotificationSink", "s", {"settings": {
            "kind": "WEBHOOK", "webhook": {"url": "https://x.example.org"}, "slack": {}}}),
         "spec.settings.slack", "unknown field 'slack'; use one of kind, webhook"),
        (document("Cluster", "eu-1", {"tags": ["a"]}), "spec.tags", "must be an object"),
        (document("Role", "r", {"rules": {}}), "spec.rules", "must be a list"),
        (document("Role", "r", {"rules": ["READ"]}), "spec.rules[0]", "must be an object"),
        (document("Role", "r", {"description": 1}), "spec.description", "must be text; quote it"),
        (document("GitRepository", REPOSITORY, {"httpsPath": {"env": "X"}}), "spec.httpsPath",
         "must be text; quote it; only `towline apply` reads `env` and `file`"),
        (document("Cluster", "eu-1", {"protect": "yes"}), "spec.protect", "must be true or false"),
    ],
)  # fmt: skip
async def test_a_problem_says_which_type_a_field_has(text: str, field: str, message: str) -> None:
    problems = (await manifest_world().apply(text)).problems
    found = {problem.field: problem.message for problem in problems}
    assert field in found and found[field].startswith(message), problems


async def test_an_incomplete_object_in_a_list_hides_no_other_problem() -> None:
    """It has the line of its item, and the other documents are checked."""
    stage = {"name": "prod", "services": ["eu-1/web"], "verification": {}}
    text = document("Pipeline", "p", {"stages": [stage]}) + document("Cluster", "EU_1")
    problems = (await manifest_world().apply(text)).problems
    found = {problem.field: problem.message for problem in problems}
    assert found["spec.stages[0]"] == "needs the field soakSeconds", problems
    assert found["metadata.name"].startswith("'EU_1' is not a valid name")
    (line,) = [problem.line for problem in problems if problem.field == "spec.stages[0]"]
    assert line == 8


async def test_a_reference_that_is_no_text_is_looked_up_nowhere() -> None:
    """A database refuses to compare a text with a number."""
    text = document("Group", "devs", {"members": [1, "ada@example.org"]})
    problems = (await manifest_world().apply(text)).problems
    assert "must be text; quote it" in {problem.message for problem in problems}
