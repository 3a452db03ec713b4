"""Carrying out the engine's effects: rendering for a stage, and giving it a release.

Each effect is a job done at least once; doing it again changes nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import structlog

from controlplane.domain.jobs import MOST_ATTEMPTS, Job
from controlplane.domain.ledger import LedgerEntry, Stage
from controlplane.domain.pipelines import codec
from controlplane.domain.pipelines import effects as fx
from controlplane.domain.pipelines import events as ev
from controlplane.domain.pipelines.model import StageId
from controlplane.domain.pipelines.state import (
    Change,
    ChangeState,
    ReleaseId,
    Revision,
    StageState,
)
from controlplane.domain.services import Revision as RevisionRow
from controlplane.domain.services import Service
from controlplane.domain.verification import Verification
from controlplane.ports import Transaction
from controlplane.usecases.contexts import values_of
from controlplane.usecases.delivery import parameters_of, reads_of
from controlplane.usecases.deps import DELIVER, DESIRED, SERVICE, Deps
from controlplane.usecases.freezes import check_thawed
from controlplane.usecases.gitpromotions import GitPromotions
from controlplane.usecases.holds import check_allowed
from controlplane.usecases.pipelines import Pipelines, PipelineView, view_of
from controlplane.usecases.repositories import Repositories
from controlplane.usecases.sources import sources_of, take
from fleet.errors import Conflict, TowlineError, Unavailable
from fleet.identity import ServiceId
from fleet.source import Rendered

log = structlog.get_logger(__name__)
E = TypeVar("E", fx.RenderStage, fx.Promote, fx.FollowChange)


class _Differs(Conflict):
    """What would be deployed is not what was approved."""


class Promotions:
    """Does what the engine asked for, and tells it how that ended."""

    def __init__(self, deps: Deps, pipelines: Pipelines, repositories: Repositories) -> None:
        self._deps = deps
        self._pipelines = pipelines
        self._repositories = repositories
        self._git = GitPromotions(deps)

    async def render(self, job: Job) -> None:
        """Render a release for a stage; the engine learns the digests, or why there are none."""
        pipeline, effect = _payload(job, fx.RenderStage)
        services = await self._services(pipeline, effect.stage)
        event: ev.Event
        try:
            commits = await self._commits_for(pipeline, services, effect)
            done = {s.id: await self._render(s, commits[s.id]) for s in services}
            revisions = {
                id: Revision(commits[id], rendered.digest) for id, rendered in done.items()
            }
            event = ev.Rendered(effect.stage, effect.release, revisions)
        except TowlineError as error:
            event = ev.RenderFailed(effect.stage, effect.release, error.message)
        await self._pipelines.advance(pipeline, event)

    async def promote(self, job: Job) -> None:
        """Give each service of a stage exactly the revision that was approved."""
        pipeline, effect = _payload(job, fx.Promote)
        view = None if effect.back else await self._by_git(pipeline, effect.stage)
        if view is None:
            return await self._hand_out(pipeline, effect)
        held = view.state.stages.get(effect.stage)
        if held is None or not _is_wanted(held, effect.release):
            return None
        services, change = await self._services(pipeline, effect.stage), held.change
        try:
            await self._check_thawed([one for one in services if one.id in effect.revisions])
            if change is None or change.state is not ChangeState.LANDED:
                stage = view.spec.stage[effect.stage]
                change = await self._git.land(view, stage, services, effect.release)
        except TowlineError as error:
            if isinstance(error, Unavailable) and job.attempts < MOST_ATTEMPTS:
                raise  # The job is done again: what was written already is found.
            failed = ev.PromotionFailed(effect.stage, effect.release, error.message)
            await self._pipelines.advance(pipeline, failed)
            return None
        return await self._take_change(pipeline, effect, change)

    async def follow(self, job: Job) -> None:
        """See whether a request was merged; if so, give its services what it became.

        Where nobody tells, it counts as merged once the branch comes to exactly what was approved.
        """
        pipeline, effect = _payload(job, fx.FollowChange)
        view = await self._by_git(pipeline, effect.stage)
        held = view.state.stages.get(effect.stage) if view else None
        if view is None or held is None or held.change is None:
            return
        if not _is_wanted(held, effect.release):
            return
        given = fx.Promote(effect.key, effect.stage, effect.release, effect.revisions)
        write = view.spec.stage[effect.stage].git
        try:
            change = await self._git.look(view, held.change, write.provider if write else "")
        except Unavailable:
            change = replace(
                held.change, state=ChangeState.LANDED, commit=await self._git.tip(held.change)
            )
            if not await self._comes_to(pipeline, _moved(given, change)):
                return
        except TowlineError as error:
            failed = ev.PromotionFailed(effect.stage, effect.release, error.message)
            await self._pipelines.advance(pipeline, failed)
            return
        await self._take_change(pipeline, given, change)

    def waiting(self, repository_id: str) -> frozenset[str]:
        """As `GitPromotions.waiting`."""
        return self._git.waiting(repository_id)

    async def hinted(self, pipeline: str, repository_id: str) -> None:
        """A repository has moved in which a pipeline waits for a merge."""
        await self._pipelines.advance(pipeline, ev.ChangeHinted(repository_id))

    async def _take_change(self, pipeline: str, effect: fx.Promote, change: Change) -> None:
        """Give services what has landed; keep in mind what has not."""
        if change.state is ChangeState.LANDED:
            await self._hand_out(pipeline, _moved(effect, change), change)
        else:
            told = ev.Changed(effect.stage, effect.release, change)
            await self._pipelines.advance(pipeline, told)

    async def _comes_to(self, pipeline: str, effect: fx.Promote) -> bool:
        """Whether its commits render to what was approved."""
        members = await self._services(pipeline, effect.stage)
        for service in (one for one in members if one.id in effect.revisions):
            wanted = effect.revisions[service.id]
            if (await self._render(service, wanted.commit)).digest != wanted.digest:
                return False
        return True

    async def _hand_out(
        self, pipeline: str, effect: fx.Promote, change: Change | None = None
    ) -> None:
        members = await self._services(pipeline, effect.stage)
        services = [one for one in members if one.id in effect.revisions]
        try:
            if not effect.back:
                await self._check_thawed(services)
            done = {s.id: await self._render(s, effect.revisions[s.id].commit) for s in services}
            for service in services:
                _check_same(service, effect.revisions[service.id], done[service.id])
            await self._check_allowed(effect)
        except TowlineError as error:
            moved = change is not None and isinstance(error, _Differs)
            kind = ev.BaseMoved if moved else ev.PromotionFailed
            told = kind(effect.stage, effect.release, error.message)
            await self._pipelines.advance(pipeline, told)
            return
        if change is not None:
            changed = ev.Changed(effect.stage, effect.release, change)
            await self._pipelines.advance(pipeline, changed)
        async with self._deps.store.write() as tx:
            watch = await _watch(tx, pipeline, effect.stage)
            for service in services:
                await self._give(tx, service.id, effect, done[service.id], watch, change)
        for service in services:
            self._deps.bus.publish(SERVICE, service.id)
            self._deps.bus.publish(DESIRED, f"{service.cluster_id}/{service.id}")
            if service.repository_id:
                self._deps.bus.publish(DELIVER, f"{service.repository_id}/{service.id}")

    async def tick(self, job: Job) -> None:
        """Let the engine look at the time."""
        await self._pipelines.advance(job.payload["pipeline"])

    async def _by_git(self, pipeline: str, stage: StageId) -> PipelineView | None:
        """The pipeline, if that stage of it is promoted by git."""
        async with self._deps.store.read() as tx:
            row = await tx.pipelines.get(pipeline)
            view = await view_of(tx, row) if row else None
        found = view.spec.stage.get(stage) if view else None
        return view if found is not None and found.git is not None else None

    async def _commits_for(
        self, pipeline: str, services: list[Service], effect: fx.RenderStage
    ) -> dict[ServiceId, str]:
        """The commit that each service of a stage would take a release from."""
        view = await self._by_git(pipeline, effect.stage)
        if view is None:
            return await self._commits(services, effect.commits)
        stage = view.spec.stage[effect.stage]
        sha = await self._git.prepare(view, stage, services, effect.release)
        return {one.id: sha for one in services}

    async def _services(self, pipeline: str, stage: StageId) -> list[Service]:
        async with self._deps.store.read() as tx:
            row = await tx.pipelines.get(pipeline)
            if row is None:
                return []
            found = codec.pipeline_from_json(row.spec).stage.get(stage)
            return await tx.services.select(id=found.services) if found else []

    async def _check_thawed(self, services: list[Service]) -> None:
        async with self._deps.store.read() as tx:
            for service in services:
                await check_thawed(tx, service.cluster_id)

    async def _check_allowed(self, effect: fx.Promote) -> None:
        revisions = effect.revisions.values()
        async with self._deps.store.read() as tx:
            await check_allowed(
                tx, *(one for each in revisions for one in (each.commit, each.digest))
            )

    async def _commits(
        self, services: list[Service], commits: Mapping[ServiceId, str]
    ) -> dict[ServiceId, str]:
        """For each service, the commit of its repository: of its namesake, else the newest."""
        async with self._deps.store.read() as tx:
            sources = await tx.services.select(id=commits.keys())
            dates = {
                row.sha: row.committed_at
                for row in await tx.revisions.select(service_id=commits.keys())
            }
        chosen = {}
        for service in services:
            same = [s for s in sources if s.repository_id == service.repository_id]
            if not same:
                raise Conflict(
                    f"service {service.name!r} has a repository that no service of the "
                    "first stage has: there is no commit to promote"
                )
            namesake = next((s for s in same if s.name == service.name), None)
            newest = max(same, key=lambda s: dates.get(commits[s.id], s.inserted_at))
            chosen[service.id] = commits[(namesake or newest).id]
        return chosen

    async def _render(self, service: Service, commit: str) -> Rendered:
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(service.cluster_id)
            contexts = await values_of(self._deps, tx, [service])
            sources = await sources_of(tx, [service.id])
        if cluster is None:
            raise Conflict(f"the cluster of service {service.name!r} was deleted")
        parameters = parameters_of(service, cluster, contexts.get(service.id, {}))
        taken = take(self._deps, sources.get(service.id, ()))
        request = service.render_request(commit, parameters, taken.folders)
        return await self._deps.manifests.render(request)

    async def _give(
        self,
        tx: Transaction,
        id: str,
        effect: fx.Promote,
        rendered: Rendered,
        watch: Verification | None,
        change: Change | None,
    ) -> None:
        service = await tx.services.get(id)
        if service is None:
            return
        commit = effect.revisions[ServiceId(id)].commit
        if (service.pinned, service.digest, service.watch) == (commit, rendered.digest, watch):
            return
        now = self._deps.clock.now()
        is_new = (service.digest, service.watch) != (rendered.digest, watch)
        service = replace(service, watch=watch)
        after = replace(
            service,
            **service.unheld(rendered.digest),
            promoted=True,
            pinned=commit,
            sha=commit,
            source=rendered.source,
            reads=await reads_of(self._deps, service, commit, rendered),
            render_error=None,
            digest=rendered.digest,
            attestation=rendered.attestation,
            bundle_bytes=rendered.size,
            object_count=rendered.count,
            sequence=service.sequence + is_new,
            revision_id=self._deps.new_id(),
            updated_at=now,
        )
        origin = next(iter(await tx.revisions.select(sha=commit)), None)
        await tx.services.put(replace(after, author=origin.author if origin else ""))
        await tx.revisions.add(_revision(after, origin, effect, rendered))
        await tx.ledger.append([_entry(after, effect, change)])


def _payload(job: Job, kind: type[E]) -> tuple[str, E]:
    effect = codec.effect_from_json(job.payload["effect"])
    if not isinstance(effect, kind):
        raise TowlineError(f"job {job.key} holds {type(effect).__name__}, not {kind.__name__}")
    return job.payload["pipeline"], effect


def _is_wanted(held: StageState, release: ReleaseId) -> bool:
    """Whether a stage still takes a release in: not if it was aborted, withdrawn or put back while
    a server of git could not be reached."""
    return held.release == release and bool(held.revisions) and not held.stopped


async def _watch(tx: Transaction, pipeline: str, stage: StageId) -> Verification | None:
    """What the stage asks of those that it gives a release."""
    row = await tx.pipelines.get(pipeline)
    found = codec.pipeline_from_json(row.spec).stage.get(stage) if row else None
    return found.verification if found else None


def _check_same(service: Service, wanted: Revision, rendered: Rendered) -> None:
    if rendered.digest != wanted.digest:
        raise _Differs(
            f"service {service.name!r} now renders to {rendered.digest}, but "
            f"{wanted.digest} was approved: nothing was promoted"
        )


def _revision(
    service: Service, origin: RevisionRow | None, effect: fx.Promote, rendered: Rendered
) -> RevisionRow:
    if service.revision_id is None or service.sha is None:
        raise ValueError("a promoted service has a revision and a commit")
    return RevisionRow(
        id=service.revision_id,
        service_id=service.id,
        sha=service.sha,
        ref=service.ref,
        folder=service.folder,
        digest=rendered.digest,
        attestation=rendered.attestation,
        source=rendered.source,
        author=origin.author if origin else "",
        subject=origin.subject if origin else "",
        committed_at=origin.committed_at if origin else service.updated_at,
        inserted_at=service.updated_at,
        actor="pipeline",
        release_id=str(effect.release)[:64],
    )


def _moved(effect: fx.Promote, change: Change) -> fx.Promote:
    """The same with the commit that it has landed as."""
    revisions = {id: Revision(change.commit, one.digest) for id, one in effect.revisions.items()}
    return replace(effect, revisions=revisions)


def _entry(service: Service, effect: fx.Promote, change: Change | None) -> LedgerEntry:
    return LedgerEntry(
        service_id=service.id,
        cluster_id=service.cluster_id,
        stage=Stage.PROMOTED,
        at=service.updated_at,
        sequence=service.sequence,
        sha=service.sha,
        digest=service.digest,
        revision_id=service.revision_id,
        actor="pipeline",
        message=f"release {effect.release}" + (f": {change}" if change else ""),
        detail={"release": str(effect.release)} | _shown(change),
    )


def _shown(change: Change | None) -> dict[str, str | int]:
    """What the ledger keeps of how a release came into git."""
    if change is None:
        return {}
    told = {"branch": change.branch, "commit": change.commit, "url": change.url}
    return told | ({"request": change.number} if change.number else {})
