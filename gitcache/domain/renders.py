"""Values of renders: jobs, results, charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.errors import Invalid
from core.json_object import JsonMapping
from core.spec.renderers import RenderOptions
from gitcache.domain.references import ChartRef, Reads


@dataclass(frozen=True, slots=True)
class RenderInput:
    """The input of a render, apart from its parameters.

    `files` maps paths relative to the repository root to contents. `folder` is the service's
    folder, `root` the folder where the renderer starts. Templates are expanded only if
    `templated` is set. `settings` are the renderer's own, and `archives` maps chart archives in
    `files` to their target folders.
    """

    folder: str
    root: str
    files: Mapping[str, bytes]
    templated: bool = False
    settings: JsonMapping = field(default_factory=dict)
    archives: Mapping[str, str] = field(default_factory=dict)
    options: RenderOptions = RenderOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderJob(RenderInput):
    """A job for the pool of workers: a render by the renderer of this name."""

    renderer: str
    parameters: JsonMapping = field(default_factory=dict)


class RenderInputError(Invalid):
    """The input is invalid, for all parameters with the same values at `reads`."""

    def __init__(self, message: str, reads: Reads) -> None:
        super().__init__(message)
        self.reads = reads


@dataclass(frozen=True, slots=True)
class RenderResult:
    """The canonical bundle, its number of objects, and the parameters that were read.

    `files` are those of `RenderedBundle`.
    """

    data: bytes
    count: int
    reads: Reads = ()
    files: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class ChartPin:
    """An exact chart; `digest` is the sha256 of its archive (`sha256:<hex>`)."""

    name: str
    version: str
    digest: str
    origin: ChartRef


@dataclass(frozen=True, slots=True)
class ChartVersion:
    """A version in the index of a chart repository; `digest` is empty or 64 hex digits."""

    version: str
    digest: str
    url: str
