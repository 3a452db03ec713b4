"""Repository and branch that pipeline stages and triggers write to."""

from collections.abc import Sequence
from dataclasses import replace

from controlplane.authorization import Actor, Verb, require
from controlplane.pipelines.model import pipeline
from controlplane.platform.ports import Transaction
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import find_repository
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict
from core.spec.source import RepositoryKind


async def with_write_targets(
    tx: Transaction, actor: Actor, spec: pipeline.Pipeline
) -> pipeline.Pipeline:
    """The pipeline with the repositories that it writes to.

    The actor needs write access to these repositories.
    """
    stages = [await _with_write_target(tx, actor, stage) for stage in spec.stages]
    return await _with_trigger_targets(tx, actor, replace(spec, stages=tuple(stages)))


async def _with_write_target(
    tx: Transaction, actor: Actor, stage: pipeline.Stage
) -> pipeline.Stage:
    if stage.git is None or not stage.services:
        return stage
    repository, _ = await common_branch(tx, await tx[ServiceStore].by_ids(stage.services))
    _check_is_git(repository)
    require(actor, Verb.WRITE, repository.target)
    return replace(stage, writes_to=repository.id)


async def _with_trigger_targets(
    tx: Transaction, actor: Actor, spec: pipeline.Pipeline
) -> pipeline.Pipeline:
    """Resolves the triggers' repositories.

    A trigger without a commit changes the services' refs.
    """
    watching = [trigger for trigger in spec.triggers if trigger.watches]
    if not watching:
        return spec
    services = await tx[ServiceStore].by_ids(spec.first.services)
    repository, _ = await common_branch(tx, services)
    if any(trigger.write is not None for trigger in watching):
        _check_is_git(repository)
        require(actor, Verb.WRITE, repository.target)
    if any(trigger.write is None for trigger in watching):
        for service in services:
            require(actor, Verb.WRITE, service.target)
    triggers = [replace(t, writes_to=repository.id) if t.write else t for t in spec.triggers]
    return replace(spec, triggers=tuple(triggers))


async def common_branch(tx: Transaction, services: Sequence[Service]) -> tuple[Repository, str]:
    """The common repository and branch of services. Conflict: they have several, or none."""
    branches = {(service.repository_id, service.spec.ref) for service in services}
    if len(branches) != 1 or not services[0].repository_id or not services[0].spec.ref:
        raise Conflict(
            "the services of a stage that is written to must share one repository and one branch"
        )
    return await find_repository(tx, services[0].repository_id), services[0].spec.ref


def check_writable(repository: Repository, writes_to: str) -> None:
    """Conflict: the services' repository is not the one that was authorized when saving."""
    if repository.id != writes_to:
        raise Conflict(
            f"the pipeline is not authorized to write to {repository.url}: a user with write "
            "access must save it again"
        )


def _check_is_git(repository: Repository) -> None:
    """Conflict: only Git repositories take commits and pull requests."""
    if repository.kind is not RepositoryKind.GIT:
        raise Conflict(
            f"Towline writes only to Git repositories: {repository.url} gets new versions from a "
            "registry; change the refs of the services instead, or write to their Git repository"
        )
