"""Promotion through Git in the API: changes to write and their state."""

import orjson
import strawberry

from controlplane.pipelines.model.git_writes import (
    AUTHOR,
    FileChange,
    FileKind,
    GitWrite,
    WriteMode,
)
from controlplane.pipelines.model.state import GitChangeState, GitWriteStatus
from controlplane.platform.graphql.plugin_inputs import settings_json

strawberry.enum(
    WriteMode, name="GitWriteMode", description="Way in which a change reaches the branch."
)
strawberry.enum(FileKind, name="GitFileKind", description="Kind of change to a file or folder.")
strawberry.enum(GitChangeState, name="GitChangeState", description="State of a Git change.")

_DEFAULT = GitWrite(())


@strawberry.type
class GitChange:
    """Git change made by a release or a trigger."""

    state: GitChangeState
    """State of the change."""
    branch: str
    """Branch with the change."""
    sha: str | None
    """Full SHA of the commit. Null until it is merged."""
    number: int | None
    """Number of the pull or merge request. Null for a direct commit."""
    url: str | None
    """URL of the pull or merge request. Null for a direct commit."""

    @classmethod
    def of(cls, change: GitWriteStatus | None) -> "GitChange | None":
        if change is None:
            return None
        return cls(
            state=change.state,
            branch=change.branch,
            sha=change.commit or None,
            number=change.number or None,
            url=change.url or None,
        )


def settings_of(write: GitWrite | None) -> str | None:
    """Returns the changes as JSON in the form of `GitWriteAttributes`, without defaults."""
    return orjson.dumps(settings_json(write)).decode() if write else None


@strawberry.input
class GitFileAttributes:
    """A change to one file or folder."""

    kind: FileKind
    """Kind of change."""
    path: str
    """Path of the file or folder in the repository. Limit: 1,024 characters."""
    image: str = ""
    """IMAGE: name of the image without a tag. FIELD: image for `${tag}`."""
    field: list[str] | None = None
    """FIELD: keys and indexes from the root of the document. Limit: 32."""
    value: str = "${tag}"
    """FIELD and IMAGE: new value or tag. Default: `${tag}`. Limit: 2,000 characters."""
    document: int = 0
    """FIELD: index of the document in the file, from 0. Default: 0."""
    source: str = ""
    """FOLDER: folder to copy."""

    def change(self) -> FileChange:
        return FileChange(
            self.kind,
            self.path,
            self.image,
            tuple(self.field or ()),
            self.value,
            self.document,
            self.source,
        )


@strawberry.input
class GitWriteAttributes:
    """Changes to files that become one commit."""

    changes: list[GitFileAttributes]
    """Changes to files. Limit: 100."""
    mode: WriteMode = WriteMode.COMMIT
    """Direct commit, or pull or merge request. Default: `COMMIT`."""
    message: str | None = None
    """Commit message with placeholders such as `${release}`, `${stage}` and `${pipeline}`. Limit:
    2,000 characters."""
    branch: str | None = None
    """Branch of the request, with the same placeholders. Default:
    `towline/${pipeline}/${stage}/${release}`."""
    author: str = AUTHOR
    """Author as `Name <email>`. Default: `Towline <towline@localhost>`."""
    provider: str = ""
    """`github`, `gitlab` or `gitea`. Default: derived from the host name."""

    def write(self) -> GitWrite:
        return GitWrite(
            tuple(change.change() for change in self.changes),
            self.mode,
            self.message or _DEFAULT.message,
            self.branch or _DEFAULT.branch,
            self.author,
            self.provider,
        )
