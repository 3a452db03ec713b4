"""Preview branches of releases and their pull requests that a pipeline needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controlplane.pipelines.model.git_writes import GitWrite
from controlplane.pipelines.model.pipeline import Pipeline, Stage
from controlplane.pipelines.model.state import (
    GitChangeState,
    PipelineState,
    Release,
    StageState,
    TriggerState,
)
from controlplane.pipelines.model.triggers import Trigger, TriggerFinding
from core.errors import Invalid


@dataclass(frozen=True, slots=True)
class PreviewBranch:
    """A branch of the pipeline; `number` is its pull request's (0: none).

    If anybody but `author` has committed to it, the pipeline no longer owns it.
    """

    repository_id: str
    branch: str
    author: str
    provider: str = ""
    number: int = 0

    @property
    def key(self) -> tuple[str, str]:
        return self.repository_id, self.branch


_RELEASE_PLACEHOLDERS = ("${release}", "${tag}", "${digest}")
"""A branch with one of these placeholders in its name belongs to one release only."""
PreviewBranches = Mapping[tuple[str, str], PreviewBranch]
"""Branches by repository and name."""


def preview_branches(pipeline: Pipeline, state: PipelineState) -> PreviewBranches:
    """Returns all needed branches."""
    previews = [*_stage_branches(pipeline, state), *_trigger_branches(pipeline, state)]
    return {preview.key: preview for preview in previews}


def release_values(pipeline: Pipeline, stage: Stage, release: Release) -> dict[str, str]:
    """Returns the placeholder values of a stage that is promoted through git."""
    return {
        "release": str(release.id),
        "commit": min(release.commits.values()),
        "stage": stage.name,
        "pipeline": pipeline.name,
    }


def finding_values(pipeline: Pipeline, trigger: Trigger, finding: TriggerFinding) -> dict[str, str]:
    """Returns the placeholder values of a trigger that writes."""
    return {
        "trigger": trigger.name,
        "tag": finding.value,
        "digest": finding.digest,
        "release": finding.value + (f"-{finding.digest[7:19]}" if finding.digest else ""),
        "stage": pipeline.first.name,
        "pipeline": pipeline.name,
    }


def branch_name(write: GitWrite, values: Mapping[str, str], attempt: int = 1) -> str:
    """Each attempt has its own branch, which starts at the current tip of its base."""
    return write.branch_for(values) + (f"-{attempt}" if attempt > 1 else "")


def _stage_branches(pipeline: Pipeline, state: PipelineState) -> Iterator[PreviewBranch]:
    for stage in pipeline.stages:
        if stage.git is None:
            continue
        for release_id, attempt, number in _entering_releases(pipeline, stage, state):
            release = state.releases.get(release_id)
            if release is not None:
                values = release_values(pipeline, stage, release)
                yield from _preview_branch(stage.git, stage.writes_to, values, attempt, number)


def _entering_releases(pipeline: Pipeline, stage: Stage, state: PipelineState) -> Iterator[tuple]:
    """Returns the releases that are entering a stage, with attempt and request."""
    for edge in pipeline.edges_into[stage.id]:
        candidate = state.candidates.get(edge.id)
        if candidate is not None:
            yield candidate.release, candidate.attempt, 0
    stage_state = state.stages.get(stage.id, StageState())
    change = stage_state.change
    if stage_state.release is None or (change and change.state is GitChangeState.LANDED):
        return
    if change is not None or stage_state.promoting:
        yield stage_state.release, stage_state.attempt, change.number if change else 0


def _trigger_branches(pipeline: Pipeline, state: PipelineState) -> Iterator[PreviewBranch]:
    for trigger in pipeline.triggers:
        write, trigger_state = trigger.write, state.triggers.get(trigger.id, TriggerState())
        if (
            not write
            or not trigger_state.finding
            or not trigger_state.change
            or not trigger_state.change.number
        ):
            continue
        values = finding_values(pipeline, trigger, trigger_state.finding)
        number = trigger_state.change.number
        yield from _preview_branch(write, trigger_state.change.repository_id, values, 1, number)


def _preview_branch(
    write: GitWrite, repository: str, values: Mapping[str, str], attempt: int, number: int
) -> Iterator[PreviewBranch]:
    """Yields the branch, unless its name cannot be filled in or the next release uses it too."""
    if not any(placeholder in write.branch for placeholder in _RELEASE_PLACEHOLDERS):
        return
    try:
        branch = branch_name(write, values, attempt)
    except Invalid:
        return
    yield PreviewBranch(repository, branch, write.author, write.provider, number)
