"""Reconciles one configuration source: reads its folder at a commit, plans, and applies.

A run is idempotent, and its outcome is written with its job: a newer request runs again.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from controlplane.access.model.users import User
from controlplane.access.operations.scopes import actor_of_user
from controlplane.access.operations.source_runs import account_of
from controlplane.authorization import Actor
from controlplane.configuration_sources.model.drift import (
    changes_of,
    counted_reverts,
    fight_message,
    fought_fields,
    plan_digest,
    shortened,
)
from controlplane.configuration_sources.model.source import (
    MAX_PLANNED,
    MAX_PROBLEMS,
    ApplyMode,
    ConfigurationSource,
    SourceResult,
    SourceStatus,
)
from controlplane.configuration_sources.operations.lock_out import LockOutGuard
from controlplane.configuration_sources.operations.sources import ConfigurationSources
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.model.documents import DocumentProblem, Source
from controlplane.manifests.model.plan import ApplyOptions, ManifestPlan
from controlplane.manifests.operations.manifests import Manifests
from controlplane.platform.context import CONFIGURATION_SOURCE, OperationContext
from controlplane.platform.jobs import Job
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from core.errors import Conflict, Invalid, NotFound, TowlineError, Unavailable
from core.identity import RepositoryId
from core.manifest_files import ENDINGS
from core.spec.source import RepositoryState
from core.spec.sync import DriftPolicy

_RETRY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class _Run:
    """One reconciliation of a source at a commit."""

    source: ConfigurationSource
    repository: Repository
    account: User
    actor: Actor
    sha: str
    files: tuple[Source, ...]

    @property
    def is_new(self) -> bool:
        """True if the commit was not applied with the present settings."""
        return self.sha != self.source.status.applied_sha

    @property
    def heals_drift(self) -> bool:
        return self.source.settings.drift is DriftPolicy.HEAL


class _NotFetchedError(Unavailable):
    """The first fetch of the repository is not over, which is no failure of the source."""


class SourceReconciler:
    """Reconciles sources as their service accounts."""

    def __init__(self, context: OperationContext, manifests: Manifests) -> None:
        self.runs = ConfigurationSources.runs(context)
        self._context = context
        self._manifests = manifests

    async def run(self, job: Job) -> None:
        """Reconciles the source of a job, and schedules the next run."""
        source = await self.runs.begin(job)
        if source is None:
            return
        status, delay = await self._reconcile(source)
        if status.result is not SourceResult.AWAITING_APPROVAL:
            status = replace(status, is_requested=False, is_forced=False)
        await self.runs.end(job, status, delay)

    async def commits_changed(self, repository_id: str) -> None:
        """Schedules the sources of a repository whose ref has another commit."""
        state = self._context.manifests.state(RepositoryId(repository_id))
        if state is None:
            return
        async with self._context.store.read() as tx:
            sources = await tx[ConfigurationSourceStore].of_repository(repository_id)
        stale = [source for source in sources if _has_new_commit(source, state)]
        if not stale:
            return
        async with self._context.store.write() as tx:
            for source in stale:
                await self.runs.request(tx, source.id)
        for source in stale:
            self._context.bus.publish(CONFIGURATION_SOURCE, source.id)

    async def _reconcile(self, source: ConfigurationSource) -> tuple[SourceStatus, timedelta]:
        """Returns the new status, and the delay until the next run."""
        interval = timedelta(seconds=source.settings.interval_s)
        status = replace(source.status, checked_at=self._context.clock.now())
        try:
            repository, account = await self._repository_and_account(source)
            sha, status = self._current_commit(source, repository, status)
            run = await self._prepare_run(source, repository, account, sha)
            return await self._plan_or_apply(run, status), interval
        except _NotFetchedError as error:
            return replace(source.status, message=error.message), min(interval, _RETRY)
        except Unavailable as error:
            return _failed_status(status, error), min(interval, _RETRY)
        except (Invalid, NotFound, Conflict) as error:
            return _failed_status(status, error), interval

    async def _repository_and_account(self, source: ConfigurationSource) -> tuple[Repository, User]:
        """Returns the repository and the service account of a source."""
        async with self._context.store.read() as tx:
            repository = await tx[RepositoryStore].get(source.settings.repository_id)
            if repository is None:
                raise NotFound("the repository was deleted: choose another one")
            return repository, await account_of(tx, source)

    async def _prepare_run(
        self, source: ConfigurationSource, repository: Repository, account: User, sha: str
    ) -> _Run:
        """Reads the folder at a commit, and the present permissions of the account."""
        folder = source.settings.folder
        contents = await self._context.manifests.files(repository.id, sha, folder, ENDINGS)
        files = tuple(Source(path, _decode(path, data)) for path, data in sorted(contents.items()))
        async with self._context.store.read() as tx:
            actor = await actor_of_user(tx, account, self._context.clock.now())
        cause = (("configurationSource", source.name), ("commit", sha))
        return _Run(source, repository, account, replace(actor, cause=cause), sha, files)

    def _current_commit(
        self, source: ConfigurationSource, repository: Repository, status: SourceStatus
    ) -> tuple[str, SourceStatus]:
        """Returns the commit of the ref.

        The state of this replica may be older than the one that another replica has applied.
        """
        ref = source.settings.ref
        state = self._context.manifests.state(repository.id)
        commit = state.commits.get(ref) if state else repository.commits.get(ref)
        polled_at = state.polled_at if state else repository.polled_at
        if commit is None:
            if state and state.error:
                raise Unavailable(f"the repository cannot be fetched: {state.error}")
            if state and ref in state.missing:
                raise NotFound(f"the repository has no branch, tag or commit {ref!r}")
            raise _NotFetchedError("waiting for the first fetch of the repository")
        if commit.sha == status.seen_sha:
            return commit.sha, status
        if status.seen_sha and status.seen_at and polled_at and polled_at < status.seen_at:
            return status.seen_sha, status
        return commit.sha, replace(status, seen_sha=commit.sha, seen_at=polled_at)

    async def _plan_or_apply(self, run: _Run, status: SourceStatus) -> SourceStatus:
        """Returns the status after the run: a plan, an apply, or the reason for none."""
        source, before = run.source, run.source.status
        applies = run.is_new or before.is_requested
        if not applies and source.settings.drift is DriftPolicy.IGNORE:
            return _synced_status(status)
        if applies and source.settings.mode is ApplyMode.AUTOMATIC:
            return await self._apply(run, replace(status, reverts={}))
        # Drift is no conflict: the plan names the other managers instead.
        is_forced = before.is_forced or run.heals_drift or not applies
        plan = await self._manifest_plan(run, ApplyOptions(dry_run=True, force=is_forced))
        if plan.problems:
            return _with_plan(status, SourceResult.FAILED, plan, run.sha)
        if not changes_of(plan.items):
            return await self._apply(run, status) if applies else _synced_status(status)
        if applies:
            return await self._apply_if_approved(run, status, plan)
        return await self._handle_drift(run, status, plan)

    async def _apply_if_approved(
        self, run: _Run, status: SourceStatus, plan: ManifestPlan
    ) -> SourceStatus:
        """Applies a plan if it is approved; else shows it."""
        digest = plan_digest(run.sha, changes_of(plan.items))
        if digest == status.approved_digest:
            return await self._apply(run, status, digest)
        message = f"{len(changes_of(plan.items))} changes wait for an approval"
        return _with_plan(status, SourceResult.AWAITING_APPROVAL, plan, run.sha, message)

    async def _handle_drift(
        self, run: _Run, status: SourceStatus, plan: ManifestPlan
    ) -> SourceStatus:
        """Reverts drift if the source heals drift; else shows it."""
        changes = changes_of(plan.items)
        if not run.heals_drift:
            message = f"{len(changes)} resources differ from the folder"
            return _with_plan(status, SourceResult.OUT_OF_SYNC, plan, run.sha, message)
        if run.source.settings.mode is ApplyMode.APPROVAL:
            return await self._apply_if_approved(run, status, plan)
        if fields := fought_fields(changes, status.reverts):
            return _with_plan(
                status, SourceResult.OUT_OF_SYNC, plan, run.sha, fight_message(fields)
            )
        return await self._apply(
            run, replace(status, reverts=counted_reverts(changes, status.reverts))
        )

    async def _apply(self, run: _Run, status: SourceStatus, approved: str = "") -> SourceStatus:
        plan = await self._manifest_plan(
            run, ApplyOptions(force=run.heals_drift or status.is_forced), approved
        )
        if not plan.applied:
            return _with_plan(status, SourceResult.FAILED, plan, run.sha)
        if run.is_new or changes_of(plan.items):
            status = replace(status, applied_at=self._context.clock.now())
        return _synced_status(replace(status, applied_sha=run.sha))

    async def _manifest_plan(
        self, run: _Run, options: ApplyOptions, approved: str = ""
    ) -> ManifestPlan:
        source, settings = run.source, run.source.settings
        options = replace(
            options,
            manager=source.manager,
            prune_set=source.manager if settings.prune else "",
            max_deletions=settings.deletion_budget,
        )
        now = self._context.clock.now()
        guard = LockOutGuard(source, run.repository, run.account, now, run.sha, approved)
        return await self._manifests.apply(run.actor, run.files, options, guard)


def _has_new_commit(source: ConfigurationSource, state: RepositoryState) -> bool:
    commit = state.commits.get(source.settings.ref)
    return commit is not None and commit.sha != source.status.seen_sha


def _decode(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text") from None


def _synced_status(status: SourceStatus) -> SourceStatus:
    return replace(
        status, result=SourceResult.SYNCED, message="", problems=(), plan=(), plan_size=0,
        plan_digest="", approved_digest="", approved_by="",
    )  # fmt: skip


def _failed_status(status: SourceStatus, error: TowlineError) -> SourceStatus:
    problem = DocumentProblem(error.message, code=error.code.value)
    return replace(
        status, result=SourceResult.FAILED, message=error.message, problems=(problem,), plan=(),
        plan_size=0, plan_digest="",
    )  # fmt: skip


def _with_plan(
    status: SourceStatus, result: SourceResult, plan: ManifestPlan, sha: str, message: str = ""
) -> SourceStatus:
    changes = changes_of(plan.items)
    return replace(
        status,
        result=result,
        message=message or f"{len(plan.problems)} problems: nothing was changed",
        problems=plan.problems[:MAX_PROBLEMS],
        plan=shortened(changes, MAX_PLANNED),
        plan_size=len(changes),
        plan_digest=plan_digest(sha, changes),
    )
