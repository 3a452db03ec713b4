"""Operations on repositories."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.platform.context import RENDER_SERVICES
from controlplane.platform.ports import PageQuery
from controlplane.repositories.api.repositories import GitAttributes
from controlplane.repositories.model.repository import AuthMethod, GitHealth, Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.repositories.ports import PushStore, RegistryAccount, RepositoryStore
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.service import ServiceSource
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from core.outbound.credentials import account_of
from core.spec.source import Commit, GitCredentials, RepositoryKind, RepositoryState
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.manifest_world import document, manifest_world
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

URL = "https://git.example.org/fleet.git"
SIGN_IN = GitCredentials(username="towline", password="hunter2")
SHOP = Project("shop", "shop", START, START)
EDITOR_OF_SHOP = person(BuiltInRole.EDITOR, "sue", Scope("project:shop"))
GIT, CHARTS = make_repository("git"), make_repository("charts", kind=RepositoryKind.HELM)
DEV = make_cluster("dev")


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def repositories(world: MemoryOperations) -> RepositoryOperations:
    return RepositoryOperations(world.context)


def state(**more: Any) -> RepositoryState:
    commits = {"main": Commit("a" * 40, "Ada", "Begin", START)}
    return replace(RepositoryState(GIT.id, commits, frozenset(), None, START, START), **more)


async def test_a_connected_repository_is_followed(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    """Its credentials reach the git cache, and the store keeps them sealed."""
    change = RepositoryChange(
        URL, SIGN_IN, "hook", submodules=True, https_path="https://x", url_format=""
    )
    made = await repositories.create(EDITOR, change)
    assert await world.rows(RepositoryStore) == [made]
    assert (made.auth_method, made.submodules) == (AuthMethod.BASIC, True)
    assert (made.https_path, made.url_format) == ("https://x", None)
    assert b"hunter2" not in (made.sealed or b"") and b"hook" not in (made.sealed_webhook or b"")
    spec = world.manifests.specs[made.id]
    assert (spec.url, spec.credentials, spec.refs) == (URL, SIGN_IN, frozenset())
    assert await repositories.webhook_secret(made.id) == "hook"
    assert await world.audited() == [("ed@example.org", "createGitRepository", URL)]


async def test_a_helm_repository_is_of_its_own_kind(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    helm = RepositoryKind.HELM
    made = await repositories.create(EDITOR, RepositoryChange("oci://r.example.org/x"), helm)
    assert await repositories.get(VIEWER, made.id, kind=helm) == made
    for call in (repositories.get(VIEWER, made.id), repositories.delete(EDITOR, made.id)):
        with pytest.raises(NotFound):
            await call
    assert (await repositories.page(VIEWER, PageQuery())).items == ()
    assert (await repositories.page(VIEWER, PageQuery(), helm)).items == (made,)
    assert (await world.audited())[0][1] == "createHelmRepository"


@pytest.mark.parametrize(
    "url",
    [
        "https://charts.jetstack.io",
        "https://helm.cilium.io/",
        "oci://ghcr.io",
        "oci://ghcr.io/prometheus-community/charts",
        "oci://localhost:5000",
    ],
)
async def test_a_helm_repository_needs_no_path(
    world: MemoryOperations, repositories: RepositoryOperations, url: str
) -> None:
    made = await repositories.create(EDITOR, RepositoryChange(url), RepositoryKind.HELM)
    assert world.manifests.specs[made.id].url == url


@pytest.mark.parametrize(
    "url",
    ["charts", "ssh://git@example.org/x", "oci://", "https://u:p@example.org", "https://x/../y"],
)
async def test_an_invalid_helm_repository_is_refused(
    repositories: RepositoryOperations, url: str
) -> None:
    with pytest.raises(Invalid):
        await repositories.create(EDITOR, RepositoryChange(url), RepositoryKind.HELM)


def test_git_crypt_is_refused_with_the_alternatives() -> None:
    attributes: Any = GitAttributes
    assert attributes(url=URL, decrypt=False).change() == RepositoryChange(URL)
    with pytest.raises(Invalid, match="SOPS files are decrypted with the age keys") as error:
        attributes(url=URL, decrypt=True).change()
    assert error.value.field == "decrypt"


@pytest.mark.parametrize(
    "change",
    [
        RepositoryChange(),
        RepositoryChange("not a url"),
        RepositoryChange(URL, https_path="\0"),
        RepositoryChange(URL, https_path="javascript:alert(1)"),
        RepositoryChange(URL, url_format="data:text/html,{ref}"),
        RepositoryChange(URL, GitCredentials(client_key="-----BEGIN X")),
    ],
)
async def test_an_invalid_repository_is_refused(
    world: MemoryOperations, repositories: RepositoryOperations, change: RepositoryChange
) -> None:
    with pytest.raises(Invalid):
        await repositories.create(EDITOR, change)
    assert await world.rows(RepositoryStore) == [] and world.manifests.specs == {}


async def test_urls_are_unique(world: MemoryOperations, repositories: RepositoryOperations) -> None:
    await world.given(GIT)
    with pytest.raises(Conflict, match="already exists") as error:
        await repositories.create(EDITOR, RepositoryChange(GIT.url))
    assert error.value.current["id"] == "git"


async def test_a_project_and_a_network_need_permissions(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    await world.given(SHOP, DEV, make_cluster("prod", project_id="shop"))

    async def create(**change: Any) -> Repository:
        return await repositories.create(EDITOR_OF_SHOP, RepositoryChange(URL, **change))

    with pytest.raises(Forbidden):
        await create()
    for via in ("dev", "none"):
        with pytest.raises(NotFound):
            await create(project_id="shop", via=via)
    made = await create(project_id="shop", via="prod")
    assert (made.project_id, made.via) == ("shop", "prod")
    spec = world.manifests.specs[made.id]
    assert (spec.project, spec.via, spec.submodules) == ("shop", "prod", False)
    for via in ("dev", "none"):
        with pytest.raises(NotFound, match="viaClusterId"):
            await repositories.update(EDITOR_OF_SHOP, made.id, RepositoryChange(via=via))
    with pytest.raises(Conflict, match="cannot be moved to another project"):
        await repositories.update(EDITOR, made.id, RepositoryChange(project_id=DEFAULT_PROJECT))
    await repositories.update(EDITOR, made.id, RepositoryChange(project_id="shop", submodules=True))
    assert world.manifests.specs[made.id].submodules


async def test_a_url_of_another_project_only_tells_that_it_is_used(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    charts = replace(CHARTS, url="https://charts.example.org/stable")
    await world.given(SHOP, charts)
    change = RepositoryChange(charts.url, project_id="shop")
    for actor, noun in ((EDITOR_OF_SHOP, "a repository"), (EDITOR, "a Helm repository")):
        with pytest.raises(Conflict, match=f"{noun} with the URL .* already exists") as error:
            await repositories.create(actor, change)
        assert bool(error.value.current) == (actor is EDITOR)


async def test_only_visible_repositories_are_listed_and_found(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    await world.given(SHOP, GIT, replace(make_repository("other"), project_id="shop"))
    assert [r.id for r in (await repositories.page(VIEWER, PageQuery())).items] == ["git", "other"]
    assert [r.id for r in (await repositories.page(EDITOR_OF_SHOP, PageQuery())).items] == ["other"]
    assert await repositories.get(VIEWER, None, GIT.url) == GIT
    assert await repositories.get(VIEWER, "git", "https://other.example.org/fleet.git") == GIT
    assert await repositories.get(VIEWER, "none", GIT.url) == GIT
    for id, url in (("git", None), ("none", None), (None, None), (None, GIT.url)):
        with pytest.raises(NotFound):
            await repositories.get(EDITOR_OF_SHOP, id, url)


async def test_a_change_reaches_the_git_cache_with_the_refs_in_use(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    web = make_service("web", DEV, repository_id=GIT.id, ref="v1", folder="web")
    drawn = make_service(
        "api", DEV, repository_id=GIT.id, ref="v2", folder="api", rendered_by="dev"
    )
    further = ServiceSource("s", web.id, GIT.id, 0, "v3", "base", "")
    await world.given(DEV, GIT, web, drawn, further)
    await world.clock.advance(1)
    after = await repositories.update(EDITOR, "git", RepositoryChange(credentials=SIGN_IN))
    assert (after.url, after.updated_at) == (GIT.url, world.clock.now())
    spec = world.manifests.specs["git"]
    assert (spec.refs, spec.folders) == ({"v1", "v2", "v3"}, {"web", "base"})
    assert spec.credentials == SIGN_IN
    assert await world.audited() == [("ed@example.org", "updateGitRepository", GIT.url)]


async def test_credentials_stay_with_their_server(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    """Another path of the server keeps them, another server or network does not."""
    await world.given(DEV)
    made = await repositories.create(EDITOR, RepositoryChange(URL, SIGN_IN))
    moved = await repositories.update(EDITOR, made.id, RepositoryChange(f"{URL}/2"))
    assert (moved.sealed, moved.auth_method) == (made.sealed, AuthMethod.BASIC)
    with pytest.raises(Invalid, match="given again") as error:
        await repositories.update(EDITOR, made.id, RepositoryChange(via="dev"))
    assert error.value.field == "password"
    through = await repositories.update(EDITOR, made.id, RepositoryChange(None, SIGN_IN, via="dev"))
    assert (through.via, world.manifests.specs[made.id].credentials) == ("dev", SIGN_IN)
    await repositories.update(EDITOR, made.id, RepositoryChange(None, SIGN_IN, via=""))
    other = await repositories.update(
        EDITOR, made.id, RepositoryChange("https://evil.example.org/x.git")
    )
    assert (other.sealed, other.auth_method) == (None, None)
    assert world.manifests.specs[made.id].credentials is None
    via = await repositories.update(EDITOR, made.id, RepositoryChange(via="dev"))
    assert via.via == "dev"
    assert (await repositories.update(EDITOR, made.id, RepositoryChange())).via == "dev"
    assert (await repositories.update(EDITOR, made.id, RepositoryChange(via=""))).via is None


async def test_an_unused_repository_is_deleted(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    made = await repositories.create(EDITOR, RepositoryChange(URL))
    await repositories.delete(EDITOR, made.id)
    assert await world.rows(RepositoryStore) == [] and world.manifests.specs == {}
    assert (await world.audited())[-1] == ("ed@example.org", "deleteGitRepository", URL)


async def test_a_repository_in_use_stays(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    """Services that are being deleted, and further sources, count as well."""
    own = make_service("own", DEV)
    leaving = make_service("leaving", DEV, repository_id=GIT.id, deleted_at=START)
    source = ServiceSource("s", own.id, GIT.id, 0, "main", "base", "")
    await world.given(DEV, GIT, own, leaving, source)
    with pytest.raises(Conflict, match="2 services use this repository .*leaving, own$"):
        await repositories.delete(EDITOR, "git")
    assert await world.rows(RepositoryStore) == [GIT]
    await world.given(*(make_service(f"s{n}", DEV, repository_id=GIT.id) for n in range(4)))
    with pytest.raises(Conflict, match="6 services use .*: leaving, own, s0, s1, s2$"):
        await repositories.delete(EDITOR, "git")


async def test_a_service_with_two_folders_of_a_repository_counts_once(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    web = make_service("web", DEV, repository_id=GIT.id)
    await world.given(DEV, GIT, web, ServiceSource("s", web.id, GIT.id, 0, "main", "base", ""))
    with pytest.raises(Conflict, match="1 service uses this repository or is still .*: web$"):
        await repositories.delete(EDITOR, "git")


async def test_sync_fetches_and_renders(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    await world.given(GIT)
    assert await repositories.sync(EDITOR, "git") == GIT
    assert world.manifests.hints == ["git"]
    assert world.published == [(RENDER_SERVICES, "git/")]
    assert await world.audited() == [("ed@example.org", "syncGitRepository", GIT.url)]


async def test_a_repository_without_a_webhook_has_no_secret(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    await world.given(GIT)
    assert await repositories.webhook_secret("git") is None
    assert await repositories.webhook_secret("none") is None


async def test_a_registry_account_is_that_of_the_longest_url(
    repositories: RepositoryOperations,
) -> None:
    accounts = {
        "https://r.example.org/team": GitCredentials(username="all", password="1"),
        "https://r.example.org/team/core/": GitCredentials(password="2"),
        "https://r.example.org/key": GitCredentials(username="nobody"),
        "https://r.example.org/open": GitCredentials(),
    }
    for url, credentials in accounts.items():
        await repositories.create(EDITOR, RepositoryChange(url, credentials))
    found = {
        image: await repositories.account_for(DEFAULT_PROJECT, f"r.example.org/{image}")
        for image in ("team/core/web", "team/cores", "key/web", "open/web")
    }
    assert found == {
        "team/core/web": RegistryAccount("git", "2"),
        "team/cores": RegistryAccount("all", "1"),
        "key/web": None,
        "open/web": None,
    }
    assert await repositories.account_for(DEFAULT_PROJECT, "elsewhere.example.org/web") is None
    assert await repositories.account_for("shop", "r.example.org/team/web") is None


@pytest.mark.parametrize("others_first", [True, False])
async def test_a_repository_without_a_password_hides_no_registry_account(
    repositories: RepositoryOperations, others_first: bool
) -> None:
    account = (RepositoryChange("https://r.example.org/team", SIGN_IN), RepositoryKind.GIT)
    others = [
        (RepositoryChange("oci://r.example.org/team"), RepositoryKind.OCI),
        (RepositoryChange("https://r.example.org/team/web"), RepositoryKind.GIT),
    ]
    for change, kind in [*others, account] if others_first else [account, *others]:
        await repositories.create(EDITOR, change, kind)
    found = await repositories.account_for(DEFAULT_PROJECT, "r.example.org/team/web")
    assert found == account_of(SIGN_IN)


async def test_the_first_of_two_accounts_for_one_place_opens_a_registry(
    repositories: RepositoryOperations,
) -> None:
    for number, end in enumerate(("", "/")):
        credentials = GitCredentials("bot", str(number))
        change = RepositoryChange(f"https://r.example.org/team{end}", credentials)
        await repositories.create(EDITOR, change)
    found = await repositories.account_for(DEFAULT_PROJECT, "r.example.org/team/web")
    assert found == RegistryAccount("bot", "0")


async def test_a_wrong_key_is_found_at_start(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    await repositories.check_key()
    await repositories.create(EDITOR, RepositoryChange(URL, SIGN_IN, "hook"))
    await repositories.check_key()
    other = replace(world.context, sealer=EnvelopeSealer(b"x" * 32))
    with pytest.raises(TowlineError):
        await RepositoryOperations(other).check_key()


@pytest.mark.parametrize(
    "change", [RepositoryChange(URL, SIGN_IN), RepositoryChange(URL, webhook_secret="hook")]
)
async def test_a_wrong_key_of_any_secret_is_found_at_start(
    world: MemoryOperations, repositories: RepositoryOperations, change: RepositoryChange
) -> None:
    await repositories.create(EDITOR, change)
    other = replace(world.context, sealer=EnvelopeSealer(b"x" * 32))
    with pytest.raises(TowlineError, match="encrypted with another key"):
        await RepositoryOperations(other).check_key()


async def test_the_secrets_of_a_repository_are_compared_with_sealed_ones(
    repositories: RepositoryOperations,
) -> None:
    made = await repositories.create(EDITOR, RepositoryChange(URL, SIGN_IN, "hook"))
    assert repositories.secrets_of(made) == {
        "username": "towline",
        "password": "hunter2",
        "webhook_secret": "hook",
    }
    assert repositories.secrets_of(GIT) == {"webhook_secret": None}


async def test_pushes_are_recorded_once_and_for_90_days(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    await world.given(GIT)
    for commits in (["a" * 40], ["a" * 40, "b" * 40]):
        await repositories.record_push("git", "bo", "bo@example.org", commits)
    await repositories.record_push("none", "bo", "bo@example.org", ["c" * 40])
    await repositories.record_push("git", "ann", "", ["a" * 40])
    pushes = await world.rows(PushStore)
    assert sorted((push.commit_sha[0], str(push)) for push in pushes) == [
        ("a", "ann"),
        ("a", "bo <bo@example.org>"),
        ("b", "bo <bo@example.org>"),
    ]
    assert {(push.repository_id, push.inserted_at) for push in pushes} == {("git", START)}
    await world.clock.advance(90 * 86_400 - 1)
    await repositories.record_push("git", "bo", "bo@example.org", ["d" * 40])
    assert len(await world.rows(PushStore)) == 4
    await world.clock.advance(2)
    await repositories.record_push("git", "bo", "bo@example.org", ["e" * 40])
    assert sorted(push.commit_sha[0] for push in await world.rows(PushStore)) == ["d", "e"]


async def test_all_repositories_are_followed_at_start(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    service = make_service("web", DEV, repository_id=GIT.id, ref="v1", folder="web")
    await world.given(DEV, GIT, CHARTS, service)
    await repositories.follow_all()
    assert {id: set(spec.refs) for id, spec in world.manifests.specs.items()} == {
        "git": {"v1"},
        "charts": set(),
    }


async def test_the_ref_of_a_service_is_followed_once(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    service = make_service("web", DEV, repository_id=GIT.id, ref="v1", folder="web")
    await world.given(DEV, GIT, service)
    await repositories.ensure_followed("git", service.id)
    assert world.manifests.specs.pop(GIT.id).refs == {"v1"}
    await repositories.ensure_followed("git", service.id)
    assert world.manifests.specs == {}
    await repositories.ensure_followed("git", "none")
    await repositories.ensure_followed("none", "none")
    assert world.manifests.specs.keys() == {"git"}


@pytest.mark.parametrize(
    ("state", "health", "polled"),
    [
        (state(), GitHealth.PULLABLE, True),
        (state(commits={}, missing=frozenset({"main"})), GitHealth.PULLABLE, True),
        (state(error="no route"), GitHealth.FAILED, True),
        (state(commits={}, error="no route"), GitHealth.FAILED, True),
        (state(commits={}, reached=True), GitHealth.PULLABLE, True),
        (state(commits={}), None, False),
    ],
)
async def test_the_state_of_a_repository_is_stored(
    world: MemoryOperations,
    repositories: RepositoryOperations,
    state: RepositoryState,
    health: GitHealth | None,
    polled: bool,
) -> None:
    """A repository whose server was not asked has no time of a poll."""
    await world.given(GIT)
    await repositories.store_state(replace(state, size=7, owner="replica"))
    row = await world.row(RepositoryStore, "git")
    assert row is not None
    assert (row.health, row.error, row.commits) == (health, state.error, state.commits)
    assert (row.polled_at, row.size, row.owner) == (START if polled else None, 7, "replica")
    assert row.fetched_at == state.fetched_at


async def test_polls_are_shown_at_once_and_stored_later(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    service = make_service("web", DEV, repository_id=GIT.id, ref="v1", folder="web")
    await world.given(DEV, GIT, CHARTS, service)
    await repositories.follow_all()
    polled = replace(GIT, polled_at=START)
    assert await repositories.get(VIEWER, "git") == polled
    assert await world.row(RepositoryStore, "git") == GIT
    await repositories.store_polls()
    assert await world.rows(RepositoryStore) == [CHARTS, polled]
    await repositories.store_polls()
    assert await repositories.get(VIEWER, "git") == polled


@pytest.mark.parametrize(
    "url",
    ["https://git.example.org/a.git", "ssh://git@git.example.org:2222/a.git", "git@host:team/a"],
)
async def test_a_git_repository_has_an_url_of_git(
    world: MemoryOperations, repositories: RepositoryOperations, url: str
) -> None:
    """A URL of charts and artifacts is none."""
    made = await repositories.create(EDITOR, RepositoryChange(url))
    assert world.manifests.specs[made.id].url == url
    with pytest.raises(Invalid):
        await repositories.create(EDITOR, RepositoryChange("oci://git.example.org/a"))


async def test_a_repository_without_its_last_credential_is_public(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    known = GitCredentials(known_hosts="git.example.org ssh-ed25519 AAAA")
    made = await repositories.create(EDITOR, RepositoryChange("git@git.example.org:a", known))
    assert made.sealed is not None
    change = RepositoryChange(credentials=GitCredentials(known_hosts=""))
    public = await repositories.update(EDITOR, made.id, change)
    assert (public.sealed, world.manifests.specs[made.id].credentials) == (None, None)


async def test_a_manifest_names_a_repository_of_its_own_kind() -> None:
    """A document of Git changes no repository of charts that has its URL."""
    world = manifest_world()
    charts = make_repository("charts", kind=RepositoryKind.HELM, url=URL)
    await world.memory.given(charts)
    plan = await world.apply(document("GitRepository", URL, {"submodules": True}))
    assert ["a Helm repository with the URL" in problem.message for problem in plan.problems] == [
        True
    ]
    assert await world.memory.rows(RepositoryStore) == [charts]
    assert await world.export("GitRepository") == ""
    assert URL in await world.export("HelmRepository")


async def test_links_stay_until_an_empty_text_removes_them(
    repositories: RepositoryOperations,
) -> None:
    links = ("https://git.example.org/fleet", "{url}/blob/{ref}/{path}")
    change = RepositoryChange(URL, https_path=links[0], url_format=links[1])
    made = await repositories.create(EDITOR, change)
    kept = await repositories.update(EDITOR, made.id, RepositoryChange(submodules=True))
    assert (kept.https_path, kept.url_format) == links
    removed = await repositories.update(EDITOR, made.id, RepositoryChange(url_format=""))
    assert (removed.https_path, removed.url_format) == (links[0], None)
    assert await repositories.delete(EDITOR, made.id) == removed


async def test_a_newer_poll_of_another_replica_counts(
    world: MemoryOperations, repositories: RepositoryOperations
) -> None:
    """This replica has polled the repository too, before it went to another one."""
    service = make_service("web", DEV, repository_id=GIT.id, ref="v1", folder="web")
    newer = replace(GIT, polled_at=START + timedelta(days=1), commits=state().commits)
    await world.given(DEV, newer, service)
    await repositories.follow_all()
    assert await repositories.get(VIEWER, "git") == newer
    await repositories.store_polls()
    assert await world.rows(RepositoryStore) == [newer]


CALLS = {
    "create": lambda operations, actor: operations.create(actor, RepositoryChange(URL)),
    "update": lambda operations, actor: operations.update(actor, "git", RepositoryChange()),
    "delete": lambda operations, actor: operations.delete(actor, "git"),
    "sync": lambda operations, actor: operations.sync(actor, "git"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_change_needs_write_access(
    world: MemoryOperations, repositories: RepositoryOperations, name: str
) -> None:
    await world.given(GIT)
    with pytest.raises(Forbidden):
        await CALLS[name](repositories, VIEWER)
    with pytest.raises(Forbidden if name == "create" else NotFound):
        await CALLS[name](repositories, NOBODY)
    with pytest.raises(Unauthenticated):
        await CALLS[name](repositories, ANONYMOUS)
    assert await world.rows(RepositoryStore) == [GIT]
    assert await world.audited() == [] and world.published == []


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"create"}))
async def test_a_missing_repository_is_not_found(
    repositories: RepositoryOperations, name: str
) -> None:
    with pytest.raises(NotFound):
        await CALLS[name](repositories, ADMIN)
