"""Fields of the API that return repositories, the same for each kind."""

from functools import partial

import strawberry

from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.operations import RepositoryChange, RepositoryOperations
from core.spec.source import RepositoryKind


class RepositoryFields:
    """Queries and mutations of one kind of repositories, published as `output`."""

    def __init__(
        self,
        kind: RepositoryKind,
        output: type[Output[Repository]],
        attributes: type[Draft[RepositoryChange]],
    ) -> None:
        operations = RepositoryOperations
        fields = ResourceFields("repository", operations, output, each(output.of))

        async def get(
            info: Info, id: strawberry.ID | None = None, url: str | None = None
        ) -> object:
            return await fields.one(info, await operations.get(*fields.caller(info), id, url, kind))

        self.get = fields.query(get, url="Exact URL. Used without `id`.")
        self.page = fields.page(partial(operations.page, kind=kind))
        self.create = fields.create(partial(operations.create, kind=kind), attributes)
        self.update = fields.update(partial(operations.update, kind=kind), attributes)
        self.delete = fields.action(partial(operations.delete, kind=kind))
        self.sync = fields.action(partial(operations.sync, kind=kind))
