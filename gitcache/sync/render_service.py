"""Renders folders to bundles, unless the digest of the inputs has a stored result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.errors import Invalid, Unavailable
from core.json_object import JsonMapping
from core.runtime.clock import Clock
from core.runtime.single_flight import SingleFlight
from core.runtime.ttl_cache import TTLCache
from core.spec.bundle import digest_of
from core.spec.source import (
    BaseFolder,
    FetchedChart,
    RenderedBundle,
    RenderedFile,
    RenderRequest,
    RepositorySpec,
    SourceFolder,
)
from core.spec.source_signatures import Evidence, check_signatures
from core.spec.statements.attestation import AttestationStatement
from gitcache.domain import paths
from gitcache.domain.renders import RenderInputError, RenderJob
from gitcache.domain.trees import Entry
from gitcache.ports import (
    Bases,
    Charts,
    ContentStore,
    Decryptor,
    ImageRegistry,
    Memo,
    RenderWorkers,
    TreeReader,
)
from gitcache.render.plan import CommitRoot, PlanPart, RenderPlan
from gitcache.render.provenance import (
    collect_evidence,
    digest_of_values,
    make_statement,
    sources_of,
)
from gitcache.render.renderers import renderer_named
from gitcache.render.templates import TEMPLATE_SUFFIX
from gitcache.sync.files import read_contents
from gitcache.sync.image_evidence import ImageEvidence
from gitcache.sync.plans import RenderPlanner
from gitcache.sync.render_groups import RenderGroups
from gitcache.sync.signed_refs import SignedRefs

_FAILURE_SECONDS = 5.0
_MAX_FAILURES = 1000


class _Result(NamedTuple):
    """A stored result: the digest of its inputs, and its memo."""

    source: str
    memo: JsonMapping


@dataclass(frozen=True, slots=True)
class RenderPorts:
    """The ports of a render service; without `decryptor`, encrypted files stay encrypted, and
    without `signed_refs`, any commit is signed.
    """

    reader: TreeReader
    content: ContentStore
    memo: Memo
    workers: RenderWorkers
    charts: Charts
    images: ImageRegistry
    decryptor: Decryptor | None = None
    signed_refs: SignedRefs | None = None


class RenderService:
    """Renders once per digest of inputs, also across restarts.

    Caches failures for 5 s, so that a broken service on many clusters is rendered once.
    """

    def __init__(self, ports: RenderPorts, clock: Clock) -> None:
        self._ports = ports
        self._images = ImageEvidence(ports.content, ports.images)
        self._groups = RenderGroups(ports.memo)
        self._planner = RenderPlanner(
            ports.reader, ports.memo, ports.workers, ports.charts, ports.decryptor
        )
        self._clock = clock
        self._failures: TTLCache[str, str] = TTLCache(clock, _FAILURE_SECONDS, _MAX_FAILURES)
        self._flights: SingleFlight[str, _Result | None] = SingleFlight()

    async def render(
        self,
        spec: RepositorySpec,
        tree: str,
        request: RenderRequest,
        sources: Sequence[tuple[CommitRoot, SourceFolder]] = (),
        bases: Bases | None = None,
    ) -> tuple[RenderedBundle, AttestationStatement, Evidence]:
        """Renders a request; `tree` is the root tree of its commit. Raises Invalid, Unavailable.

        Invalid also for a source or image without a signature that the request's rules ask for,
        and for a commit of no branch or tag that is signed.

        The statement names the caller's own sources; equal inputs of another caller may have been
        rendered.

        A caller waits while another renders for the same group, as far as groups are known. Then
        it checks, by the parameters that were read, if the result is valid for it too.
        """
        plan = await self._planner.plan(CommitRoot(spec, tree), request, sources, bases)
        if self._ports.signed_refs is not None:
            await self._ports.signed_refs.check(plan.parts)
        ports, rules = self._ports, request.signatures
        evidence = await collect_evidence(ports.reader, ports.charts, ports.images, plan)
        check_signatures(rules.sources, sources_of(plan, evidence), evidence, self._clock.now())
        while True:
            if (stored := await self._stored_result(plan)) is not None:
                rendered = _rendered_bundle(plan, stored, cached=True)
                return await self._with_evidence(plan, rendered, stored, evidence)
            group_key = await self._groups.group_key(plan.static, request.parameters)
            attempt = _RenderAttempt(self, plan)
            result = await self._flights.once(group_key, attempt)
            if attempt.failure is not None:
                raise Invalid(attempt.failure)
            if attempt.has_run and result is not None:
                rendered = _rendered_bundle(plan, result, cached=False)
                return await self._with_evidence(plan, rendered, result, evidence)

    async def _with_evidence(
        self, plan: RenderPlan, rendered: RenderedBundle, result: _Result, evidence: Evidence
    ) -> tuple[RenderedBundle, AttestationStatement, Evidence]:
        rules, project = plan.request.signatures, plan.parts[0].spec.project
        evidence = await self._images.complete(rendered.digest, rules, project, evidence)
        return rendered, make_statement(plan, evidence, result.memo, result.source), evidence

    async def _stored_result(self, plan: RenderPlan) -> _Result | None:
        """Returns a stored result. Raises Invalid if rendering has just failed for these inputs."""
        for source in await self._groups.input_digests(plan.static, plan.request.parameters):
            memo = await self._ports.memo.get(source)
            if memo is not None and await self._is_stored(memo["digest"]):
                return _Result(source, memo)
            if (message := self._failures.get(source)) is not None:
                raise Invalid(message)
        return None

    async def _is_stored(self, digest: str) -> bool:
        """True if the bundle is stored; False also if the store is unavailable."""
        try:
            return await self._ports.content.get(digest) is not None
        except Unavailable:
            return False

    async def render_now(self, plan: RenderPlan) -> _Result:
        """Renders in a worker and stores the result. Raises Invalid for bad content."""
        parameters = plan.request.parameters
        try:
            result = await self._ports.workers.render(await self._render_job(plan))
        except Invalid as error:
            reads = error.reads if isinstance(error, RenderInputError) else ()
            await self._groups.store_reads(plan.static, reads)
            self._failures.put(plan.source(reads), error.message)
            raise
        digest = digest_of(result.data)
        await self._ports.content.put(digest, result.data)
        memo = {
            "digest": digest,
            "size": len(result.data),
            "count": result.count,
            "values": digest_of_values(plan, result.reads),
            "files": result.files,
        }
        source = await self._groups.store_result(plan.static, parameters, result.reads, memo)
        return _Result(source, memo)

    async def _render_job(self, plan: RenderPlan) -> RenderJob:
        files = await self._read_files(plan)
        archives = {f"{chart_folder}.tgz": chart_folder for chart_folder in plan.pins}
        for chart_folder, pin in plan.pins.items():
            files[f"{chart_folder}.tgz"] = await self._ports.charts.archive(pin)
        return RenderJob(
            plan.folder,
            plan.root,
            files,
            plan.request.templated,
            plan.settings,
            archives,
            plan.request.options,
            renderer=plan.renderer,
            parameters=plan.request.parameters,
        )

    async def _read_files(self, plan: RenderPlan) -> dict[str, bytes]:
        """Reads all files of a plan by their path for the renderer."""
        entries = {id(part): await self._part_entries(part) for part in plan.parts}
        files: dict[str, bytes] = {}
        for part in plan.parts:
            reachable: dict[str, Entry] = {}
            for sibling in plan.parts:
                if _commit_key(sibling) == _commit_key(part):
                    reachable |= entries[id(sibling)]
            needed = {
                path: entry
                for path, entry in entries[id(part)].items()
                if _is_needed(_render_path(part, path), plan)
            }
            contents = await read_contents(self._ports.reader, part.spec, needed, reachable)
            await self._decrypt_files(part.spec, contents)
            for path, data in contents.items():
                target = _render_path(part, path)
                if target in files:
                    raise Invalid(f"{target} comes from two sources; remove it from one of them")
                files[target] = data
        return files

    async def _decrypt_files(self, spec: RepositorySpec, files: dict[str, bytes]) -> None:
        """Decrypts encrypted files in place."""
        if (decryptor := self._ports.decryptor) is None:
            return
        for path in [name for name, data in files.items() if decryptor.is_encrypted(name, data)]:
            files[path] = await decryptor.decrypt(spec, path, files[path])

    async def _part_entries(self, part: PlanPart) -> Mapping[str, Entry]:
        """Lists the files of a part by their path in the part's repository."""
        if not part.entry.is_tree:
            return {part.path: part.entry}
        walked = await self._ports.reader.walk(part.spec, part.entry.id)
        return {paths.child(part.path, name): entry for name, entry in walked.items()}


class _RenderAttempt:
    """One attempt to render, by the first caller of a group.

    Only that caller gets a failure: others may have other parameters.
    """

    def __init__(self, renders: RenderService, plan: RenderPlan) -> None:
        self._renders = renders
        self._plan = plan
        self.has_run = False
        self.failure: str | None = None

    async def __call__(self) -> _Result | None:
        self.has_run = True
        try:
            return await self._renders.render_now(self._plan)
        except Invalid as error:
            self.failure = error.message
            return None


def _rendered_bundle(plan: RenderPlan, result: _Result, *, cached: bool) -> RenderedBundle:
    memo = result.memo
    pinned = (pin.origin for _, pin in sorted(plan.pins.items()))
    return RenderedBundle(
        result.source,
        memo["digest"],
        memo["size"],
        memo["count"],
        cached,
        tuple(plan.reads),
        charts=tuple(FetchedChart(origin.repository, origin.name) for origin in pinned),
        files=tuple(RenderedFile(*file) for file in memo.get("files", ())),
        bases=tuple(
            BaseFolder(base.origin.spec.url, path, base.ref)
            for base in plan.bases
            for path in base.reads
        ),
    )


def _commit_key(part: PlanPart) -> tuple[str, str, bool]:
    """Returns what a symbolic link must not leave: a commit."""
    return part.spec.id, part.commit, part.is_mounted


def _render_path(part: PlanPart, path: str) -> str:
    """Returns the path of a part's file for the renderer."""
    return paths.child(part.at, path.removeprefix(part.path).lstrip("/")).rstrip("/")


def _is_needed(path: str, plan: RenderPlan) -> bool:
    """True for files that the renderer may read."""
    return renderer_named(plan.renderer).may_read(path.removesuffix(TEMPLATE_SUFFIX), plan)
