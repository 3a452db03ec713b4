"""In which repository and branch stages of a pipeline are promoted by git."""

from collections.abc import Sequence

from controlplane.domain.access import Actor, Verb, require
from controlplane.domain.pipelines import model
from controlplane.domain.repositories import Repository
from controlplane.domain.services import Service
from controlplane.ports import Transaction
from controlplane.usecases.repositories import find_repository
from fleet.errors import Conflict


async def check_git_stages(tx: Transaction, actor: Actor, spec: model.Pipeline) -> None:
    """Who has stages and triggers write to repositories needs the right to change these."""
    for stage in spec.stages:
        if stage.git is not None and stage.services:
            services = await tx.services.select(id=stage.services)
            repository, _ = await place_of(tx, services)
            require(actor, Verb.WRITE, repository.target)
    await _check_triggers(tx, actor, spec)


async def _check_triggers(tx: Transaction, actor: Actor, spec: model.Pipeline) -> None:
    """What follows another tag without a commit is changed itself."""
    watching = [one for one in spec.triggers if one.watches]
    if not watching:
        return
    services = await tx.services.select(id=spec.first.services)
    repository, _ = await place_of(tx, services)
    if any(one.write is not None for one in watching):
        require(actor, Verb.WRITE, repository.target)
    if any(one.write is None for one in watching):
        for service in services:
            require(actor, Verb.WRITE, service.target)


async def place_of(tx: Transaction, services: Sequence[Service]) -> tuple[Repository, str]:
    """The one repository and branch of services. Conflict: they have several, or none."""
    places = {(one.repository_id, one.ref) for one in services}
    if len(places) != 1 or not services[0].repository_id or not services[0].ref:
        raise Conflict("services whose files are written have one repository and one branch")
    return await find_repository(tx, services[0].repository_id), services[0].ref
