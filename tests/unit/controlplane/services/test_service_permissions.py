"""Permissions on the other resources that a change of a service names."""

from dataclasses import replace

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import (
    ANONYMOUS,
    BUILT_IN,
    DEFAULT_PROJECT,
    UNRESTRICTED,
    Actor,
    ActorKind,
    Grant,
    Policy,
    Scope,
)
from controlplane.bridges import SERVICE_PARTS
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.operations.sources import SourceChange
from controlplane.services.ports import ServiceStore
from core.errors import Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from core.identity import ClusterId
from core.spec.renderers import RenderOptions
from core.spec.source import RepositoryKind
from tests.fakes.actors import EDITOR, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

DEFAULT = f"project:{DEFAULT_PROJECT}"
DEV, PROD = make_cluster("dev"), make_cluster("prod", project_id="bank")
FLEET = make_repository("fleet")
HIDDEN = make_repository("hidden", project_id="bank")
CHARTS = make_repository(
    "charts", url="https://charts.example.org", kind=RepositoryKind.HELM, project_id="bank"
)
BANK = Project("bank", "bank", START, START, fence=UNRESTRICTED)
WEB = make_service("web", DEV, repository_id=FLEET.id, ref="main", input_digest="sha256:in")


def editor_of(*scopes: str) -> Actor:
    """An editor in these scopes, who reads the rest of the default project."""
    grants = [Grant(BUILT_IN["editor"], Scope(scope)) for scope in scopes]
    grants.append(Grant(BUILT_IN["viewer"], Scope(DEFAULT)))
    policy = Policy(tuple(grants))
    return Actor(ActorKind.USER, id="sue", name="sue", email="s@example.org", policy=policy)


EDITOR_OF_WEB = editor_of(f"service:{WEB.id}")
EDITOR_OF_DEFAULT = editor_of(DEFAULT)
SPIES = [
    (Grant(BUILT_IN["viewer"], Scope("cluster:prod")), Forbidden),
    (Grant(BUILT_IN["viewer"], Scope("service:other")), NotFound),
]


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(BANK, DEV, PROD, FLEET, HIDDEN, CHARTS, WEB)
    return world


@pytest.fixture
def services(world: MemoryOperations) -> Services:
    return Services(world.context, SERVICE_PARTS)


@pytest.mark.parametrize(("spy", "error"), SPIES)
async def test_only_an_editor_of_a_cluster_lets_its_agent_render(
    world: MemoryOperations, services: Services, spy: Grant, error: type[TowlineError]
) -> None:
    """An agent reads the repositories of what it renders. The renderer that a service already has
    needs no new permission."""
    actor = replace(
        EDITOR_OF_DEFAULT, policy=Policy((*EDITOR_OF_DEFAULT.policy.grants, spy))
    )  # fmt: skip
    change = ServiceChange(rendered_by="prod")
    with pytest.raises(error, match="renderedBy: " if error is NotFound else "may not write"):
        await services.update(actor, WEB.id, change)
    assert await world.row(ServiceStore, WEB.id) == WEB
    assert (await services.update(EDITOR, WEB.id, change)).spec.rendered_by == "prod"
    after = await services.update(actor, WEB.id, replace(change, version="2"))
    assert (after.spec.version, after.spec.rendered_by) == ("2", "prod")
    assert (await services.update(actor, WEB.id, ServiceChange(version="3"))).spec.rendered_by
    assert (await services.update(actor, WEB.id, ServiceChange(rendered_by=""))).spec == replace(
        after.spec, version="3", rendered_by=None
    )


async def test_a_clone_needs_the_permission_on_its_model(
    world: MemoryOperations, services: Services
) -> None:
    """It gets the secrets, contexts and sources of the model: reading that is not enough."""
    reader = editor_of("cluster:prod")
    with pytest.raises(Forbidden):
        await services.clone(reader, WEB.id, "prod", ServiceChange("copy"))
    assert await world.rows(ServiceStore) == [WEB]
    both = editor_of("cluster:prod", f"service:{WEB.id}")
    assert (await services.clone(both, WEB.id, "prod", ServiceChange("copy"))).name == "copy"


async def test_a_clone_is_rendered_where_its_actor_may(
    world: MemoryOperations, services: Services
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, rendered_by=ClusterId("prod"))
    with pytest.raises(NotFound):
        await services.clone(EDITOR_OF_DEFAULT, WEB.id, "dev", ServiceChange("copy"))
    own = ServiceChange("copy", rendered_by="")
    made = await services.clone(EDITOR_OF_DEFAULT, WEB.id, "dev", own)
    assert made.spec.rendered_by is None


async def test_a_hidden_project_does_not_exist(services: Services) -> None:
    change = ServiceChange("db", "db", project_id="bank")
    for id in ("bank", "none"):
        with pytest.raises(NotFound, match=f'projectId: project "{id}" does not exist, or you'):
            await services.create(EDITOR_OF_DEFAULT, "dev", None, replace(change, project_id=id))


@pytest.mark.parametrize(
    ("id", "handle", "field"),
    [
        ("none", None, 'clusterId: cluster "none"'),
        (None, "none", 'cluster: cluster "none"'),
        (None, None, "clusterId: specify"),
    ],
)
async def test_a_missing_cluster_is_named_by_the_given_argument(
    services: Services, id: str | None, handle: str | None, field: str
) -> None:
    with pytest.raises(TowlineError, match=f"^{field}"):
        await services.create(EDITOR, id, handle, ServiceChange("db", "db"))


@pytest.mark.parametrize("change", [{"name": None}, {"namespace": None}, {"name": "No Label"}])
async def test_a_service_without_a_name_or_a_namespace_is_refused(
    world: MemoryOperations, services: Services, change: dict[str, str | None]
) -> None:
    with pytest.raises(Invalid) as refused:
        await services.create(EDITOR, "dev", None, replace(ServiceChange("db", "db"), **change))
    assert refused.value.field == next(iter(change))
    assert len(await world.rows(ServiceStore)) == 1


@pytest.mark.parametrize("id", ["hidden", "none"])
async def test_repositories_of_others_do_not_exist(services: Services, id: str) -> None:
    """Neither as the repository of a service, nor as a further source."""
    with pytest.raises(NotFound, match=f'repositoryId: repository "{id}" does not exist, or you'):
        new = ServiceChange("db", "db", repository_id=id, ref="main")
        await services.create(EDITOR_OF_DEFAULT, "dev", None, new)
    with pytest.raises(NotFound):
        change = ServiceChange(sources=[SourceChange(id)])
        await services.update(EDITOR_OF_WEB, WEB.id, change)


@pytest.mark.parametrize("settings", [{"repository_id": "fleet"}, {"repository_id": "charts"}])
async def test_charts_come_from_readable_repositories_of_charts(
    services: Services, settings: dict[str, str]
) -> None:
    """The id of a Git repository, and that of another project's charts, name none."""
    with pytest.raises(NotFound):
        change = ServiceChange(helm={"chart": "redis", **settings})
        await services.update(EDITOR_OF_DEFAULT, WEB.id, change)


async def test_anonymous_callers_learn_nothing_about_services(services: Services) -> None:
    with pytest.raises(Unauthenticated):
        await services.related(ANONYMOUS, [], frozenset())


async def test_a_new_repository_of_charts_is_in_the_project_of_its_service(
    world: MemoryOperations, services: Services
) -> None:
    """Without a project, in that of the cluster."""
    for name, project_id, expected in (("a", "bank", "bank"), ("b", None, DEFAULT_PROJECT)):
        url = f"https://git.example.org/{name}.git"
        change = ServiceChange(name, name, ref="main", project_id=project_id)
        made = await services.create(EDITOR, "dev", None, change, repository_url=url)
        assert made.repository_id is not None
        stored = await world.row(RepositoryStore, made.repository_id)
        assert stored is not None and (stored.url, stored.project_id) == (url, expected)


async def test_render_options_are_checked_and_render_again(
    world: MemoryOperations, services: Services
) -> None:
    options = RenderOptions(include=("*.yaml",))
    after = await services.update(EDITOR, WEB.id, ServiceChange(rendering=options))
    assert (after.spec.rendering, after.desired.input_digest) == (options, None)
    with pytest.raises(Invalid):
        too_long = RenderOptions(include=("*.yaml",) * 65)
        await services.update(EDITOR, WEB.id, ServiceChange(rendering=too_long))
    with pytest.raises(Forbidden):
        await services.update(VIEWER, WEB.id, ServiceChange(rendering=options))
