"""Evaluates generators: the services that they should create now.

If any input is unavailable, the evaluation is incomplete.
"""

from dataclasses import replace

from controlplane.access.model.bindings import Project
from controlplane.access.operations.scopes import find_project
from controlplane.clusters.model.selectors import Fleet
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore
from controlplane.generators.model.global_service import GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.plan import (
    GeneratedService,
    GeneratorEvaluation,
    generate_per_cluster,
)
from controlplane.generators.model.service_set import (
    MAX_FOLDERS,
    GeneratorResults,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
    generate_services,
    select_requests,
)
from controlplane.generators.ports import GlobalOverrideStore, PullRequests
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Transaction
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.templates import ServiceTemplate
from controlplane.services.operations.fences import as_fence_cluster
from controlplane.services.ports import ServiceStore
from core.errors import Invalid, TowlineError, Unavailable
from core.identity import ClusterId, RepositoryId
from core.spec.bundle import make_bundle
from core.spec.edits import OpenMergeRequest

_MAX_PROBLEMS = 10
AnyGenerator = GlobalService | ServiceSet | ManagedNamespace


class GeneratorEvaluator:
    """Reads clusters, folders and open pull requests; without `hosting`, no pull requests."""

    def __init__(self, context: OperationContext, hosting: PullRequests | None = None) -> None:
        self._context = context
        self._hosting = hosting

    async def evaluate(self, definition: AnyGenerator) -> GeneratorEvaluation:
        """Evaluates a generator.

        Store errors are raised; all others become problems of the result.
        """
        if definition.ending_at is not None:
            return GeneratorEvaluation()
        async with self._context.store.read() as tx:
            fleet = await fleet_of(tx)
            project = await find_project(tx, definition.services_project_id)
        try:
            fleet = replace(fleet, fence=project.fence)
            return _inside_fence(project, fleet, await self._generate(definition, fleet))
        except TowlineError as error:
            return GeneratorEvaluation(problems=(error.message,))

    async def _generate(self, definition: AnyGenerator, fleet: Fleet) -> GeneratorEvaluation:
        if isinstance(definition, GlobalService):
            return await self._evaluate_global(definition, fleet)
        if isinstance(definition, ServiceSet):
            return await self._evaluate_set(definition, fleet)
        return await self._evaluate_namespace(definition, fleet)

    async def _evaluate_global(
        self, definition: GlobalService, fleet: Fleet
    ) -> GeneratorEvaluation:
        async with self._context.store.read() as tx:
            template, source_cluster_id = await template_of(tx, definition)
            await _check_repository(tx, template)
            patches = {
                row.cluster_id: row.patch
                for row in await tx[GlobalOverrideStore].of_definition(definition.id)
            }
        clusters = [
            c
            for c in fleet.matching(definition.selector, definition.project_id)
            if c.id != source_cluster_id
        ]
        return GeneratorEvaluation(generate_per_cluster(template, clusters, patches))

    async def _evaluate_set(self, definition: ServiceSet, fleet: Fleet) -> GeneratorEvaluation:
        clusters = fleet.matching(definition.selector, definition.project_id)
        sources = definition.generator
        results = GeneratorResults()
        if sources.folders is not None:
            results = replace(results, folders=await self._matching_folders(sources.folders))
        if sources.requests is not None:
            results = replace(results, requests=await self._matching_requests(sources.requests))
        evaluation = generate_services(definition, clusters, results)
        async with self._context.store.read() as tx:
            for template in {
                service.template.repository_id: service.template for service in evaluation.services
            }.values():
                await _check_repository(tx, template)
        return evaluation

    async def _matching_folders(self, source: GitFolderGenerator) -> tuple[str, ...]:
        repository = RepositoryId(source.repository_id)
        manifests = self._context.manifests
        commit = await manifests.resolve(repository, source.ref)
        listed = await manifests.folders(repository, commit.sha, source.base, source.depth)
        matching = tuple(sorted(path for path in listed if source.matches(path)))
        if len(matching) > MAX_FOLDERS:
            raise Invalid(
                f"{len(matching):,} folders match, but at most {MAX_FOLDERS:,} are allowed"
            )
        return matching

    async def _matching_requests(
        self, source: PullRequestGenerator
    ) -> tuple[OpenMergeRequest, ...]:
        if self._hosting is None:
            raise Unavailable("this process cannot list open pull requests")
        repository = RepositoryId(source.repository_id)
        requests = await self._hosting.open_requests(repository, source.provider)
        return tuple(select_requests(source, requests, self._context.clock.now()))

    async def _evaluate_namespace(
        self, definition: ManagedNamespace, fleet: Fleet
    ) -> GeneratorEvaluation:
        content = await self._context.manifests.store_bundle(
            make_bundle(definition.spec.objects()).data
        )
        clusters = fleet.matching(definition.selector, definition.project_id)
        services = [
            GeneratedService(c.id, definition.namespace_template(), content) for c in clusters
        ]
        if (template := definition.template_in_namespace()) is not None:
            async with self._context.store.read() as tx:
                await _check_repository(tx, template)
            services += [GeneratedService(c.id, template) for c in clusters]
        return GeneratorEvaluation(tuple(services))


def _inside_fence(
    project: Project, fleet: Fleet, evaluation: GeneratorEvaluation
) -> GeneratorEvaluation:
    """The services inside the fence of their project; those outside become problems."""
    clusters = {cluster.id: cluster for cluster in fleet.clusters}
    inside, problems = [], list(evaluation.problems)
    for service in evaluation.services:
        destination = as_fence_cluster(clusters[ClusterId(service.cluster_id)])
        reason = project.fence.destination_refusal(destination, service.template.namespace)
        if reason:
            problems.append(
                f"service {service.template.name!r} is outside the fence of project "
                f"{project.name!r}: {reason}"
            )
        else:
            inside.append(service)
    return GeneratorEvaluation(tuple(inside), tuple(problems[:_MAX_PROBLEMS]))


async def fleet_of(tx: Transaction) -> Fleet:
    """The present clusters and cluster groups."""
    return Fleet(tuple(await tx[ClusterStore].all()), tuple(await tx[ClusterGroupStore].all()))


async def template_of(
    tx: Transaction, definition: GlobalService
) -> tuple[ServiceTemplate, str | None]:
    """The template of a global service, and the cluster id of the service that it copies.

    Invalid: that service was deleted.
    """
    if definition.source_id is None:
        if definition.template is None:
            raise Invalid("the global service has neither a source service nor a template")
        return definition.template, None
    source = await tx[ServiceStore].get(definition.source_id)
    if source is None:
        raise Invalid("the source service of this global service was deleted: set a template")
    return ServiceTemplate.of(source), source.cluster_id


async def _check_repository(tx: Transaction, template: ServiceTemplate) -> None:
    if template.repository_id is None:
        raise Invalid("the template has no repository")
    if await tx[RepositoryStore].get(template.repository_id) is None:
        raise Invalid(f"the template's repository {template.repository_id} does not exist")
