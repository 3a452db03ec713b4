"""Creates, changes, deletes, syncs and approves configuration sources.

A source gives the permissions of its service account to everybody who can push to its folder. So
the actor must hold all of them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.access.operations.delegation import require_permissions_of_user
from controlplane.access.operations.scopes import check_not_moved, project_for
from controlplane.access.operations.service_accounts import find_service_account
from controlplane.access.operations.source_runs import SourceOperations, changed_settings
from controlplane.authorization import (
    VIEWER,
    Actor,
    Resource,
    ResourceKind,
    Verb,
    require,
)
from controlplane.configuration_sources.model.source import (
    ConfigurationSource,
    SourceResult,
    SourceSettings,
)
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.context import CONFIGURATION_SOURCE, RENDER_SERVICES, Change
from controlplane.platform.limits import check_length, check_range
from controlplane.platform.names import check_label
from controlplane.platform.parts import Given, given_part
from controlplane.platform.ports import Page, PageQuery, Transaction, count_each
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from controlplane.repositories.model.repository import (
    check_folder,
    check_ref_of,
    normalize_folder,
)
from controlplane.repositories.operations import find_repository
from controlplane.repositories.ports import RepositoryStore
from core.errors import Conflict, Forbidden, Invalid, NotFound
from core.identity import RepositoryId

RECONCILE = "reconcile-configuration-source"
"""Kind of the job of each source."""
MAX_NAME = 52
MIN_INTERVAL, MAX_INTERVAL = 30, 86_400
MAX_BUDGET = 5_000
_HARMLESS = frozenset({"suspended", "interval_s"})
"""Settings that give nobody further permissions."""


@dataclass(frozen=True, slots=True)
class ConfigurationSourceChange:
    """Changes to a configuration source. None leaves a field unchanged."""

    name: str | None = None
    """Unique name, which cannot be changed. Required on creation. Limit: 52 characters."""
    project_id: str | None = None
    """ID of the project. Default: the default project."""
    settings: Given[SourceSettings] = given_part(SourceSettings)
    """Settings to change."""

    def applied(self, settings: SourceSettings) -> SourceSettings:
        """Returns the changed settings. Invalid: a value is not allowed."""
        after = self.settings.applied(settings)
        for name in ("repository_id", "service_account_id"):
            if not getattr(after, name):
                raise Invalid("is required", field=name.removesuffix("_id"))
        check_range(after.interval_s, "intervalSeconds", MIN_INTERVAL, MAX_INTERVAL)
        check_range(after.deletion_budget, "deletionBudget", 0, MAX_BUDGET)
        return replace(after, folder=normalize_folder(check_folder(after.folder)))


@retry_operations
class ConfigurationSources(SourceOperations[ConfigurationSource]):
    """Operations on configuration sources."""

    kind = ResourceKind.CONFIGURATION_SOURCE
    noun = "configuration source"
    port = ConfigurationSourceStore
    job_kind = RECONCILE
    topic = CONFIGURATION_SOURCE
    immutable_name = "it names the owner of fields"

    async def page(self, actor: Actor, query: PageQuery) -> Page[ConfigurationSource]:
        page = await super().page(actor, query)
        return replace(page, items=tuple(_redact_plan_for(actor, source) for source in page.items))

    async def get(
        self, actor: Actor, id: str | None, name: str | None = None
    ) -> ConfigurationSource:
        return _redact_plan_for(actor, await super().get(actor, id, name))

    async def repository_urls(
        self, actor: Actor, sources: Collection[ConfigurationSource]
    ) -> Mapping[str, str]:
        """URLs of the repositories that the actor may read, by ID."""
        ids = {source.settings.repository_id for source in sources}
        async with self._context.read(actor) as tx:
            rows = await tx[RepositoryStore].by_ids(ids)
        return {row.id: row.url for row in rows if actor.may(Verb.READ, row.target)}

    async def create(self, actor: Actor, change: ConfigurationSourceChange) -> ConfigurationSource:
        """Creates a source, which is reconciled at once.

        Forbidden: the service account has a permission that the actor lacks.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "createConfigurationSource") as tx:
            kind = ResourceKind.CONFIGURATION_SOURCE
            project = await project_for(tx, kind, change.project_id)
            name = check_label(change.name or "", "name")
            check_length(name, "name", MAX_NAME)
            settings = change.applied(SourceSettings())
            id = self._context.new_id()
            source = ConfigurationSource(id, name, now, now, project, settings)
            await self._check_name(tx, name)
            await self._check_references(tx, actor, source)
            await tx[ConfigurationSourceStore].add(source)
            await self._request(tx, source)
            tx.audit(name, source.id)
        return source

    async def update(
        self, actor: Actor, id: str, change: ConfigurationSourceChange
    ) -> ConfigurationSource:
        """Changes a source.

        Forbidden: a service account has a permission that the actor lacks, and more changes than
        the suspension or the interval.
        """
        async with self._context.change(actor, "updateConfigurationSource") as tx:
            before = await self._find(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            title = f"configuration source {before.name!r}"
            check_not_moved(title, before.project_id, change.project_id)
            self._check_same_name(before, change.name)
            settings = change.applied(before.settings)
            changed = changed_settings(before.settings, settings)
            source = replace(before, settings=settings, updated_at=self._context.clock.now())
            if changed - _HARMLESS:
                await require_permissions_of_account(
                    tx, actor, before, self._context.clock.now(), may_be_deleted=True
                )
                await self._check_references(tx, actor, source)
                status = replace(
                    before.status, seen_sha="", seen_at=None, applied_sha="", reverts={}
                )
                source = replace(source, status=status)
            if settings.suspended:
                source = replace(source, status=replace(source.status, approved_digest=""))
            await tx[ConfigurationSourceStore].put(source)
            await self._request(tx, source)
            tx.audit(before.name, id, changed=sorted(changed))
        return _redact_plan_for(actor, source)

    async def delete(self, actor: Actor, id: str) -> ConfigurationSource:
        """Deletes a source. Its resources stay, and belong to no manager of this name any more."""
        async with self._context.change(actor, "deleteConfigurationSource") as tx:
            source = await self._find(tx, id)
            tx.authorize(Verb.WRITE, source.target)
            await tx[ConfigurationSourceStore].remove(id)
            store = tx[DeclaredResourceStore]
            for row in await store.all():
                if (after := row.without_manager(source.manager)) != row:
                    await store.put(after)
            tx.audit(source.name, id)
            tx.publish(RENDER_SERVICES, f"{source.settings.repository_id}/")
            tx.publish(CONFIGURATION_SOURCE, id)
        return _redact_plan_for(actor, source)

    async def sync(self, actor: Actor, id: str, *, force: bool = False) -> ConfigurationSource:
        """Fetches the repository, and applies the folder again.

        `force` takes over fields of other managers, but not of other sources. Conflict: the source
        is suspended.
        """
        repository_id = await self._repository_of(actor, id)
        # A commit that is fetched now is reconciled with this request.
        await self._context.manifests.request_poll(repository_id)
        async with self._context.change(actor, "syncConfigurationSource") as tx:
            source = await self._find(tx, id)
            tx.authorize(Verb.WRITE, source.target)
            self._check_active(source)
            status = replace(source.status, is_requested=True, is_forced=force, reverts={})
            source = replace(source, status=status)
            await tx[ConfigurationSourceStore].put(source)
            await self._request(tx, source)
            tx.audit(source.name, id, force=force)
        return _redact_plan_for(actor, source)

    async def approve(self, actor: Actor, id: str, digest: str) -> ConfigurationSource:
        """Approves a plan by its digest. Conflict: the source has another plan by now."""
        async with self._context.change(actor, "approveConfigurationSource") as tx:
            source = await self._find(tx, id)
            tx.authorize(Verb.APPROVE, source.target)
            self._check_active(source)
            if actor.id == source.settings.service_account_id:
                raise Forbidden("the service account of a source cannot approve its plan")
            status = source.status
            is_waiting = status.result is SourceResult.AWAITING_APPROVAL
            if not is_waiting or digest != status.plan_digest:
                raise Conflict(
                    f"configuration source {source.name!r} has no plan with this digest: read it "
                    "again, and approve the present plan"
                )
            status = replace(status, approved_digest=digest, approved_by=actor.shown_name)
            source = replace(source, status=status)
            await tx[ConfigurationSourceStore].put(source)
            await self._request(tx, source)
            tx.audit(source.name, id, digest=digest, commit=status.seen_sha)
        return _redact_plan_for(actor, source)

    async def _repository_of(self, actor: Actor, id: str) -> RepositoryId:
        async with self._context.read(actor) as tx:
            source = await self._find(tx, id)
            require(actor, Verb.WRITE, source.target)
            return (await find_repository(tx, source.settings.repository_id)).id

    async def _check_references(
        self, tx: Transaction, actor: Actor, source: ConfigurationSource
    ) -> None:
        settings = source.settings
        with reference("repositoryId", settings.repository_id):
            repository = await find_repository(tx, settings.repository_id)
            require(actor, Verb.READ, repository.target)
            if not repository.kind.has_folders:
                raise NotFound(kind=ResourceKind.REPOSITORY)
        check_ref_of(repository.kind, settings.ref)
        await require_permissions_of_account(tx, actor, source, self._context.clock.now())
        for neighbour in await tx[ConfigurationSourceStore].of_repository(repository.id):
            if neighbour.id != source.id and _folders_overlap(neighbour.settings, settings):
                raise Conflict(
                    f"configuration source {neighbour.name!r} follows {neighbour.settings} of this "
                    f"repository: documents of folder {settings.folder or '/'!r} would belong to "
                    "both"
                )

    async def _request(self, tx: Change, source: ConfigurationSource) -> None:
        """Schedules a reconciliation after the commit, and the fetch of the ref."""
        tx.publish(RENDER_SERVICES, f"{source.settings.repository_id}/")
        await super()._request(tx, source)


async def count_results(tx: Transaction) -> dict[str, int]:
    """Counts sources by the result of their last reconciliation; suspended ones are left out."""
    return await count_each(tx[ConfigurationSourceStore], "result", SourceResult, suspended=False)


async def require_permissions_of_account(
    tx: Transaction,
    actor: Actor,
    source: ConfigurationSource,
    now: datetime,
    *,
    may_be_deleted: bool = False,
) -> None:
    """Forbidden: the service account of a source has a permission that the actor lacks."""
    id = source.settings.service_account_id
    try:
        with reference("serviceAccountId", id):
            account = await find_service_account(tx, id)
    except NotFound:
        if may_be_deleted:
            return
        raise
    await require_permissions_of_user(tx, actor, account, now)


def _redact_plan_for(actor: Actor, source: ConfigurationSource) -> ConfigurationSource:
    """Returns the source; without field values, unless the actor may approve its plans.

    A plan has fields of resources in all projects of the service account.
    """
    everything = Resource.whole(ResourceKind.INSTALLATION)
    if actor.may(Verb.APPROVE, source.target) or actor.policy.covers(VIEWER, everything):
        return source
    plan = tuple(replace(item, changes=()) for item in source.status.plan)
    return replace(source, status=replace(source.status, plan=plan))


def _folders_overlap(first: SourceSettings, second: SourceSettings) -> bool:
    """Returns whether a document can belong to both folders."""
    outer, inner = sorted(f"{settings.folder}/".lstrip("/") for settings in (first, second))
    return first.ref == second.ref and inner.startswith(outer)
