"""OCI repositories: their URLs, refs and limits in the control plane."""

import pytest

from controlplane.authorization.fences import (
    DestinationRule,
    Fence,
    FenceSource,
    SourceRule,
)
from controlplane.bridges import SERVICE_PARTS
from controlplane.generators.model.service_set import GitFolderGenerator, PullRequestGenerator
from controlplane.generators.operations.service_sets import _check_kind
from controlplane.pipelines.operations.write_targets import _check_is_git
from controlplane.platform.ports import PageQuery
from controlplane.repositories.model.repository import check_ref, check_ref_of, origin_of
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.sources import SourceChange
from core.errors import Conflict, Invalid, NotFound
from core.remotes import source_url
from core.spec.source import RepositoryKind
from core.spec.source_signatures import SignerSet
from tests.fakes.actors import EDITOR, VIEWER
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    operations_over_memory,
)

GIT, HELM, OCI = RepositoryKind.GIT, RepositoryKind.HELM, RepositoryKind.OCI
URL = "oci://registry.example.org/team/shop"
DIGEST = "sha256:" + "a" * 64
ARTIFACTS = make_repository("artifacts", kind=OCI)
REPOSITORY = make_repository("git")
DEV = make_cluster("dev")


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(ARTIFACTS, REPOSITORY, DEV)
    return world


async def test_an_oci_repository_is_of_its_own_kind(world: MemoryOperations) -> None:
    repositories = RepositoryOperations(world.context)
    made = await repositories.create(EDITOR, RepositoryChange(URL), OCI)
    assert await repositories.get(VIEWER, made.id, kind=OCI) == made
    assert world.manifests.specs[made.id].kind is OCI
    for kind in (GIT, HELM):
        with pytest.raises(NotFound):
            await repositories.get(VIEWER, made.id, kind=kind)
    page = await repositories.page(VIEWER, PageQuery(), OCI)
    assert {row.id for row in page.items} == {made.id, ARTIFACTS.id}
    await repositories.delete(EDITOR, made.id, OCI)
    actions = [action for _, action, _ in await world.audited()]
    assert actions == ["createOciRepository", "deleteOciRepository"]


@pytest.mark.parametrize(
    "url",
    [
        "https://registry.example.org/team/shop",
        "oci://registry.example.org",
        "oci://registry.example.org/Team",
        "oci://registry.example.org/team/shop:latest",
        f"oci://registry.example.org/team/shop@{DIGEST}",
        "oci://user:secret@registry.example.org/shop",
        "oci://registry.example.org/../shop",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(Invalid):
        origin_of(url, OCI)


def test_the_origin_of_a_registry_is_that_of_its_host() -> None:
    origins = {origin_of(f"oci://r.example.org/{path}", OCI) for path in ("a", "b/c")}
    assert len(origins) == 1
    assert source_url(URL) == URL


@pytest.mark.parametrize("ref", ["latest", "v1.2.3", "1.2", ">=1.2 <2", "^1", "1.*", DIGEST])
def test_tags_ranges_and_digests_are_refs_of_artifacts(ref: str) -> None:
    assert check_ref(ref) == check_ref_of(OCI, ref) == ref


@pytest.mark.parametrize("ref", ["refs/heads/main", "a/b", "main branch", ">=x y", "", "sha256:1"])
def test_other_refs_of_artifacts_are_refused(ref: str) -> None:
    with pytest.raises(Invalid, match=r"git\.ref"):
        check_ref_of(OCI, ref)


@pytest.mark.parametrize("ref", ["^1.2", "1.*", ">=1 <2", DIGEST])
def test_git_repositories_have_no_ranges_and_digests(ref: str) -> None:
    with pytest.raises(Invalid, match="only OCI repositories have digests"):
        check_ref_of(GIT, ref)
    assert check_ref_of(GIT, "main") == "main"


def test_placeholders_of_service_sets_stay() -> None:
    assert check_ref_of(OCI, "{tag}") == "{tag}"


async def test_a_service_follows_an_artifact(world: MemoryOperations) -> None:
    services = Services(world.context, SERVICE_PARTS)
    change = ServiceChange("web", "shop", repository_id=ARTIFACTS.id, ref="^1.2", folder="app")
    made = await services.create(EDITOR, "dev", None, change)
    assert (made.repository_id, made.spec.ref, made.spec.folder) == (ARTIFACTS.id, "^1.2", "app")
    newer = await services.update(EDITOR, made.id, ServiceChange(ref=DIGEST))
    assert newer.spec.ref == DIGEST
    with pytest.raises(Invalid, match="is not a tag, a version range"):
        await services.update(EDITOR, made.id, ServiceChange(ref="refs/heads/main"))
    source = SourceChange(REPOSITORY.id, "^1.2")
    with pytest.raises(Invalid, match="only OCI repositories have digests"):
        await services.update(EDITOR, made.id, ServiceChange(sources=[source]))


async def test_a_service_of_git_follows_no_range(world: MemoryOperations) -> None:
    services = Services(world.context, SERVICE_PARTS)
    change = ServiceChange("web", "shop", repository_id=REPOSITORY.id, ref="^1.2", folder="app")
    with pytest.raises(Invalid, match="only OCI repositories have digests"):
        await services.create(EDITOR, "dev", None, change)


def test_a_fence_covers_artifacts_like_commits() -> None:
    signers = SignerSet("keys", "")
    fence = Fence(
        sources=(
            SourceRule("oci://registry.example.org/team/*", refs=("v*",), signed_by=("keys",)),
        ),
        destinations=(DestinationRule(("*",), clusters=("*",)),),
        signers=(signers,),
    )
    inside = FenceSource(URL, "app", "v1")
    assert not fence.source_refusal(inside)
    assert fence.source_refusal(FenceSource(URL, "app", "latest"))
    assert fence.source_refusal(FenceSource("oci://registry.example.org/bank", "app", "v1"))
    (rule,) = fence.signature_rules([inside]).sources
    assert (rule.url, rule.charts, rule.signed_by) == (URL, (), (signers,))


def test_service_sets_read_folders_of_artifacts_but_no_pull_requests() -> None:
    _check_kind(GitFolderGenerator("x", "latest"), OCI)
    for source, kind in (
        (GitFolderGenerator("x", "main"), HELM),
        (PullRequestGenerator("x"), OCI),
        (PullRequestGenerator("x"), HELM),
    ):
        with pytest.raises(Invalid, match="must be a Git"):
            _check_kind(source, kind)


def test_pipelines_write_to_git_repositories_only() -> None:
    _check_is_git(REPOSITORY)
    with pytest.raises(Conflict, match="Towline writes only to Git repositories"):
        _check_is_git(ARTIFACTS)


@pytest.mark.parametrize("kind", [HELM, OCI])
@pytest.mark.parametrize(
    "url",
    [
        f"{URL}/",
        "oci://registry.example.org:443/team/shop",
        "oci://Registry.example.org/team/shop",
    ],
)
async def test_a_registry_has_one_url(
    world: MemoryOperations, kind: RepositoryKind, url: str
) -> None:
    """Otherwise one artifact is two repositories."""
    repositories = RepositoryOperations(world.context)
    with pytest.raises(Invalid, match=f"url: write the URL as {URL}$"):
        await repositories.create(EDITOR, RepositoryChange(url), kind)
    made = await repositories.create(EDITOR, RepositoryChange(URL), kind)
    with pytest.raises(Invalid, match="write the URL as"):
        await repositories.update(EDITOR, made.id, RepositoryChange(url), kind)


async def test_charts_of_one_registry_share_its_repository(world: MemoryOperations) -> None:
    services = Services(world.context, SERVICE_PARTS)
    for name, url in (("a", URL), ("b", "oci://REGISTRY.example.org:443/team/shop/")):
        helm = {"chart": "web", "version": "1.x", "url": url}
        await services.create(EDITOR, DEV.id, None, ServiceChange(name, "shop", helm=helm))
    assert len(await world.rows(RepositoryStore, url=URL)) == 1


@pytest.mark.parametrize(
    ("kind", "noun"),
    [(GIT, "Git repository"), (HELM, "Helm repository"), (OCI, "repository of OCI artifacts")],
)
async def test_a_url_names_one_repository_of_any_kind(
    world: MemoryOperations, kind: RepositoryKind, noun: str
) -> None:
    await world.given(make_repository("other", kind=kind, url=URL))
    repositories = RepositoryOperations(world.context)
    with pytest.raises(Conflict, match=f"a {noun} with the URL {URL} already exists"):
        await repositories.create(EDITOR, RepositoryChange(URL), HELM if kind is OCI else OCI)
