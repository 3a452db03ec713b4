"""From a commit's folder to a bundle: the inputs' digest first, work only if it is unknown."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.bundle import digest_of
from fleet.errors import Invalid
from fleet.runtime.clock import Clock
from fleet.source import Rendered, Renderer, RenderRequest, RepositorySpec
from gitcache.domain import paths
from gitcache.domain.closure import resolve_links
from gitcache.domain.inputs import FORMAT, Inputs, digest_of_json
from gitcache.domain.objects import SYMLINK, Entry
from gitcache.ports import ContentStore, Memo, RenderJob, TreeReader, Workers
from gitcache.sync.flights import Flights

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MANIFESTS = (".yaml", ".yml", ".json")
_TEMPLATE = ".liquid"
_MAX_FOLDERS = 64
_MAX_FAILURES = 1000


@dataclass(frozen=True, slots=True)
class _Plan:
    """A render that is fully determined: its inputs, and what of the commit it reads."""

    request: RenderRequest
    renderer: Renderer
    folder: str
    root: str
    reads: Mapping[str, Entry]
    source: str


class Renders:
    """Renders once per digest of inputs, over restarts too.

    Failures are remembered in memory for `failure_seconds`, so that many clusters of one broken
    service cost one try.
    """

    def __init__(
        self,
        reader: TreeReader,
        content: ContentStore,
        memo: Memo,
        workers: Workers,
        clock: Clock,
        *,
        failure_seconds: float = 5.0,
    ) -> None:
        self._reader = reader
        self._content = content
        self._memo = memo
        self._workers = workers
        self._clock = clock
        self._failure_seconds = failure_seconds
        self._failures: OrderedDict[str, tuple[float, Invalid]] = OrderedDict()
        self._flights: Flights[Rendered] = Flights()

    async def render(self, spec: RepositorySpec, tree: str, request: RenderRequest) -> Rendered:
        """The bundle of a request; `tree` is the root tree of its commit. Invalid, Unavailable."""
        plan = await self._plan(spec, tree, request)
        if (kept := await self._kept(plan)) is not None:
            return kept
        self._raise_known_failure(plan.source)
        return await self._flights.once(plan.source, lambda: self._render(spec, plan))

    async def _plan(self, spec: RepositorySpec, tree: str, request: RenderRequest) -> _Plan:
        folder = paths.folder_path(request.folder)
        root = _kustomize_root(folder, request.kustomize_path)
        found = await self._reader.ids(spec, tree, [folder, root])
        own, start = found[folder], found[root]
        if own is None or start is None or not (own.is_tree and start.is_tree):
            missing = folder if own is None or not own.is_tree else root
            raise Invalid(f"folder {missing!r} is not in commit {request.commit[:12]}")
        renderer = await self._renderer(spec, tree, root, request)
        reads = {folder: own}
        if renderer is Renderer.KUSTOMIZE:
            reads = await self._closure(spec, tree, reads, request)
        inputs = Inputs(
            renderer=renderer,
            trees={paths.relative(path, folder): entry.id for path, entry in reads.items()},
            tool=await self._workers.tool() if renderer is Renderer.KUSTOMIZE else None,
            kustomize_path=paths.relative(root, folder),
            parameters=_parameters(request),
        )
        return _Plan(request, renderer, folder, root, reads, inputs.digest())

    async def _renderer(
        self, spec: RepositorySpec, tree: str, root: str, request: RenderRequest
    ) -> Renderer:
        if request.renderer is not Renderer.AUTO:
            return request.renderer
        suffixes = ("", _TEMPLATE) if request.templated else ("",)
        names = [paths.child(root, name + end) for name in _KUSTOMIZATIONS for end in suffixes]
        found = await self._reader.ids(spec, tree, names)
        return Renderer.KUSTOMIZE if any(found.values()) else Renderer.RAW

    async def _closure(
        self,
        spec: RepositorySpec,
        tree: str,
        start: Mapping[str, Entry],
        request: RenderRequest,
    ) -> dict[str, Entry]:
        """The folder and, again and again, whatever outside of it its kustomizations name."""
        reads = dict(start)
        unread = list(start)
        while unread:
            folder = unread.pop()
            entry = reads[folder]
            names = await self._outside(spec, folder, entry, request) if entry.is_tree else []
            found = await self._reader.ids(spec, tree, names)
            for name, one in found.items():
                if one is not None and not any(paths.below(name, other) for other in reads):
                    reads[name] = one
                    unread.append(name)
            if len(reads) > _MAX_FOLDERS:
                raise Invalid(f"kustomizations refer to more than {_MAX_FOLDERS} other folders")
        return reads

    async def _outside(
        self, spec: RepositorySpec, folder: str, entry: Entry, request: RenderRequest
    ) -> list[str]:
        """Paths outside of a folder that its kustomizations name, from the root."""
        relative = await self._references(spec, entry.id, request)
        names = []
        for one in relative:
            name = paths.join(folder, one)
            if name is None:
                raise Invalid(f"a kustomization below {folder or '.'!r} leaves the repository")
            names.append(name)
        return names

    async def _references(
        self, spec: RepositorySpec, tree: str, request: RenderRequest
    ) -> list[str]:
        """What a tree's kustomizations name outside of it; depends on nothing but the tree."""
        parameters = _parameters(request)
        key = digest_of_json({"references": FORMAT, "tree": tree, "parameters": parameters})
        if (kept := await self._memo.get(key)) is not None:
            return kept["paths"]
        walked = await self._reader.walk(spec, tree)
        wanted = {path: one for path, one in walked.items() if _is_kustomization(path)}
        files = await self._read(spec, wanted, walked)
        job = RenderJob("kustomize", "", "", files, parameters)
        named = await self._workers.references(job)
        outside = [path for path in named if path == ".." or path.startswith("../")]
        await self._memo.put(key, {"paths": outside})
        return outside

    async def _kept(self, plan: _Plan) -> Rendered | None:
        memo = await self._memo.get(plan.source)
        if memo is None or await self._content.get(memo["digest"]) is None:
            return None
        return Rendered(
            plan.source, memo["digest"], memo["size"], memo["count"], True, tuple(plan.reads)
        )

    def _raise_known_failure(self, source: str) -> None:
        until, error = self._failures.get(source, (0.0, None))
        if error is not None and self._clock.monotonic() < until:
            raise Invalid(error.message)

    async def _render(self, spec: RepositorySpec, plan: _Plan) -> Rendered:
        try:
            files = await self._files(spec, plan)
            job = RenderJob(
                plan.renderer.value,
                plan.folder,
                plan.root,
                files,
                _parameters(plan.request),
            )
            result = await self._workers.render(job)
        except Invalid as error:
            self._remember_failure(plan.source, error)
            raise
        digest = digest_of(result.data)
        await self._content.put(digest, result.data)
        memo = {"digest": digest, "size": len(result.data), "count": result.count}
        await self._memo.put(plan.source, memo)
        return Rendered(
            plan.source, digest, len(result.data), result.count, False, tuple(plan.reads)
        )

    async def _files(self, spec: RepositorySpec, plan: _Plan) -> Mapping[str, bytes]:
        entries: dict[str, Entry] = {}
        for path, entry in plan.reads.items():
            if entry.is_tree:
                walked = await self._reader.walk(spec, entry.id)
                entries |= {paths.child(path, name): one for name, one in walked.items()}
            else:
                entries[path] = entry
        if plan.renderer is Renderer.RAW:
            templated = plan.request.templated
            wanted = {p: e for p, e in entries.items() if _is_manifest(p, templated)}
            return await self._read(spec, wanted, entries)
        return await self._read(spec, entries, entries)

    async def _read(
        self,
        spec: RepositorySpec,
        wanted: Mapping[str, Entry],
        around: Mapping[str, Entry],
    ) -> Mapping[str, bytes]:
        """Contents of the wanted files; links are resolved among `around`."""
        links = {p: e for p, e in around.items() if e.mode == SYMLINK}
        texts = await self._reader.blobs(spec, {entry.id for entry in links.values()})
        targets = {path: texts[one.id].decode("utf-8", "replace") for path, one in links.items()}
        resolved = resolve_links(wanted, around, targets)
        contents = await self._reader.blobs(spec, {entry.id for entry in resolved.values()})
        return {path: contents[entry.id] for path, entry in resolved.items()}

    def _remember_failure(self, source: str, error: Invalid) -> None:
        self._failures[source] = (self._clock.monotonic() + self._failure_seconds, error)
        if len(self._failures) > _MAX_FAILURES:
            self._failures.popitem(last=False)


def _parameters(request: RenderRequest) -> dict[str, Any] | None:
    return dict(request.parameters) if request.templated else None


def _kustomize_root(folder: str, kustomize_path: str | None) -> str:
    if kustomize_path is None:
        return folder
    root = paths.join(folder, kustomize_path)
    if root is None or not paths.below(root, folder):
        raise Invalid("leaves the service's folder", field="kustomizePath")
    return root


def _is_kustomization(path: str) -> bool:
    return path.rpartition("/")[2].removesuffix(_TEMPLATE) in _KUSTOMIZATIONS


def _is_manifest(path: str, templated: bool) -> bool:
    return (path.removesuffix(_TEMPLATE) if templated else path).endswith(_MANIFESTS)
