"""The plan of a render, and the planner's services for renderers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.json_object import JsonMapping
from core.spec.source import RenderRequest, RepositoryKind, RepositorySpec
from gitcache.domain.inputs import input_digest
from gitcache.domain.references import Reads, References
from gitcache.domain.renders import ChartPin
from gitcache.domain.trees import Entry
from gitcache.ports import Charts


@dataclass(frozen=True, slots=True)
class CommitRoot:
    """A commit: its repository and root tree."""

    spec: RepositorySpec
    tree: str

    @property
    def has_charts(self) -> bool:
        """Returns whether the repository is a chart repository, whose commits are charts."""
        return self.spec.kind is RepositoryKind.HELM


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A folder or file of a commit that a render reads, and its path `at` among the render's
    files."""

    spec: RepositorySpec
    path: str
    entry: Entry
    at: str
    commit: str
    is_mounted: bool = False


@dataclass(frozen=True, slots=True)
class BaseReads:
    """The folders and files of a remote base that a render reads, and its path `at` among the
    render's files."""

    origin: CommitRoot
    commit: str
    ref: str
    at: str
    reads: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class RenderPlan:
    """All inputs of a render except parameters; `static` is their digest.

    The renderer `renderer` starts in the folder `root`. `settings` are its own settings: they
    are part of the digest, and the worker receives them. `tool_version` is that of its tool.
    """

    request: RenderRequest
    renderer: str
    folder: str
    root: str
    reads: Mapping[str, Entry]
    bases: Sequence[BaseReads] = ()
    parts: Sequence[PlanPart] = ()
    pins: Mapping[str, ChartPin] = field(default_factory=dict)
    settings: JsonMapping = field(default_factory=dict)
    tool_version: str = ""
    static: str = ""

    def source(self, reads: Reads) -> str:
        """Digest of all inputs, given the parameters that were read."""
        return input_digest(self.static, reads, self.request.parameters)


class Planning(Protocol):
    """Services of the planner for the `plan` of a renderer."""

    @property
    def charts(self) -> Charts:
        """Returns the source of charts."""
        ...

    async def tool_version(self, renderer: str) -> str:
        """Returns name and version of a renderer's tool. Raises Unavailable if it is missing."""
        ...

    async def find(self, origin: CommitRoot, path: str) -> Entry | None:
        """Finds a folder or file of the commit."""
        ...

    async def folder(self, origin: CommitRoot, path: str, commit: str) -> Entry:
        """Finds a folder of the commit. Raises Invalid if it is missing."""
        ...

    async def add_reads(
        self, origin: CommitRoot, plan: RenderPlan, names: Collection[str]
    ) -> RenderPlan:
        """Adds the existing ones of these paths to the plan's reads."""
        ...

    async def mount(self, origin: CommitRoot, plan: RenderPlan, path: str, at: str) -> RenderPlan:
        """Adds a folder of the commit, mounted at a path. Raises Invalid if it is missing."""
        ...

    async def references(self, origin: CommitRoot, entry: Entry, plan: RenderPlan) -> References:
        """Finds the references in the files of a folder, relative to it."""
        ...
