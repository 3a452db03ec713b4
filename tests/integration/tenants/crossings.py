"""Hostile tenants who use operations, not files: previews, contexts, moved resources, pipelines.

Eve edits project shop, whose fence allows the namespace shop of the cluster prod, and may see
nothing else. `bank` is the project of somebody else, in the namespace bank of the same cluster.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from controlplane.access.model.bindings import Project
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.authorization import (
    BUILT_IN,
    SYSTEM,
    DestinationRule,
    Fence,
    Grant,
    Policy,
    Scope,
    SourceRule,
)
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.operations.clusters import ClusterChange, Clusters
from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.operations.contexts import ContextChange, ServiceContexts
from controlplane.generators.model.service_set import Generator, PullRequestGenerator, ServiceSet
from controlplane.generators.operations.generation import GeneratorEvaluator
from controlplane.generators.operations.service_sets import ServiceSets, SetChange
from controlplane.pipelines.model.pipeline import ServiceSelector
from controlplane.pipelines.operations.drafts import EdgeDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from controlplane.secrets.model.secret import Secret
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.services.model.templates import ServiceTemplate
from controlplane.services.operations.services import ServiceChange, Services
from controlplane.services.ports import ServiceStore
from core.errors import Forbidden
from core.identity import RepositoryId
from core.spec.bundle import KubeObject
from core.spec.edits import OpenMergeRequest
from tests.fakes.actors import person
from tests.fakes.clock import START
from tests.fakes.manifest_world import ManifestWorld, document, manifest_world
from tests.fakes.operations import make_cluster, make_repository, make_service
from tests.integration.tenants.corpus import ACCOUNT, BANK, SHOP, made

PROD, PLATFORM = (
    make_cluster(name, project_id="platform", tags={"name": name}) for name in ("prod", "platform")
)
REPOSITORY, LEDGERS = (make_repository(name, project_id=name) for name in (SHOP, BANK))
WEB = replace(make_service("web", PROD, project_id=SHOP), namespace=SHOP)
LEDGER = replace(make_service("ledger", PROD, project_id=BANK), namespace=BANK)
VAULT = ServiceContext("vault", "vault", START, START, {"namespace": BANK}, project_id=BANK)
OWN = ServiceContext("own", "own", START, START, {"namespace": SHOP}, project_id=SHOP)
KEY = Secret("key", "key", START, START, BANK)
TILL = Secret("till", "till", START, START, SHOP)
EVE = person(BuiltInRole.EDITOR, "eve", Scope(f"project:{SHOP}"))
# Manifests name the cluster, so their author must see it, and with it all services there.
SEES_PROD = replace(
    EVE,
    policy=Policy((*EVE.policy.grants, Grant(BUILT_IN[BuiltInRole.VIEWER], Scope("cluster:prod")))),
)
UNSEEN, UNMOVED = "does not exist, or you may not read it", "cannot be moved"
# An ID or a name of its own is enough here, so the error names none.
HIDDEN = "could not find resource"


def _project(name: str, repository: Repository) -> Project:
    place = DestinationRule((name,), f"{name}:{ACCOUNT}", clusters=("prod",))
    fence = Fence(sources=(SourceRule(repository.url),), destinations=(place,))
    return Project(name, name, START, START, fence=fence)


async def bank_and_shop() -> ManifestWorld:
    """Both projects on one cluster, each with a service, a repository, a context and a secret."""
    world = manifest_world()
    projects = (_project(SHOP, REPOSITORY), _project(BANK, LEDGERS))
    await world.memory.given(PROD, PLATFORM, *projects, REPOSITORY, LEDGERS)
    await world.memory.given(WEB, LEDGER, VAULT, OWN, KEY, TILL)
    return world


Attempt = Callable[[ManifestWorld], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Crossing:
    """One attempt. `first`: reason with which the control plane refuses it."""

    name: str
    attempt: Attempt
    first: str

    @property
    def object(self) -> KubeObject:
        """An object that the attempt would bring into the namespace bank."""
        return made("v1", "ConfigMap", self.name.replace(" ", "-"), BANK, data={})


class _Hosting:
    """A hosting service with one open pull request."""

    def __init__(self, request: OpenMergeRequest) -> None:
        self._request = request

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        return [self._request]


def _preview(
    namespace: str, branch: str = "web", *, forked: bool = False, cluster: str = "prod"
) -> Attempt:
    """Generates the preview of one pull request. Forbidden: none is made."""
    previews = ServiceSet(
        *("previews", "previews", START, START, SHOP),
        selector=Selector(tags={"name": cluster}),
        generator=Generator(requests=PullRequestGenerator(REPOSITORY.id)),
        template=ServiceTemplate("web-${request.number}", namespace, REPOSITORY.id),
    )
    hosting = _Hosting(OpenMergeRequest(1, branch, "a" * 40, START, forked=forked))

    async def attempt(world: ManifestWorld) -> object:
        found = await GeneratorEvaluator(world.memory.context, hosting).evaluate(previews)
        if not found.services:
            raise Forbidden("; ".join(found.problems) or "no preview is made")
        return found

    return attempt


def _pipeline(*stages: StageDraft) -> Attempt:
    names = [stage.name for stage in stages]
    edges = [EdgeDraft(*pair) for pair in pairwise(names)]
    draft = PipelineDraft("rollout", stages, edges, project_id=SHOP)
    return lambda world: world.operations[Pipelines].save(EVE, draft)


async def _select_services_of_others(world: ManifestWorld) -> object:
    """A selector of the names of others' services, in a cluster that the own fence names."""
    selector = ServiceSelector((LEDGER.name,))
    saved = await _pipeline(StageDraft("first", [WEB.id]), StageDraft("all", selector=selector))(
        world
    )
    (ledger,) = await world.memory.rows(ServiceStore, id=LEDGER.id)
    if not ledger.spec.promoted:
        raise Forbidden("no service of others matches")
    return saved


def _job(namespace: str) -> Attempt:
    """Runs a gate's job, with the fence of the pipeline's project."""
    pod = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
    request = JobRequest(namespace, manifest, key="rollout:1", project_id=SHOP)

    async def attempt(world: ManifestWorld) -> object:
        context = world.memory.context
        return await ClusterJobs(context, LiveLogs()).run(SYSTEM, PROD.id, request)

    return attempt


def _apply(kind: str, name: str, spec: object, **metadata: str) -> Attempt:
    """Applies a manifest. Forbidden: its plan has a problem."""

    async def attempt(world: ManifestWorld) -> object:
        plan = await world.apply(document(kind, name, spec, **metadata), SEES_PROD)
        if plan.problems:
            raise Forbidden("; ".join(problem.message for problem in plan.problems))
        return plan

    return attempt


def _previews() -> Iterator[Crossing]:
    theirs = "no destination rule allows namespace bank"
    yield Crossing("preview of a fork", _preview(SHOP, forked=True), "no preview is made")
    yield Crossing(
        "preview of a fork in the namespace of others",
        _preview(BANK, forked=True),
        "no preview is made",
    )
    yield Crossing("preview in the namespace of others", _preview(BANK), theirs)
    yield Crossing(
        "preview whose branch names the namespace", _preview("${request.branch}", BANK), theirs
    )
    yield Crossing(
        "preview whose branch is part of the namespace",
        _preview("ba${request.branch}", "nk"),
        theirs,
    )
    yield Crossing(
        "preview in a cluster of others", _preview(SHOP, cluster="platform"), "no preview is made"
    )
    previews = SetChange(name="previews", project_id=BANK, template=ServiceChange("web", BANK))
    yield Crossing(
        "set of previews in the project of others",
        lambda world: world.operations[ServiceSets].create(EVE, previews),
        UNSEEN,
    )
    everywhere = replace(previews, project_id=None)
    yield Crossing(
        "set of previews of the whole installation",
        lambda world: world.operations[ServiceSets].create(EVE, everywhere),
        "needs role",
    )


def _contexts() -> Iterator[Crossing]:
    bind = ServiceChange(context_ids=(VAULT.id,))
    yield Crossing(
        "context of others",
        lambda world: world.operations[Services].update(EVE, WEB.id, bind),
        UNSEEN,
    )
    new = ServiceChange("api", SHOP, REPOSITORY.id, "main", project_id=SHOP)
    yield Crossing(
        "new service with the context of others",
        lambda world: world.operations[Services].create(
            EVE, PROD.id, None, replace(new, context_ids=(VAULT.id,))
        ),
        UNSEEN,
    )
    yield Crossing(
        "value in the context of others",
        lambda world: world.operations[ServiceContexts].save(
            EVE, VAULT.name, ContextChange({"namespace": SHOP})
        ),
        HIDDEN,
    )
    yield Crossing(
        "context moved to the project of others",
        lambda world: world.operations[ServiceContexts].save(
            EVE, OWN.name, ContextChange(project_id=BANK)
        ),
        UNMOVED,
    )
    yield Crossing(
        "new context in the project of others",
        lambda world: world.operations[ServiceContexts].save(
            EVE, "new", ContextChange(project_id=BANK)
        ),
        UNSEEN,
    )
    yield Crossing(
        "secret of others",
        lambda world: world.operations[Secrets].use(EVE, WEB.id, {"key": (KEY.id, None)}),
        UNSEEN,
    )


def _moves() -> Iterator[Crossing]:
    new = ServiceChange("api", SHOP, REPOSITORY.id, "main", project_id=SHOP)
    yield Crossing(
        "secret moved from the project of others",
        lambda world: world.operations[Secrets].save(EVE, KEY.name, SecretChange(project_id=SHOP)),
        HIDDEN,
    )
    yield Crossing(
        "secret moved to the project of others",
        lambda world: world.operations[Secrets].save(EVE, TILL.name, SecretChange(project_id=BANK)),
        UNMOVED,
    )
    yield Crossing(
        "repository moved to the project of others",
        lambda world: world.operations[RepositoryOperations].update(
            EVE, REPOSITORY.id, RepositoryChange(project_id=BANK)
        ),
        UNMOVED,
    )
    yield Crossing(
        "new service from the repository of others",
        lambda world: world.operations[Services].create(
            EVE, PROD.id, None, replace(new, repository_id=LEDGERS.id)
        ),
        UNSEEN,
    )
    yield Crossing(
        "cluster moved to the own project",
        lambda world: world.operations[Clusters].update(
            EVE, PROD.id, ClusterChange(project_id=SHOP)
        ),
        HIDDEN,
    )
    web = {"namespace": SHOP}
    yield Crossing(
        "service moved to the project of others",
        _apply("Service", "web", web, cluster="prod", project=BANK),
        UNSEEN,
    )
    yield Crossing(
        "service moved to the default project",
        _apply("Service", "web", web, cluster="prod", project="default"),
        UNSEEN,
    )
    yield Crossing(
        "service of others moved to the own project",
        _apply("Service", "ledger", web, cluster="prod", project=SHOP),
        "cannot be changed",
    )
    yield Crossing(
        "service cloned into the namespace of others",
        lambda world: world.operations[Services].clone(
            EVE, WEB.id, PROD.id, ServiceChange("api", BANK, project_id=SHOP)
        ),
        "no destination rule allows namespace bank",
    )
    yield Crossing(
        "service cloned into the project of others",
        lambda world: world.operations[Services].clone(
            EVE, WEB.id, PROD.id, ServiceChange("api", BANK, project_id=BANK)
        ),
        UNSEEN,
    )


def _pipelines() -> Iterator[Crossing]:
    first = StageDraft("first", [WEB.id])
    absent = f"service {LEDGER.id} does not exist"
    yield Crossing(
        "pipeline that promotes a service of others",
        _pipeline(first, StageDraft("second", [LEDGER.id])),
        absent,
    )
    yield Crossing(
        "pipeline that follows a service of others",
        _pipeline(StageDraft("first", [LEDGER.id]), StageDraft("second", [WEB.id])),
        absent,
    )
    yield Crossing(
        "pipeline with a selector of services of others",
        _select_services_of_others,
        "no service of others matches",
    )
    yield Crossing(
        "pipeline in the project of others",
        lambda world: world.operations[Pipelines].save(
            EVE, PipelineDraft("rollout", [first], project_id=BANK)
        ),
        UNSEEN,
    )
    yield Crossing(
        "job of a gate in the namespace of others",
        _job(BANK),
        "no destination rule allows namespace bank",
    )


async def _use_own_secret(world: ManifestWorld) -> object:
    secrets = world.operations[Secrets]
    coin = await secrets.save(EVE, "coin", SecretChange(b"canary-3e5f-coin", project_id=SHOP))
    return await secrets.use(EVE, WEB.id, {"coin": (coin.id, None)})


def inside() -> dict[str, Attempt]:
    """The same operations within the project, which nothing refuses."""
    own = StageDraft("first", [WEB.id])
    return {
        "preview": _preview(SHOP),
        "branch in the namespace": _preview("${request.branch}", SHOP),
        "context": lambda world: world.operations[Services].update(
            EVE, WEB.id, ServiceChange(context_ids=(OWN.id,))
        ),
        "secret": _use_own_secret,
        "service": lambda world: world.operations[Services].create(
            EVE, PROD.id, None, ServiceChange("api", SHOP, REPOSITORY.id, "main", project_id=SHOP)
        ),
        "manifest": _apply("Service", "web", {"namespace": SHOP}, cluster="prod", project=SHOP),
        "pipeline": _pipeline(own),
        "job": _job(SHOP),
    }


def crossings() -> list[Crossing]:
    """All attempts; names are unique."""
    return [*_previews(), *_contexts(), *_moves(), *_pipelines()]
