"""Applies an approved release to the services of a stage: service rows, revisions and ledger."""

from collections.abc import Mapping
from dataclasses import replace

from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine import effects as fx
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.state import GitWriteStatus
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import OperationContext
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Revision, Service
from controlplane.services.ports import LedgerStore, RevisionStore, ServiceStore
from core.identity import ServiceId
from core.spec.source import RenderedBundle


async def apply_release(
    context: OperationContext,
    tx: Transaction,
    pipeline_id: str,
    effect: fx.Promote,
    renders: Mapping[ServiceId, RenderedBundle],
    reads: Mapping[ServiceId, Mapping[str, str]],
    change: GitWriteStatus | None,
) -> None:
    """Sets services that do not have them yet to the revisions of their release.

    `reads` has the git ids of the paths that each render read.
    """
    row = await tx[PipelineStore].get(pipeline_id)
    spec = codec.pipeline_from_json(row.spec) if row else None
    origins = await _origins(tx, spec, effect) if spec else {}
    stage = spec.stage.get(effect.stage) if spec else None
    verification = stage.verification if stage else None
    changes: dict[str, Mapping[str, object]] = {}
    revisions, entries = [], []
    for before in await tx[ServiceStore].lock(renders):
        commit, rendered = effect.revisions[before.id].commit, renders[before.id]
        desired = before.desired
        is_new = (desired.digest, desired.stage_verification) != (rendered.digest, verification)
        if not is_new and desired.pinned_sha == commit:
            continue
        origin = origins.get(commit)
        verified = before.changed(stage_verification=verification)
        columns = {
            **_service_columns(context, verified, commit, rendered, origin),
            "reads": dict(reads[before.id]),
            "stage_verification": verification,
            "generation": desired.generation + is_new,
        }
        after = before.changed(**columns)
        changes[after.id] = columns
        subject = origin.subject if origin else ""
        committed_at = origin.committed_at if origin else after.updated_at
        release = str(effect.release)[:64]
        revisions.append(Revision.of(after, commit, subject, committed_at, "pipeline", release))
        entries.append(_ledger_entry(after, effect, change))
    await tx[RevisionStore].add_each(revisions)
    await tx[ServiceStore].change_each(changes)
    await tx[LedgerStore].append(entries)


async def _origins(
    tx: Transaction, spec: pipeline.Pipeline, effect: fx.Promote
) -> dict[str, Revision]:
    """Revisions of the first stage with the release's commits, by commit."""
    commits = {revision.commit for revision in effect.revisions.values()}
    first_stage_revisions = await tx[RevisionStore].of_commits(spec.first.services, commits)
    return {revision.sha: revision for revision in reversed(first_stage_revisions)}


def _service_columns(
    context: OperationContext,
    service: Service,
    commit: str,
    rendered: RenderedBundle,
    origin: Revision | None,
) -> Columns:
    return {
        **service.columns_for_digest(rendered.digest),
        "promoted": True,
        "pinned_sha": commit,
        "commit_sha": commit,
        "input_digest": rendered.source,
        "render_error": None,
        "render_reason": "",
        "digest": rendered.digest,
        "attestation": rendered.attestation,
        "bundle_bytes": rendered.size,
        "object_count": rendered.count,
        "revision_id": context.new_id(),
        "updated_at": context.clock.now(),
        "author": origin.author if origin else "",
    }


def _ledger_entry(
    service: Service, effect: fx.Promote, change: GitWriteStatus | None
) -> LedgerEntry:
    message = f"release {effect.release}" + (f": {change}" if change else "")
    entry = LedgerEntry.of(
        service, LedgerStage.PROMOTED, service.updated_at, actor="pipeline", message=message
    )
    return replace(entry, detail={"release": str(effect.release)} | _change_detail(change))


def _change_detail(change: GitWriteStatus | None) -> dict[str, str | int]:
    """Details of the git change for the ledger entry."""
    if change is None:
        return {}
    detail = {"branch": change.branch, "commit": change.commit, "url": change.url}
    return detail | ({"request": change.number} if change.number else {})
