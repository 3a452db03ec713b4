"""Finds the inputs of a render without rendering: folders, references, charts."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.errors import Invalid
from core.spec.source import (
    HelmRelease,
    Renderer,
    RenderRequest,
    RepositoryKind,
    RepositorySpec,
    SourceFolder,
)
from gitcache.domain import paths
from gitcache.domain.inputs import FORMAT, Inputs, digest_of_json, source_of
from gitcache.domain.objects import Entry
from gitcache.ports import (
    ChartPin,
    ChartRef,
    Charts,
    Decryptor,
    Memo,
    Reads,
    References,
    RenderJob,
    RenderWorkers,
    TreeReader,
)
from gitcache.sync.files import read_contents, read_link_targets
from gitcache.sync.render_groups import RenderGroups

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_CHART_FILES = ("Chart.yaml", "Chart.lock", "requirements.yaml", "requirements.lock")
_TEMPLATE = ".liquid"
_FETCHED_CHART = ".fetched-chart"
_MAX_FOLDERS = 64
_MAX_CACHED_LINKS = 20_000
_MARKS = {
    Renderer.HELM: ("Chart.yaml",),
    Renderer.JSONNET: ("main.jsonnet",),
}


@dataclass(frozen=True, slots=True)
class CommitRoot:
    """A commit: its repository and root tree."""

    spec: RepositorySpec
    tree: str


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A folder or file that a render reads, and its path `at` among the render's files."""

    spec: RepositorySpec
    path: str
    entry: Entry
    at: str
    is_mounted: bool = False


@dataclass(frozen=True, slots=True)
class RenderPlan:
    """All inputs of a render except parameters; `static` is their digest."""

    request: RenderRequest
    renderer: Renderer
    folder: str
    root: str
    reads: Mapping[str, Entry]
    parts: Sequence[PlanPart]
    pins: Mapping[str, ChartPin] = field(default_factory=dict)
    values: Sequence[str] = ()
    static: str = ""

    def source(self, reads: Reads) -> str:
        """Digest of all inputs, given the parameters that were read."""
        return source_of(self.static, reads, self.request.parameters)


class RenderPlanner:
    """Makes the plan of a request."""

    def __init__(
        self,
        reader: TreeReader,
        memo: Memo,
        workers: RenderWorkers,
        charts: Charts,
        decryptor: Decryptor | None = None,
    ) -> None:
        self._reader = reader
        self._decryptor = decryptor
        self._groups = RenderGroups(memo)
        self._workers = workers
        self._charts = charts
        self._linked: OrderedDict[str, References] = OrderedDict()

    async def plan(
        self,
        origin: CommitRoot,
        request: RenderRequest,
        sources: Sequence[tuple[CommitRoot, SourceFolder]] = (),
    ) -> RenderPlan:
        """Makes the plan of a request. Raises Invalid for missing references."""
        folder = paths.folder_path(request.folder)
        own = await self._folder(origin, folder, request.commit)
        start = _kustomize_root(folder, request.kustomize_path)
        below = start.removeprefix(folder).lstrip("/")
        renderer = await self._renderer(origin, own, below, request)
        plan = RenderPlan(request, renderer, folder, start, {folder: own}, ())
        if renderer is Renderer.HELM:
            plan = await self._with_chart(origin, plan, any_sources=bool(sources))
        elif start != folder:
            await self._folder(origin, start, request.commit)
        plan = replace(plan, reads=await self._closure(origin, plan))
        plan = replace(plan, parts=[*plan.parts, *_own_parts(origin, plan)])
        for mounted, source in sources:
            plan = replace(plan, parts=[*plan.parts, await self._mounted(mounted, source, folder)])
        return replace(plan, static=await self._static(origin, plan))

    async def _folder(self, origin: CommitRoot, path: str, commit: str) -> Entry:
        found = (await self._reader.ids(origin.spec, origin.tree, [path]))[path]
        if found is None or not found.is_tree:
            raise Invalid(f"folder {path!r} is not in commit {commit[:12]}")
        return found

    async def _renderer(
        self, origin: CommitRoot, own: Entry, root: str, request: RenderRequest
    ) -> Renderer:
        """Detects the renderer of a folder by its files."""
        if request.renderer is not Renderer.AUTO:
            return request.renderer
        suffixes = ("", _TEMPLATE) if request.templated else ("",)
        kustomizations = [name + end for name in _KUSTOMIZATIONS for end in suffixes]
        marks = {Renderer.KUSTOMIZE: kustomizations, **_MARKS}
        names = [paths.child(root, name) for listed in marks.values() for name in listed]
        found = await self._reader.ids(origin.spec, own.id, names)
        for renderer, listed in marks.items():
            if any(found[paths.child(root, name)] for name in listed):
                return renderer
        return Renderer.RAW

    async def _static(self, origin: CommitRoot, plan: RenderPlan) -> str:
        has_tool = plan.renderer is not Renderer.RAW
        mounts = [
            (paths.relative(part.at, plan.folder), part.entry.id)
            for part in plan.parts
            if part.is_mounted
        ]
        return Inputs(
            renderer=plan.renderer,
            trees={
                paths.relative(path, plan.folder): entry.id for path, entry in plan.reads.items()
            },
            tool=await self._workers.tool(plan.renderer.value) if has_tool else None,
            root=paths.relative(plan.root, plan.folder),
            templated=plan.request.templated,
            helm=plan.request.helm if plan.renderer is Renderer.HELM else None,
            charts={
                paths.relative(place, plan.folder): pin.digest for place, pin in plan.pins.items()
            },
            mounts=mounts,
            submodules=origin.spec.submodules,
            keys=self._keys(plan),
            project=origin.spec.project,
        ).digest()

    def _keys(self, plan: RenderPlan) -> list[str]:
        if self._decryptor is None:
            return []
        specs = {part.spec.id: part.spec for part in plan.parts}
        return sorted({name for spec in specs.values() if (name := self._decryptor.keys(spec))})

    async def _mounted(self, origin: CommitRoot, source: SourceFolder, folder: str) -> PlanPart:
        """Mounts a folder of another source in the service's folder."""
        path = paths.folder_path(source.folder)
        at = paths.join(folder, source.path)
        if at is None or not paths.below(at, folder):
            raise Invalid(f"{source.path[:200]!r} leaves the service's folder", field="sources")
        return PlanPart(
            origin.spec, path, await self._folder(origin, path, source.commit), at, True
        )

    async def _with_chart(
        self, origin: CommitRoot, plan: RenderPlan, *, any_sources: bool
    ) -> RenderPlan:
        """Adds a chart to the plan: its folder or archive, values files, and dependencies."""
        helm = plan.request.helm or HelmRelease("release", "default")
        plan = replace(plan, request=replace(plan.request, helm=helm))
        values = [_inside_commit(plan.folder, file, "valuesFiles") for file in helm.values_files]
        plan = await self._reading(origin, replace(plan, values=values), values)
        if origin.spec.kind is RepositoryKind.HELM:
            root = paths.child(plan.folder, _FETCHED_CHART)
            pin = await self._charts.at(origin.spec, plan.request.commit)
            return replace(plan, root=root, pins={root: pin})
        if helm.url:
            wanted = ChartRef(helm.url, helm.chart or "", helm.version or "", origin.spec.project)
            root = paths.child(plan.folder, _FETCHED_CHART)
            return replace(plan, root=root, pins={root: await self._charts.pin(wanted)})
        root = _inside_commit(plan.folder, helm.chart or "", "chart")
        found = (await self._reader.ids(origin.spec, origin.tree, [root]))[root]
        plan = replace(plan, root=root)
        if found is None and any_sources:
            return plan
        if found is None or not found.is_tree:
            raise Invalid(f"folder {root!r} is not in commit {plan.request.commit[:12]}")
        plan = await self._reading(origin, plan, [root])
        named = await self._references(origin, found, plan)
        for chart in named.charts:
            plan = await self._with_dependency(origin, plan, chart)
        return plan

    async def _with_dependency(
        self, origin: CommitRoot, plan: RenderPlan, chart: ChartRef
    ) -> RenderPlan:
        place = paths.child(plan.root, f"charts/{chart.name}")
        if not chart.repository.startswith("file://"):
            if not chart.repository.startswith(("https://", "http://", "oci://")):
                raise Invalid(
                    f"the chart's dependency {chart.name!r} has no supported repository: "
                    "set an https or oci URL, or add the chart to charts/"
                )
            pin = await self._charts.pin(replace(chart, project=origin.spec.project))
            return replace(plan, pins={**plan.pins, place: pin})
        path = _inside_commit(plan.root, chart.repository.removeprefix("file://"), "dependencies")
        entry = await self._folder(origin, path, plan.request.commit)
        part = PlanPart(origin.spec, path, entry, place, True)
        plan = await self._reading(origin, plan, [path])
        return replace(plan, parts=[*plan.parts, part])

    async def _reading(
        self, origin: CommitRoot, plan: RenderPlan, names: Collection[str]
    ) -> RenderPlan:
        """Adds the existing ones of these paths to the plan's reads."""
        outside = [name for name in names if not any(paths.below(name, r) for r in plan.reads)]
        found = await self._reader.ids(origin.spec, origin.tree, outside)
        more = {name: entry for name, entry in found.items() if entry is not None}
        return replace(plan, reads={**plan.reads, **more})

    async def _closure(self, origin: CommitRoot, plan: RenderPlan) -> dict[str, Entry]:
        """Adds outside references of the read folders, recursively."""
        reads = dict(plan.reads)
        unread = list(plan.reads)
        while unread:
            folder = unread.pop()
            names = await self._outside(origin, folder, reads[folder], plan)
            found = await self._reader.ids(origin.spec, origin.tree, names)
            for name, entry in found.items():
                if entry is not None and not any(paths.below(name, read) for read in reads):
                    reads[name] = entry
                    unread.append(name)
            if len(reads) > _MAX_FOLDERS:
                raise Invalid(
                    f"the folder refers to more than {_MAX_FOLDERS} other folders or files"
                )
        return reads

    async def _outside(
        self, origin: CommitRoot, folder: str, entry: Entry, plan: RenderPlan
    ) -> list[str]:
        """Lists the outside paths that a folder's files name, from the repository root."""
        if not entry.is_tree:
            return []
        found = await self._references(origin, entry, plan)
        names = [(path, paths.join(folder, path)) for path in found.paths if _leaves(path)]
        if any(name is None for _, name in names):
            raise Invalid(f"a reference below {folder or '.'!r} leaves the repository")
        links = (paths.join(folder, link) for link in found.links)
        return [name for name in (*(name for _, name in names), *links) if name is not None]

    async def _references(self, origin: CommitRoot, entry: Entry, plan: RenderPlan) -> References:
        """Finds references in a tree's files, relative to the tree; cached by tree and reads."""
        if plan.renderer is Renderer.RAW:
            return await self._links(origin, entry, plan)
        templated = plan.request.templated
        static = digest_of_json(
            {
                "references": FORMAT,
                "tree": entry.id,
                "renderer": plan.renderer.value,
                "templated": templated,
                "project": origin.spec.project,
            }
        )
        parameters = plan.request.parameters
        kept: dict[str, Any] | None = await self._groups.find(static, parameters)
        if kept is None:
            found = await self._scan(origin, entry, plan)
            charts = [[chart.repository, chart.name, chart.version] for chart in found.charts]
            kept = {"paths": list(found.paths), "links": list(found.links), "charts": charts}
            await self._groups.keep(static, parameters, found.reads, kept)
        charts = [ChartRef(*fields) for fields in kept["charts"]]
        return References(kept["paths"], charts, links=kept["links"])

    async def _links(self, origin: CommitRoot, entry: Entry, plan: RenderPlan) -> References:
        """Finds the links of plain files, cached in memory: a rescan is cheaper than a file."""
        found = self._linked.get(entry.id)
        if found is None:
            found = self._linked[entry.id] = await self._scan(origin, entry, plan)
            if len(self._linked) > _MAX_CACHED_LINKS:
                self._linked.popitem(last=False)
        return found

    async def _scan(self, origin: CommitRoot, entry: Entry, plan: RenderPlan) -> References:
        walked = await self._reader.walk(origin.spec, entry.id)
        linked = await read_link_targets(self._reader, origin.spec, walked)
        targets = [
            target for path, text in linked.items() if (target := _target(path, text)) is not None
        ]
        wanted = {
            path: entry for path, entry in walked.items() if _names_others(path, plan.renderer)
        }
        inside = {path: file for path, file in wanted.items() if file.is_file}
        if not inside or (plan.renderer is Renderer.HELM and _CHART_FILES[0] not in inside):
            return References(links=targets)
        packed = {path: b"" for path in inside if path.endswith(".tgz")}
        read = {path: file for path, file in inside.items() if path not in packed}
        files = await read_contents(self._reader, origin.spec, read, read)
        request = plan.request
        job = RenderJob(
            plan.renderer.value, "", "", files | packed, request.parameters, request.templated
        )
        return replace(await self._workers.references(job), links=targets)


def _own_parts(origin: CommitRoot, plan: RenderPlan) -> list[PlanPart]:
    return [PlanPart(origin.spec, path, entry, path) for path, entry in plan.reads.items()]


def _leaves(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _target(path: str, text: str) -> str | None:
    """Returns the target of a link that leaves its tree; None otherwise and for absolute links."""
    if text.startswith("/") or len(text) > 1024:
        return None
    joined = paths.relative_target(path, text)
    return joined if _leaves(joined) else None


def _names_others(path: str, renderer: Renderer) -> bool:
    """True if files of this name may have references, for a renderer."""
    if renderer is Renderer.KUSTOMIZE:
        return path.rpartition("/")[2].removesuffix(_TEMPLATE) in _KUSTOMIZATIONS
    if renderer is Renderer.JSONNET:
        return path.endswith((".jsonnet", ".libsonnet"))
    in_charts = path.startswith("charts/") and path.endswith((".tgz", "/Chart.yaml"))
    return renderer is Renderer.HELM and (path in _CHART_FILES or in_charts)


def _inside_commit(folder: str, relative: str, field_name: str) -> str:
    path = paths.join(folder, relative)
    if path is None:
        raise Invalid(f"{relative[:200]!r} leaves the repository", field=field_name)
    return path


def _kustomize_root(folder: str, kustomize_path: str | None) -> str:
    if kustomize_path is None:
        return folder
    root = paths.join(folder, kustomize_path)
    if root is None or not paths.below(root, folder):
        raise Invalid("leaves the service's folder", field="kustomizePath")
    return root
