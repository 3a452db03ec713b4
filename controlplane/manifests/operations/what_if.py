"""Replays of pipelines with the gates of a manifest."""

from collections.abc import Sequence
from datetime import datetime

from controlplane.authorization import Actor, ResourceKind, require_member
from controlplane.manifests.model.documents import DocumentProblem, Source
from controlplane.manifests.operations.names import ResourceNames
from controlplane.manifests.operations.reading import Declaration, DocumentReader
from controlplane.pipelines.kinds import PipelineKind
from controlplane.pipelines.operations.what_if import PipelineReplay, PipelineReplays
from controlplane.platform.context import OperationContext
from controlplane.platform.kinds import AnyKind
from controlplane.platform.parts import row_of
from core.errors import Invalid, NotFound


class ManifestReplays:
    """Replays the pipeline that a manifest describes."""

    def __init__(
        self, context: OperationContext, kinds: Sequence[AnyKind], replays: PipelineReplays
    ) -> None:
        self._context = context
        self._kinds = kinds
        self._reader = DocumentReader(kinds)
        self._replays = replays

    async def run(
        self, actor: Actor, source: Source, since: datetime, until: datetime
    ) -> PipelineReplay:
        """Replays `[since, until)` with the gates of the only pipeline in a file.

        NotFound: the pipeline does not exist. Invalid: names the line.
        """
        require_member(actor)
        declaration = self._pipeline_in(source)
        async with self._context.store.read() as tx:
            names = ResourceNames(tx, actor, self._kinds)
            await names.find({declaration.reference, *declaration.references})
        name = declaration.document.name
        if not names.has(declaration.reference):
            raise NotFound(kind=ResourceKind.PIPELINE)
        declaration.check_complete(declaration.spec)
        columns = declaration.codec.decode_columns(declaration.spec, names.id_of)
        draft = row_of(PipelineKind.change, columns | {"name": name})
        id = names.id_of(*declaration.reference)
        return await self._replays.run(actor, id, draft, since, until)

    def _pipeline_in(self, source: Source) -> Declaration:
        problems: list[DocumentProblem] = []
        declarations = self._reader.read([source], problems)
        if problems:
            raise Invalid(
                "; ".join(_problem_text(problem) for problem in problems[:10]), field="source"
            )
        pipelines = [d for d in declarations if d.document.kind == PipelineKind.name]
        if len(pipelines) != 1:
            text = f"contains {len(pipelines)} pipelines, but exactly one is needed"
            raise Invalid(text, field="source")
        return pipelines[0]


def _problem_text(problem: DocumentProblem) -> str:
    place = f"{problem.file}:{problem.line}: " if problem.file else ""
    field = f"{problem.field}: " if problem.field else ""
    return f"{place}{field}{problem.message}"
