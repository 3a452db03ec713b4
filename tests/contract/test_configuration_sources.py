"""Configuration sources, kept and found the same by all stores."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controlplane.configuration_sources.model.source import (
    ApplyMode,
    ConfigurationSource,
    SourceResult,
    SourceSettings,
    SourceStatus,
)
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.model.documents import DocumentProblem
from controlplane.manifests.model.plan import (
    FieldConflict,
    ManifestAction,
    ManifestEffect,
    SpecDifference,
)
from controlplane.platform.parts import column_values
from controlplane.platform.ports import Store
from core.errors import Conflict
from core.spec.sync import DriftPolicy

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
SETTINGS = SourceSettings(
    "repository", "v1", "fleet", "robot", ApplyMode.APPROVAL, True, 7, DriftPolicy.HEAL, 60, True
)
EFFECT = ManifestEffect(
    ManifestAction.UPDATE,
    "Cluster",
    "eu-1",
    (SpecDifference("spec.tags.env", '"test"', '"prod"'), SpecDifference("spec.x", None, "1")),
    (FieldConflict("spec.tags.env", "cli"),),
    "fleet/a.yaml",
    3,
)
STATUS = SourceStatus(
    SourceResult.AWAITING_APPROVAL,
    "1 changes wait for an approval",
    "a" * 40,
    NOW,
    "b" * 40,
    NOW,
    NOW,
    (DocumentProblem("is not YAML", "fleet/b.yaml", 2, "Cluster eu-1", "spec", "INVALID"),),
    (EFFECT,),
    1,
    "c" * 64,
    "d" * 64,
    "ada@example.org",
    True,
    True,
    {"Cluster eu-1 spec.tags.env": 2},
)
SOURCE = ConfigurationSource("1", "fleet", NOW, NOW, "project", SETTINGS, STATUS)


async def test_a_source_is_kept_with_all_fields(store: Store) -> None:
    async with store.write() as tx:
        await tx[ConfigurationSourceStore].add(SOURCE)
    async with store.read() as tx:
        assert await tx[ConfigurationSourceStore].by_name("fleet") == SOURCE
        assert await tx[ConfigurationSourceStore].of_repository("repository") == [SOURCE]
        assert await tx[ConfigurationSourceStore].of_project("project") == [SOURCE]


async def test_a_status_is_written_without_the_settings(store: Store) -> None:
    async with store.write() as tx:
        await tx[ConfigurationSourceStore].add(SOURCE)
        await tx[ConfigurationSourceStore].change("1", **column_values(SourceStatus()))
    async with store.read() as tx:
        assert await tx[ConfigurationSourceStore].get("1") == replace(SOURCE, status=SourceStatus())


async def test_a_name_is_unique(store: Store) -> None:
    with pytest.raises(Conflict):
        async with store.write() as tx:
            await tx[ConfigurationSourceStore].add(SOURCE)
            await tx[ConfigurationSourceStore].add(replace(SOURCE, id="2"))
