"""Rules of drift: reverts of fields, the end of a fight, digests and sizes of plans."""

from dataclasses import replace

import pytest

from controlplane.configuration_sources.model.drift import (
    MAX_REVERTS,
    counted_reverts,
    fight_message,
    fought_fields,
    plan_digest,
    shortened,
)
from controlplane.manifests.model.plan import (
    FieldConflict,
    ManifestAction,
    ManifestEffect,
    SpecDifference,
)

REF = SpecDifference("spec.ref", '"main"', '"next"')
FOLDER = SpecDifference("spec.folder", None, '"shop"')
SERVICE = ManifestEffect(
    ManifestAction.UPDATE,
    "Service",
    "eu-1/web",
    (REF, FOLDER),
    (FieldConflict("spec.ref", "terraform"),),
    "web.yaml",
    3,
)
CREATED = ManifestEffect(ManifestAction.CREATE, "Cluster", "eu-1")


def test_each_field_and_each_new_resource_has_its_own_count() -> None:
    once = counted_reverts([SERVICE, CREATED], {})
    assert once == {
        "Service eu-1/web spec.ref": 1,
        "Service eu-1/web spec.folder": 1,
        "Cluster eu-1 CREATE": 1,
    }
    assert counted_reverts([CREATED], once) == {**once, "Cluster eu-1 CREATE": 2}


def test_a_fight_is_over_after_three_reverts_and_names_the_other_manager() -> None:
    reverts: dict[str, int] = {}
    for _ in range(MAX_REVERTS):
        assert fought_fields([SERVICE], reverts) == []
        reverts = counted_reverts([SERVICE], reverts)
    assert fought_fields([SERVICE], reverts) == [
        "Service eu-1/web spec.ref (set by terraform)", "Service eu-1/web spec.folder",
    ]  # fmt: skip
    assert MAX_REVERTS == 3
    assert fought_fields([CREATED], reverts) == []


@pytest.mark.parametrize(
    ("count", "names"), [(1, "f0"), (5, "f0, f1, f2, f3, f4"), (6, "f0, f1, f2, f3, f4, …")]
)
def test_a_fight_names_its_first_fields(count: int, names: str) -> None:
    message = fight_message([f"f{number}" for number in range(count)])
    assert message.startswith(f"was reverted 3 times and set again: {names}. Agree on one manager")


def test_a_plan_without_changes_has_no_digest() -> None:
    assert plan_digest("a" * 40, []) == ""
    digests = {plan_digest(sha, [item]) for sha in ("a", "b") for item in (SERVICE, CREATED)}
    assert len(digests) == 4 and "" not in digests


def test_a_kept_plan_has_its_first_effects_and_short_values() -> None:
    short = '"' + "ü" * 2_000 + '…"'
    for before, after, kept in (
        ("x" * 2_000, "ü" * 2_001, SpecDifference("spec.values", "x" * 2_000, short)),
        (None, None, SpecDifference("spec.values", None, None)),
    ):
        changes = (SpecDifference("spec.values", before, after), REF)
        (effect,) = shortened([replace(SERVICE, changes=changes), CREATED], 1)
        assert effect == replace(SERVICE, changes=(kept, REF))
    assert shortened([SERVICE, CREATED], 2) == (SERVICE, CREATED)
