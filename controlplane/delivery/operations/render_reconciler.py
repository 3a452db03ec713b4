"""Brings services up to date with their commits: finds changed services and renders them.

A service is rendered again only if a path that its last render read has another git id.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.freezes import frozen_clusters
from controlplane.delivery.operations.render_inputs import RenderInputs, read_paths
from controlplane.platform.context import RENDER_SERVICES, ContextOperations
from controlplane.platform.parts import Columns, column_values
from controlplane.platform.ports import Transaction
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.quarantine import DeniedRevisions
from controlplane.services.model.render_state import RenderState
from controlplane.services.model.service import Revision, Service
from controlplane.services.operations.dependencies import dependency_groups, waiting_services
from controlplane.services.operations.fences import check_render_rate, render_within_fence
from controlplane.services.operations.generations import wake_agents
from controlplane.services.operations.quarantine import (
    load_denials,
    quarantine_entry,
    with_quarantine,
)
from controlplane.services.operations.sources import (
    RenderSources,
    mark_source_users_for_render,
    source_trees,
    store_source_commits,
)
from controlplane.services.ports import (
    LedgerStore,
    RenderStateStore,
    RevisionStore,
    ServiceSourceStore,
    ServiceStore,
)
from core.errors import Code, LimitExceeded, TowlineError, reason_of
from core.spec.renderers import chart_of_ref
from core.spec.source import Commit, RenderedBundle, RepositoryKind, RepositoryState

log = structlog.get_logger(__name__)

_BATCH = 100


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Result of one service: a render, or the reason why there is none."""

    service: Service | RenderState
    commit: Commit | None
    rendered: RenderedBundle | None = None
    reads: Mapping[str, str] | None = None
    error: str | None = None
    reason: str = ""
    """Reason of the error, for programs."""
    waiting: bool = False
    postponed: bool = False
    """True if it was not rendered because its project renders too often."""
    resolved: RenderSources = RenderSources()
    trees: Mapping[str, str] = field(default_factory=dict)

    @property
    def revisions(self) -> tuple[str | None, str | None]:
        """The commit and the digest of the result."""
        commit = self.commit.sha if self.commit else None
        return commit, self.rendered.digest if self.rendered else None


@dataclass(frozen=True, slots=True)
class _StaleService:
    """A service to render: its render state, and the git ids of its paths at the commit."""

    state: RenderState
    commit: Commit
    ids: Mapping[str, str | None]


class RenderReconciler(ContextOperations):
    """Renders services at the commits that they follow."""

    async def deliver(self, repository_id: str, only: Collection[str] | None = None) -> int:
        """Renders changed services of a repository, and offers them to agents; returns their
        number.

        `only` limits it to these services.
        """
        async with self._context.store.read() as tx:
            repository = await tx[RepositoryStore].get(repository_id)
            if repository is None:
                return 0
            further = await tx[ServiceSourceStore].of_repository(repository_id)
            frozen = await frozen_clusters(tx)
            table = tx[RenderStateStore]
            all_states = await (
                table.of_repository(repository_id)
                if only is None
                else table.of_repository_among(repository_id, only)
            )
        states = [state for state in all_states if state.cluster_id not in frozen]
        repository_state = self._context.manifests.state(repository.id)
        commits = repository_state.commits if repository_state else repository.commits
        if only is None:
            await mark_source_users_for_render(self._context, repository.id, commits, further)
        stale, failed = await self._find_stale(repository, commits, states)
        count = await self._store_outcomes(failed) if failed else 0
        return count + await self._render_all(stale) if stale else count

    async def _render_all(self, stale: Mapping[str, _StaleService]) -> int:
        """Renders services in the order of their dependencies; returns how many changed."""
        async with self._context.store.read() as tx:
            services = await tx[ServiceStore].by_ids(stale)
        # A change made meanwhile has already requested another delivery.
        unchanged = [
            service for service in services if not _was_changed(stale[service.id].state, service)
        ]
        count = 0
        for group in dependency_groups(unchanged):
            for start in range(0, len(group), _BATCH):
                outcomes = await self._render_batch(group[start : start + _BATCH], stale)
                count += await self._store_outcomes(outcomes)
        return count

    async def _render_batch(
        self, services: Sequence[Service], stale: Mapping[str, _StaleService]
    ) -> list[_Outcome]:
        """Renders the services that do not wait for dependencies."""
        async with self._context.store.read() as tx:
            dependent = await waiting_services(tx, services)
            inputs = await RenderInputs.load(self._context, tx, services)
        waiting = [
            _Outcome(service, stale[service.id].commit, waiting=True)
            for service in services
            if service.id in dependent
        ]
        renders = (
            self._render(service, stale[service.id], inputs)
            for service in services
            if service.id not in dependent
        )
        return waiting + await asyncio.gather(*renders)

    async def _render(
        self, service: Service, stale: _StaleService, inputs: RenderInputs
    ) -> _Outcome:
        commit = stale.commit
        try:
            request, sources = inputs.request(self._context, service, commit.sha)
            fenced = inputs.fenced(service)
            check_render_rate(self._context, [fenced])
            rendered = await render_within_fence(self._context, fenced, request)
            reads = await read_paths(self._context, service, commit.sha, rendered, stale.ids)
            trees = await source_trees(self._context, sources)
        except LimitExceeded as error:
            return _Outcome(
                service, commit, error=error.message, reason=reason_of(error), postponed=True
            )
        except TowlineError as error:
            return _Outcome(
                service, commit, error=_storable_text(error.message), reason=reason_of(error)
            )
        return _Outcome(service, commit, rendered, reads, resolved=sources, trees=trees)

    async def _find_stale(
        self, repository: Repository, commits: Mapping[str, Commit], states: Iterable[RenderState]
    ) -> tuple[dict[str, _StaleService], list[_Outcome]]:
        """The services to render, by id, and the results of those that cannot be rendered."""
        by_ref: dict[str, list[RenderState]] = {}
        failed = []
        repository_state = self._context.manifests.state(repository.id)
        for state in states:
            if state.ignores_commits:
                continue
            if state.target_ref in commits:
                by_ref.setdefault(state.target_ref, []).append(state)
            elif repository_state is not None:
                outcome = _without_commit(repository, repository_state, state)
                if outcome.error not in (None, state.render_error):
                    failed.append(outcome)
        stale: dict[str, _StaleService] = {}
        for ref, group in by_ref.items():
            commit = commits[ref]
            paths = {path for state in group for path in state.paths}
            ids = await self._context.manifests.trees(repository.id, commit.sha, paths)
            stale |= {
                state.id: _StaleService(state, commit, ids)
                for state in group
                if state.is_stale(ids)
            }
        return stale, failed

    async def _store_outcomes(self, outcomes: Sequence[_Outcome]) -> int:
        """Writes the results in one transaction, then notifies agents and subscribers."""
        changed, ledger_entries, revisions = [], [], []
        changes: dict[str, Mapping[str, object]] = {}
        async with self._context.store.write() as tx:
            denied_revisions = await load_denials(
                tx, (revision for outcome in outcomes for revision in outcome.revisions)
            )
            locked = await tx[ServiceStore].lock({outcome.service.id for outcome in outcomes})
            current_by_id = {service.id: service for service in locked}
            for outcome in outcomes:
                current = current_by_id.get(outcome.service.id)
                if current is None or _was_changed(outcome.service, current):
                    continue
                await store_source_commits(tx, outcome.resolved, outcome.trees)
                after, entries = self._apply_outcome(outcome, current, denied_revisions)
                if not (columns := _changed_columns(current, after)):
                    continue
                commit = outcome.commit
                if commit and after.desired.revision_id != current.desired.revision_id:
                    subject, actor = commit.subject[:512], commit.author[:320]
                    revisions.append(
                        Revision.of(after, commit.sha, subject, commit.committed_at, actor)
                    )
                changes[after.id] = columns
                ledger_entries += entries
                changed.append(after)
            await tx[RevisionStore].add_each(revisions)
            await tx[ServiceStore].change_each(changes)
            await tx[LedgerStore].append(ledger_entries)
        wake_agents(self._context, changed)
        return len(changed)

    def _apply_outcome(
        self, outcome: _Outcome, before: Service, denied_revisions: DeniedRevisions
    ) -> tuple[Service, list[LedgerEntry]]:
        """The service after a result, and the ledger entries for it."""
        if outcome.waiting:
            return before.changed(waiting=True, render_error=None, render_reason=""), []
        if outcome.rendered is None or outcome.commit is None:
            return self._apply_failure(outcome, before)
        rendered, commit = outcome.rendered, outcome.commit
        after = before.changed(
            waiting=False,
            wait_skipped=False,
            render_error=None,
            render_reason="",
            input_digest=rendered.source,
            reads=dict(outcome.reads or {}),
        )
        denied = denied_revisions.find(before.project_id, rendered.digest, commit.sha)
        if denied is not None and rendered.digest != before.desired.digest:
            after = with_quarantine(after, denied, rendered.digest, self._context.clock.now())
            quarantine = after.desired.quarantine
            if quarantine in (None, before.desired.quarantine):
                return after, []
            return after, [quarantine_entry(after, quarantine, denied.actor)]
        after = after.changed(
            commit_sha=commit.sha,
            author=commit.author[:512],
            **after.columns_for_digest(rendered.digest),
        )
        if rendered.digest == before.desired.digest:
            return self._with_new_attestation(before, after, rendered), []
        after = after.changed(
            digest=rendered.digest,
            attestation=rendered.attestation,
            bundle_bytes=rendered.size,
            object_count=rendered.count,
            generation=before.desired.generation + 1,
            revision_id=self._context.new_id(),
            updated_at=self._context.clock.now(),
        )
        return after, [self._ledger_entry(after, LedgerStage.RENDERED, outcome, commit.subject)]

    def _apply_failure(
        self, outcome: _Outcome, before: Service
    ) -> tuple[Service, list[LedgerEntry]]:
        after = before.changed(render_error=outcome.error, render_reason=outcome.reason)
        if outcome.postponed:
            return after, []
        after = after.changed(waiting=False, wait_skipped=False)
        if outcome.error == before.desired.render_error:
            return after, []
        text = outcome.error or ""
        return after, [self._ledger_entry(after, LedgerStage.RENDER_FAILED, outcome, text)]

    def _with_new_attestation(
        self, before: Service, after: Service, rendered: RenderedBundle
    ) -> Service:
        """The service with a new attestation of the same objects, if inputs or fence changed."""
        if before.desired.input_digest or rendered.attestation == before.desired.attestation:
            return after
        return after.changed(
            attestation=rendered.attestation, generation=before.desired.generation + 1
        )

    def _ledger_entry(
        self, service: Service, stage: LedgerStage, outcome: _Outcome, message: str
    ) -> LedgerEntry:
        commit = outcome.commit
        state = (
            self._context.manifests.state(service.repository_id) if service.repository_id else None
        )
        detail = {}
        if commit is not None:
            detail["committed_at"] = commit.committed_at.isoformat()
        if state is not None and state.fetched_at is not None:
            detail["fetched_at"] = state.fetched_at.isoformat()
        if outcome.reason:
            detail["reason"] = outcome.reason
        author = commit.author[:320] if commit else ""
        now = self._context.clock.now()
        entry = LedgerEntry.of(service, stage, now, actor=author, message=message[:1000])
        return replace(entry, sha=commit.sha if commit else None, detail=detail)


def _without_commit(
    repository: Repository, repository_state: RepositoryState, state: RenderState
) -> _Outcome:
    """Result of a service without a commit to render; without an error while that is unknown.

    Fetch errors are shown on the repository, and on services that were never rendered.
    """
    if state.target_ref in repository_state.missing:
        text = f"{repository.url} has no {_ref_in_words(repository, state.target_ref)}"
        return _Outcome(state, None, error=text, reason=Code.NOT_FOUND.value)
    if repository_state.error is not None and state.input_digest is None:
        text = f"{repository.url} cannot be read: {repository_state.error}"
        return _Outcome(state, None, error=text, reason=repository_state.reason)
    return _Outcome(state, None)


def _ref_in_words(repository: Repository, ref: str) -> str:
    """The meaning of a ref, in words."""
    chart = chart_of_ref(ref) if repository.kind is RepositoryKind.HELM else None
    if repository.kind is RepositoryKind.OCI:
        return f"artifact with the tag, version or digest {ref!r}"
    if chart is None:
        return f"branch, tag or commit {ref!r}"
    return f"version of chart {chart[0]!r} that matches {chart[1]!r}"


def _storable_text(text: str) -> str:
    """A renderer's error text that every database accepts.

    Otherwise one service's error would fail the transaction of all others.
    """
    encodable = text.encode("utf-8", "replace").decode()
    return encodable.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _changed_columns(before: Service, after: Service) -> Columns:
    """The columns that changed."""
    old, new = column_values(before), column_values(after)
    return {name: value for name, value in new.items() if value != old[name]}


def _was_changed(before: Service | RenderState, current: Service) -> bool:
    """True if a user changed the service while it was being rendered."""
    is_narrow = isinstance(before, RenderState)
    pinned = before.pinned_sha if is_narrow else before.desired.pinned_sha
    return (before.updated_at, pinned) != (current.updated_at, current.desired.pinned_sha)


async def mark_for_render(
    tx: Transaction, clusters: Iterable[tuple[Cluster, Cluster]]
) -> set[tuple[str, str]]:
    """Marks services that may render differently for a changed Kubernetes version or API list.

    Each pair is a cluster before and after the change. Returns the topics and keys to publish.
    Services with an unchanged result are not rolled out again.
    """
    ids = [
        after.id for before, after in clusters if _render_inputs(before) != _render_inputs(after)
    ]
    if not ids:
        return set()
    services = await tx[ServiceStore].unpinned(ids)
    affected = [
        service
        for service in services
        if service.repository_id and service.desired.input_digest is not None
    ]
    await tx[ServiceStore].change_each({service.id: {"input_digest": None} for service in affected})
    return {(RENDER_SERVICES, f"{service.repository_id}/{service.id}") for service in affected}


def _render_inputs(cluster: Cluster) -> tuple[str | None, Sequence[str]]:
    return cluster.kubernetes_version, cluster.facts.api_versions
