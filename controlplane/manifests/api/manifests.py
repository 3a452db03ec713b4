"""Mutations and queries of manifests."""

import json
from datetime import datetime

import strawberry

from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.manifests.model.documents import DocumentProblem, Source
from controlplane.manifests.model.plan import (
    ApplyOptions,
    FieldConflict,
    ManifestEffect,
    ManifestPlan,
    SpecDifference,
)
from controlplane.manifests.operations.manifests import Manifests
from controlplane.manifests.operations.what_if import ManifestReplays
from controlplane.pipelines.api.what_if import PipelineWhatIf
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output
from core.errors import Code


@draft(Source)
class ManifestSource(Draft[Source]):
    """A file of manifests."""


@draft(ApplyOptions)
class ManifestApplyOptions(Draft[ApplyOptions]):
    """Options of an apply."""


@output(SpecDifference)
class ManifestFieldDifference(Output[SpecDifference]):
    """A field that an apply changes."""


@output(FieldConflict)
class ManifestFieldConflict(Output[FieldConflict]):
    """A field that another manager has set to another value."""


@output(ManifestEffect)
class ManifestChange(Output[ManifestEffect]):
    """The effect of an apply on one resource."""


@output(DocumentProblem, hide={"target_id"})
class ManifestProblem(Output[DocumentProblem]):
    """A reason for which a plan cannot be carried out."""


@output(ManifestPlan, name="ManifestPlan")
class ManifestPlanType(Output[ManifestPlan]):
    """The effects of an apply on all resources. With a problem, nothing was done."""


@strawberry.type
class ManifestMutation:
    """Mutations of manifests."""

    @strawberry.mutation
    async def apply_manifests(
        self, info: Info, sources: list[ManifestSource], options: ManifestApplyOptions | None = None
    ) -> ManifestPlanType:
        """Creates, changes and deletes resources until they match the documents, all or nothing.

        Args:
            sources: Files of manifests. Limit: 5,000 documents, 8 MiB together.
            options: Options of the apply.
        """
        apply_options = options.change() if options else ApplyOptions()
        files = [source.change() for source in sources]
        plan = await info.context[Manifests].apply(info.context.actor, files, apply_options)
        _audit_refusals(info, "applyManifests", plan)
        return ManifestPlanType.of(plan)

    @strawberry.mutation
    async def delete_manifests(
        self, info: Info, sources: list[ManifestSource], dry_run: bool = False
    ) -> ManifestPlanType:
        """Deletes the resources that the documents name, all or none.

        Args:
            sources: Files of manifests. Limit: 5,000 documents, 8 MiB together.
            dry_run: True plans without deleting anything. Default: false.
        """
        files = [source.change() for source in sources]
        manifests = info.context[Manifests]
        plan = await manifests.delete(info.context.actor, files, dry_run=dry_run)
        _audit_refusals(info, "deleteManifests", plan)
        return ManifestPlanType.of(plan)


@strawberry.type
class ManifestQuery:
    """Queries of manifests."""

    @strawberry.field
    async def manifests(
        self, info: Info, kinds: list[str] | None = None, managed_fields: bool | None = None
    ) -> str:
        """Returns the resources that the caller may read as YAML, without values of secrets.

        Args:
            kinds: Names of kinds. Default: all.
            managed_fields: True adds the managers of the fields to the metadata. Default: false.
        """
        return await info.context[Manifests].export(
            info.context.actor, kinds or (), managed_fields=bool(managed_fields)
        )

    @strawberry.field
    async def manifest(self, info: Info, kind: str, name: str, defaults: bool = True) -> str:
        """Returns one resource as JSON, without values of secrets.

        Args:
            kind: Name of the kind, such as `Service`.
            name: Name of the resource; that of a service contains its cluster, as `eu-1/web`.
            defaults: False leaves out fields at their defaults. Default: true.
        """
        manifests = info.context[Manifests]
        actor = info.context.actor
        return json.dumps(await manifests.document(actor, kind, name, with_defaults=defaults))

    @strawberry.field
    async def manifest_kinds(self, info: Info) -> list[str]:
        """Returns the names of all kinds of manifests."""
        return info.context[Manifests].kind_names()

    @strawberry.field
    async def manifest_schema(self, info: Info, kind: str) -> str:
        """Returns the JSON Schema of a kind of manifests, as text.

        Args:
            kind: Name of the kind, such as `Service`.
        """
        return json.dumps(info.context[Manifests].schema(kind))

    @strawberry.field
    async def manifest_what_if(
        self, info: Info, source: ManifestSource, since: datetime, until: datetime
    ) -> PipelineWhatIf | None:
        """Replays a past time range of a pipeline with the gates of its manifest.

        Args:
            source: File with exactly one manifest of the kind `Pipeline`.
            since: Start of the time range.
            until: End of the time range.
        """
        replays = info.context[ManifestReplays]
        replay = await replays.run(info.context.actor, source.change(), since, until)
        return PipelineWhatIf.of(replay)


def _audit_refusals(info: Info, action: str, plan: ManifestPlan) -> None:
    """Records denials: the API returns them with the plan, and not as errors."""
    context = info.context
    for problem in plan.problems:
        if problem.code == Code.FORBIDDEN.value:
            context[AuditLogOperations].record_refusal(
                context.caller,
                action,
                problem.target_id,
                context.request_id,
                target=problem.document,
            )
