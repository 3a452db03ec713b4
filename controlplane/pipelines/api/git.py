"""Promotion through Git in the API: changes to write and their state."""

import orjson
import strawberry

from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite, WriteMode
from controlplane.pipelines.model.state import GitChangeState, GitWriteStatus
from controlplane.platform.graphql.derive import Draft, FieldValues, Output, draft, output
from controlplane.platform.graphql.plugin_inputs import settings_json

strawberry.enum(
    WriteMode, name="GitWriteMode", description="Way in which a change reaches the branch."
)
strawberry.enum(FileKind, name="GitFileKind", description="Kind of change to a file or folder.")
strawberry.enum(GitChangeState, name="GitChangeState", description="State of a Git change.")
_TEMPLATES = ("message", "branch")


@output(
    GitWriteStatus,
    rename={"sha": "commit"},
    only={"state", "branch", "commit", "number", "url"},
    nullable={"sha", "number", "url"},
)
class GitChange(Output[GitWriteStatus]):
    """Git change made by a release or a trigger."""


def write_as_json(write: GitWrite | None) -> str | None:
    """Returns the changes as JSON in the form of `GitWriteAttributes`, without defaults."""
    return orjson.dumps(settings_json(write)).decode() if write else None


@draft(FileChange, publish_defaults=True)
class GitFileAttributes(Draft[FileChange]):
    """A change to one file or folder."""

    field: list[str] | None = None


@draft(GitWrite, publish_defaults=True)
class GitWriteAttributes(Draft[GitWrite]):
    """Changes to files that become one commit."""

    message: str | None = None
    branch: str | None = None

    def field_values(self) -> FieldValues:
        """Returns the given values; an empty message or branch counts as absent."""
        values = super().field_values()
        return {name: values[name] for name in values if values[name] or name not in _TEMPLATES}
