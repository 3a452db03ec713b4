"""Conversion of the API's generators to changes."""

from typing import Any

import pytest

from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.clusters.model.cluster import Distribution
from controlplane.generators.api.definitions import CascadeAttributes
from controlplane.generators.api.global_services import GlobalServiceAttributes
from controlplane.generators.api.namespaces import ManagedNamespaceAttributes
from controlplane.generators.api.service_sets import (
    FolderGeneratorAttributes,
    GeneratorAttributes,
    RequestGeneratorAttributes,
    ServiceSetAttributes,
)
from controlplane.generators.model.definitions import LeavePolicy
from controlplane.generators.model.namespaces import NamespaceSpec
from controlplane.generators.model.service_set import (
    Generator,
    GitFolderGenerator,
    PullRequestGenerator,
)
from controlplane.generators.operations.global_services import GlobalChange
from controlplane.generators.operations.namespaces import NamespaceChange
from controlplane.generators.operations.service_sets import SetChange
from controlplane.platform.parts import given as given_fields
from core.errors import Invalid


def given(kind: Any, **fields: Any) -> Any:
    """Makes an input, whose fields only exist at run time."""
    return kind(**fields)


SELECTOR = given(
    ClusterSelectorAttributes,
    tags=[TagAttributes(name="tier", value="prod")],
    project_id="",
    group_ids=["g"],
)


def test_a_selector_has_only_the_given_conditions_and_no_empty_id() -> None:
    change = given(ServiceSetAttributes, name="apps", selector=SELECTOR, deletion_budget=3).change()
    conditions = {"tags": {"tier": "prod"}, "groups": ("g",)}
    assert change == SetChange("apps", selector=conditions, budget=3)


def test_generators_have_the_defaults_of_their_model() -> None:
    attributes = given(
        GeneratorAttributes,
        folders=given(FolderGeneratorAttributes, repository_id="r", pattern="apps/*"),
        items=[[TagAttributes(name="tenant", value="red")], []],
        requests=given(RequestGeneratorAttributes, repository_id="r", labels=["preview"]),
    )
    assert attributes.change() == Generator(
        GitFolderGenerator("r", "main", "apps/*"),
        ({"tenant": "red"}, {}),
        PullRequestGenerator("r", ("preview",)),
    )
    assert given(GeneratorAttributes).change() == Generator()


def test_a_cascade_applies_to_the_deletion_unless_it_has_a_policy_of_its_own() -> None:
    cascade = CascadeAttributes(delete=True)
    change = given(
        GlobalServiceAttributes, name="x", distro=Distribution.EKS, cascade=cascade
    ).change()
    leave = LeavePolicy.DELETE
    selector = {"distribution": Distribution.EKS}
    assert change == GlobalChange("x", selector=selector, leave=leave, on_delete=leave)
    attributes = given(
        GlobalServiceAttributes, name="x", cascade=cascade, on_delete=LeavePolicy.DETACH
    )
    assert attributes.change().on_delete is LeavePolicy.DETACH


def test_labels_are_objects_of_texts() -> None:
    attributes = given(
        ManagedNamespaceAttributes,
        name="team",
        labels={"tier": 1},
        quota=[TagAttributes(name="pods", value="5")],
    )
    assert attributes.change() == NamespaceChange(
        "team", spec=given_fields(NamespaceSpec, labels={"tier": "1"}, quota={"pods": "5"})
    )
    with pytest.raises(Invalid):
        given(ManagedNamespaceAttributes, labels=["tier"]).change()
