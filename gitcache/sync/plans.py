"""Finds the inputs of a render without rendering: folders, references, charts."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from core.errors import Invalid
from core.json_object import JsonObject
from core.runtime.lru_cache import LRUCache
from core.spec.renderers import AUTO
from core.spec.source import RenderRequest, SourceFolder
from gitcache.domain import paths
from gitcache.domain.inputs import FORMAT, Inputs, digest_of_json
from gitcache.domain.references import ChartRef, References
from gitcache.domain.remote_bases import BaseRef, parse_base
from gitcache.domain.renders import RenderJob
from gitcache.domain.trees import Entry
from gitcache.ports import Bases, Charts, Decryptor, Memo, RenderWorkers, TreeReader
from gitcache.render.plan import BaseReads, CommitRoot, PlanPart, RenderPlan
from gitcache.render.renderer import Renderer
from gitcache.render.renderers import RENDERERS, renderer_named, renderer_of_entry
from gitcache.render.templates import TEMPLATE_SUFFIX
from gitcache.sync.files import read_contents, read_link_targets
from gitcache.sync.render_groups import RenderGroups

_MAX_FOLDERS = 256
_MAX_BASES = 32
_MAX_CACHED_LINKS = 20_000


class RenderPlanner:
    """Makes the plan of a request. Implements `Planning`."""

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
        self.charts = charts
        self._linked: LRUCache[str, References] = LRUCache(_MAX_CACHED_LINKS)

    async def plan(
        self,
        origin: CommitRoot,
        request: RenderRequest,
        sources: Sequence[tuple[CommitRoot, SourceFolder]] = (),
        bases: Bases | None = None,
    ) -> RenderPlan:
        """Makes the plan of a request. Raises Invalid for missing references."""
        folder = paths.folder_path(request.folder)
        tree = await self.folder(origin, folder, request.commit)
        start = _kustomize_root(folder, request.kustomize_path)
        below = start.removeprefix(folder).lstrip("/")
        renderer = await self._renderer(origin, tree, below, request)
        plan = RenderPlan(request, renderer.name, folder, start, {folder: tree})
        plan = await renderer.plan(self, origin, plan, any_sources=bool(sources))
        plan = replace(plan, reads=await self._with_references(origin, plan.reads, plan))
        plan = replace(plan, bases=await self._find_bases(origin, plan, bases))
        plan = await renderer.complete(self, origin, plan)
        mounted = [await self._source_part(mount, source, folder) for mount, source in sources]
        parts = [*plan.parts, *_own_parts(origin, plan), *_base_parts(plan), *mounted]
        tool_version = await self._workers.tool_version(plan.renderer)
        plan = replace(plan, parts=parts, tool_version=tool_version)
        return replace(plan, static=self._static_digest(origin, plan))

    async def tool_version(self, renderer: str) -> str:
        """Implements `Planning.tool_version`."""
        return await self._workers.tool_version(renderer)

    async def find(self, origin: CommitRoot, path: str) -> Entry | None:
        """Implements `Planning.find`."""
        return (await self._reader.ids(origin.spec, origin.tree, [path]))[path]

    async def folder(self, origin: CommitRoot, path: str, commit: str) -> Entry:
        """Implements `Planning.folder`."""
        entry = await self.find(origin, path)
        if entry is None or not entry.is_tree:
            raise Invalid(f"folder {path!r} is not in commit {commit[:12]}")
        return entry

    async def _renderer(
        self, origin: CommitRoot, tree: Entry, root: str, request: RenderRequest
    ) -> Renderer:
        """Returns the requested renderer, or detects it from the files of the folder."""
        if request.renderer != AUTO:
            return renderer_named(request.renderer)
        if (entry := request.options.entry) is not None:
            return renderer_of_entry(entry)
        markers = {
            renderer: [paths.child(root, name) for name in _marker_files(renderer, request)]
            for renderer in RENDERERS
        }
        names = [name for marker_names in markers.values() for name in marker_names]
        entries = await self._reader.ids(origin.spec, tree.id, names)
        detected = (
            each
            for each, marker_names in markers.items()
            if any(entries[name] for name in marker_names)
        )
        return next(detected, RENDERERS[-1])

    def _static_digest(self, origin: CommitRoot, plan: RenderPlan) -> str:
        mounts = [
            (paths.relative_to(part.at, plan.folder), part.entry.id)
            for part in plan.parts
            if part.is_mounted
        ]
        return Inputs(
            renderer=plan.renderer,
            trees={
                paths.relative_to(path, plan.folder): entry.id for path, entry in plan.reads.items()
            },
            tool=plan.tool_version,
            root=paths.relative_to(plan.root, plan.folder),
            templated=plan.request.templated,
            settings=plan.settings,
            charts={
                paths.relative_to(chart_folder, plan.folder): pin.digest
                for chart_folder, pin in plan.pins.items()
            },
            mounts=mounts,
            submodules=origin.spec.submodules,
            keys=self._key_fingerprints(plan),
            project=origin.spec.project,
            options=plan.request.options,
        ).digest()

    def _key_fingerprints(self, plan: RenderPlan) -> list[str]:
        if self._decryptor is None:
            return []
        specs = {part.spec.id: part.spec for part in plan.parts}
        return sorted(
            {name for spec in specs.values() if (name := self._decryptor.key_fingerprint(spec))}
        )

    async def _source_part(self, origin: CommitRoot, source: SourceFolder, folder: str) -> PlanPart:
        """Mounts a folder of another source in the service's folder."""
        path = paths.folder_path(source.folder)
        at = paths.join(folder, source.path)
        if at is None or not paths.is_below(at, folder):
            raise Invalid(f"{source.path[:200]!r} leaves the service's folder", field="sources")
        entry = await self.folder(origin, path, source.commit)
        return PlanPart(origin.spec, path, entry, at, source.commit, is_mounted=True)

    async def mount(self, origin: CommitRoot, plan: RenderPlan, path: str, at: str) -> RenderPlan:
        """Implements `Planning.mount`."""
        entry = await self.folder(origin, path, plan.request.commit)
        part = PlanPart(origin.spec, path, entry, at, plan.request.commit, is_mounted=True)
        return replace(plan, parts=[*plan.parts, part])

    async def add_reads(
        self, origin: CommitRoot, plan: RenderPlan, names: Collection[str]
    ) -> RenderPlan:
        """Implements `Planning.add_reads`."""
        outside = [name for name in names if not any(paths.is_below(name, r) for r in plan.reads)]
        entries = await self._reader.ids(origin.spec, origin.tree, outside)
        existing = {name: entry for name, entry in entries.items() if entry is not None}
        return replace(plan, reads={**plan.reads, **existing})

    async def _find_bases(
        self, origin: CommitRoot, plan: RenderPlan, commits: Bases | None
    ) -> list[BaseReads]:
        """Finds the remote bases of the read folders, and those of the bases."""
        reads_by_mount_path: dict[str, BaseReads] = {}
        unread = [(origin, entry) for entry in plan.reads.values()]
        while unread:
            for base in await self._named_bases(*unread.pop(), plan):
                base_reads = reads_by_mount_path.get(base.mount_path) or await _start_reads(
                    base, origin, commits
                )
                if base.folder in base_reads.reads:
                    continue
                folder = await self.folder(base_reads.origin, base.folder, base_reads.commit)
                start = {**base_reads.reads, base.folder: folder}
                reads = await self._with_references(base_reads.origin, start, plan)
                unread += [
                    (base_reads.origin, reads[path]) for path in reads.keys() - base_reads.reads
                ]
                reads_by_mount_path[base.mount_path] = replace(base_reads, reads=reads)
                if len(reads_by_mount_path) > _MAX_BASES:
                    raise Invalid(f"the folder needs more than {_MAX_BASES} remote bases")
        return list(reads_by_mount_path.values())

    async def _named_bases(
        self, origin: CommitRoot, entry: Entry, plan: RenderPlan
    ) -> list[BaseRef]:
        """Lists the remote bases that the files of a folder name."""
        if not entry.is_tree:
            return []
        texts = (await self.references(origin, entry, plan)).bases
        return [base for text in texts if (base := parse_base(text)) is not None]

    async def _with_references(
        self, origin: CommitRoot, start: Mapping[str, Entry], plan: RenderPlan
    ) -> dict[str, Entry]:
        """Adds outside references of the read folders, recursively."""
        reads = dict(start)
        unread = list(start)
        while unread:
            folder = unread.pop()
            names = await self._outside_references(origin, folder, reads[folder], plan)
            entries = await self._reader.ids(origin.spec, origin.tree, names)
            for name, entry in entries.items():
                if entry is not None and not any(paths.is_below(name, read) for read in reads):
                    reads[name] = entry
                    unread.append(name)
            if len(reads) > _MAX_FOLDERS:
                raise Invalid(
                    f"the folder refers to more than {_MAX_FOLDERS} other folders or files"
                )
        return reads

    async def _outside_references(
        self, origin: CommitRoot, folder: str, entry: Entry, plan: RenderPlan
    ) -> list[str]:
        """Lists the outside paths that a folder's files name, from the repository root."""
        if not entry.is_tree:
            return []
        references = await self.references(origin, entry, plan)
        names = [
            (path, paths.join(folder, path)) for path in references.paths if _leaves_folder(path)
        ]
        if any(name is None for _, name in names):
            raise Invalid(f"a reference below {folder or '.'!r} leaves the repository")
        links = (paths.join(folder, link) for link in references.links)
        return [name for name in (*(name for _, name in names), *links) if name is not None]

    async def references(self, origin: CommitRoot, entry: Entry, plan: RenderPlan) -> References:
        """Implements `Planning.references`; cached by tree and reads."""
        if not renderer_named(plan.renderer).reference_files:
            return await self._cached_links(origin, entry, plan)
        templated = plan.request.templated
        static = digest_of_json(
            {
                "references": FORMAT,
                "tree": entry.id,
                "renderer": plan.renderer,
                "templated": templated,
                "project": origin.spec.project,
            }
        )
        parameters = plan.request.parameters
        memo: JsonObject | None = await self._groups.find(static, parameters)
        if memo is None:
            found = await self._scan_references(origin, entry, plan)
            charts = [_chart_fields(chart) for chart in found.charts]
            memo = {
                "paths": list(found.paths),
                "links": list(found.links),
                "charts": charts,
                "bases": list(found.bases),
            }
            await self._groups.store_result(static, parameters, found.reads, memo)
        charts = [ChartRef(**fields) for fields in memo["charts"]]
        return References(memo["paths"], charts, links=memo["links"], bases=memo["bases"])

    async def _cached_links(self, origin: CommitRoot, entry: Entry, plan: RenderPlan) -> References:
        """Finds the links of plain files, cached in memory: a rescan is cheaper than a file."""
        references = self._linked.get(entry.id)
        if references is None:
            references = await self._scan_references(origin, entry, plan)
            self._linked.put(entry.id, references)
        return references

    async def _scan_references(
        self, origin: CommitRoot, entry: Entry, plan: RenderPlan
    ) -> References:
        walked = await self._reader.walk(origin.spec, entry.id)
        linked = await read_link_targets(self._reader, origin.spec, walked)
        targets = [
            target
            for path, text in linked.items()
            if (target := _outside_target(path, text)) is not None
        ]
        renderer = renderer_named(plan.renderer)
        may_refer = re.compile(renderer.reference_files, re.DOTALL).fullmatch
        inside = {path: file for path, file in walked.items() if file.is_file and may_refer(path)}
        if not inside:
            return References(links=targets)
        named = {path: b"" for path in inside if path.endswith(renderer.references_by_name)}
        read = {path: file for path, file in inside.items() if path not in named}
        files = await read_contents(self._reader, origin.spec, read, read)
        request = plan.request
        job = RenderJob(
            "", "", files | named, request.templated,
            renderer=plan.renderer, parameters=request.parameters,
        )  # fmt: skip
        return replace(await self._workers.references(job), links=targets)


def _chart_fields(chart: ChartRef) -> dict[str, str]:
    names = ("repository", "name", "version", "folder")
    return {name: getattr(chart, name) for name in names}


def _own_parts(origin: CommitRoot, plan: RenderPlan) -> list[PlanPart]:
    """Returns the reads as parts. A base below another base is a part of that one."""
    commit = plan.request.commit
    return [
        PlanPart(origin.spec, path, entry, path, commit)
        for path, entry in plan.reads.items()
        if not any(paths.is_below(path, other) for other in plan.reads if other != path)
    ]


async def _start_reads(base: BaseRef, origin: CommitRoot, commits: Bases | None) -> BaseReads:
    if commits is None:
        raise Invalid(f"the remote base {base.url[:200]!r} cannot be fetched here")
    commit = await commits.find(origin.spec, base)
    root = CommitRoot(commit.spec, commit.tree)
    return BaseReads(root, commit.commit, base.ref, base.mount_path, {})


def _base_parts(plan: RenderPlan) -> list[PlanPart]:
    """Returns the reads of remote bases as parts, each below the place of its base."""
    return [
        PlanPart(
            base.origin.spec, path, entry, _mount_path(base, path), base.commit, is_mounted=True
        )
        for base in plan.bases
        for path, entry in base.reads.items()
        if not any(paths.is_below(path, other) for other in base.reads if other != path)
    ]


def _mount_path(base: BaseReads, path: str) -> str:
    return paths.child(base.at, path).rstrip("/")


def _leaves_folder(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _outside_target(path: str, text: str) -> str | None:
    """Returns the target of a link that leaves its tree; None otherwise and for absolute links."""
    if text.startswith("/") or len(text) > 1024:
        return None
    joined = paths.link_target(path, text)
    return joined if _leaves_folder(joined) else None


def _marker_files(renderer: Renderer, request: RenderRequest) -> list[str]:
    suffixes = ("", TEMPLATE_SUFFIX) if request.templated and renderer.uses_liquid else ("",)
    return [name + suffix for name in renderer.detected_by for suffix in suffixes]


def _kustomize_root(folder: str, kustomize_path: str | None) -> str:
    if kustomize_path is None:
        return folder
    root = paths.join(folder, kustomize_path)
    if root is None or not paths.is_below(root, folder):
        raise Invalid("leaves the service's folder", field="kustomizePath")
    return root
