"""The base class of renderers: one module a renderer, and one line in `renderers.RENDERERS`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from gitcache.domain.references import References
from gitcache.domain.renders import RenderInput
from gitcache.render.manifests import LocatedObject
from gitcache.render.parameters import ParameterRecorder

if TYPE_CHECKING:
    # Workers do not plan, and should start fast.
    from gitcache.render.plan import CommitRoot, Planning, RenderPlan

Files = Mapping[str, bytes]


class ToolCommand(NamedTuple):
    """A program of the PATH: its arguments before those of a render, and those for its version."""

    program: str
    arguments: Sequence[str] = ()
    version: Sequence[str] = ("version",)


class RenderTool(NamedTuple):
    """An external tool: an installed Python distribution, or else the first program of the PATH.

    `hint` says how to install it. Its version is part of the digest of inputs.
    """

    title: str
    hint: str
    library: str | None = None
    commands: Sequence[ToolCommand] = ()

    @property
    def missing(self) -> str:
        """Returns the error for a machine without the tool."""
        return f"this service needs {self.title}: {self.hint}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob(RenderInput):
    """A render in a worker.

    `command` is the tool's, empty for a library. `scratch` is a folder for files, `memory` the
    limit of the worker in bytes.
    """

    parameters: ParameterRecorder
    command: Sequence[str]
    scratch: Path
    memory: int


class Renderer(ABC):
    """Turns the files of a folder into objects.

    `plan` runs in the git cache; `references` and `render` run in a worker without network and
    clock. Their errors are Invalid, with file and line and without paths of the machine.
    """

    name: ClassVar[str]
    """Value of `RenderRequest.renderer`."""
    detected_by: ClassVar[Sequence[str]] = ()
    """Files of a folder for which AUTO selects the renderer."""
    reference_files: ClassVar[str] = ""
    """Pattern of the paths of files that may refer to other folders or files; empty: none."""
    references_by_name: ClassVar[tuple[str, ...]] = ()
    """Suffixes of reference files of which the name suffices."""
    tool: ClassVar[RenderTool | None] = None
    """External tool of the render."""
    uses_liquid: ClassVar[bool] = True
    """True if Liquid templates are expanded before the render; others have their own."""
    entry_suffix: ClassVar[str] = ""
    """Suffix of entry files for which AUTO selects the renderer; empty: none."""

    def may_read(self, path: str, plan: "RenderPlan") -> bool:
        """Returns whether the render may read a file of this path, without `.liquid`."""
        return True

    async def plan(
        self, planning: "Planning", origin: "CommitRoot", plan: "RenderPlan", *, any_sources: bool
    ) -> "RenderPlan":
        """Completes a plan: folders and files outside of the service's folder, and settings."""
        if plan.root != plan.folder:
            await planning.folder(origin, plan.root, plan.request.commit)
        return plan

    async def complete(
        self, planning: "Planning", origin: "CommitRoot", plan: "RenderPlan"
    ) -> "RenderPlan":
        """Completes a plan whose reads are known: charts of its files."""
        return plan

    def references(self, folder: str, files: Files) -> References:
        """Finds the references in the reference files below a folder."""
        return References()

    @abstractmethod
    def render(self, job: WorkerJob) -> list[LocatedObject]:
        """Renders files to objects."""
