"""Helm and OCI repositories as the API shows them."""

from dataclasses import replace

import pytest

from controlplane.repositories.api.registries import HelmChart, HelmRepository, OciRepositoryType
from controlplane.repositories.model.repository import AuthMethod, Repository
from core.spec.renderers import chart_ref
from core.spec.source import Commit, RepositoryKind
from tests.fakes.clock import START
from tests.fakes.operations import make_repository

CHARTS = make_repository("charts", kind=RepositoryKind.HELM)
ARTIFACTS = make_repository("artifacts", kind=RepositoryKind.OCI)
SHA = "a" * 64


def found(repository: Repository, **subjects: str) -> Repository:
    """The repository with the newest version or artifact of each ref."""
    commits = {ref: Commit(SHA, "", subject, START) for ref, subject in subjects.items()}
    return replace(repository, commits=commits)


def test_charts_in_use_have_their_range_and_its_newest_version() -> None:
    """A ref that names no chart is left out."""
    refs = {
        chart_ref("web", "~1.2"): "web 1.2.9",
        chart_ref("team/db", ""): "team/db 3.0.0",
        "main": "no chart",
    }
    shown = HelmRepository.of(found(CHARTS, **refs))
    assert shown.charts == [
        HelmChart(chart="team/db", range="*", version="3.0.0", digest=f"sha256:{SHA}"),
        HelmChart(chart="web", range="~1.2", version="1.2.9", digest=f"sha256:{SHA}"),
    ]


def test_artifacts_in_use_have_their_revision_and_digest() -> None:
    refs = {"v1": "main@sha1:0c@sha256:b", "^1.2": "team/shop@sha256:c"}
    shown = OciRepositoryType.of(found(ARTIFACTS, **refs))
    assert [(row.ref, row.revision, row.digest, row.sha) for row in shown.artifacts] == [
        ("^1.2", "team/shop", "sha256:c", SHA),
        ("v1", "main@sha1:0c", "sha256:b", SHA),
    ]


@pytest.mark.parametrize(("method", "has"), [(None, False), (AuthMethod.BASIC, True)])
def test_a_registry_tells_only_that_it_has_credentials(
    method: AuthMethod | None, has: bool
) -> None:
    sealed = b"sealed" if method else None
    for repository, shown in ((CHARTS, HelmRepository), (ARTIFACTS, OciRepositoryType)):
        row = replace(repository, auth_method=method, sealed=sealed)
        output = shown.of(row)
        assert output.has_credentials is has
        assert "sealed" not in repr(output)
