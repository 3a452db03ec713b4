"""Promotion by git in the API: what is written, and what became of it."""

import orjson
import strawberry

from controlplane.domain.pipelines.gitwrites import (
    AUTHOR,
    FileChange,
    FileKind,
    GitWrite,
    WriteMode,
)
from controlplane.domain.pipelines.state import Change, ChangeState
from controlplane.graphql.gates import words

strawberry.enum(WriteMode, name="GitWriteMode")
strawberry.enum(FileKind, name="GitFileKind")
strawberry.enum(ChangeState, name="GitChangeState")

_DEFAULT = GitWrite(())


@strawberry.type
class GitChange:
    """What a release became in git; `number` is that of the request that asks for its merge."""

    state: ChangeState
    branch: str
    sha: str | None
    number: int | None
    url: str | None

    @classmethod
    def of(cls, change: Change | None) -> "GitChange | None":
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
    """What is written, as JSON in the words of GitWriteAttributes, without defaults."""
    return orjson.dumps(words(write)).decode() if write else None


@strawberry.input
class GitFileAttributes:
    """How one file changes, or one folder; see docs/how-to/pipelines.md.

    IMAGE takes `image`; FIELD `field` (keys from the root), `value`, `document` and, for
    `${tag}`, `image`; FOLDER takes `source`.
    """

    kind: FileKind
    path: str
    image: str = ""
    field: list[str] | None = None
    value: str = "${tag}"
    document: int = 0
    source: str = ""

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
    """Changes of files that become one commit, or one request to merge it."""

    changes: list[GitFileAttributes]
    mode: WriteMode = WriteMode.COMMIT
    message: str | None = None
    branch: str | None = None
    author: str = AUTHOR
    provider: str = ""

    def write(self) -> GitWrite:
        return GitWrite(
            tuple(one.change() for one in self.changes),
            self.mode,
            self.message or _DEFAULT.message,
            self.branch or _DEFAULT.branch,
            self.author,
            self.provider,
        )
