"""Inputs of a render for its signed statement."""

from collections.abc import Iterator, Mapping

from core.errors import Invalid
from core.json_object import JsonMapping
from core.remotes import source_url as normal_url
from core.signatures.artifact import ArtifactSignature
from core.signatures.commit import MAX_COMMIT_BYTES
from core.spec.images import ImageName
from core.spec.renderers import HELM, RenderOptions
from core.spec.source import RepositoryKind, RepositorySpec
from core.spec.source_signatures import (
    Evidence,
    needs_artifact_signatures,
    needs_chart_signatures,
)
from core.spec.statements.attestation import AttestationStatement, SignedSource
from gitcache.domain.artifacts import digest_of_commit
from gitcache.domain.inputs import digest_of_json
from gitcache.domain.parameters import read_values
from gitcache.domain.references import Reads
from gitcache.ports import Charts, ImageRegistry, TreeReader
from gitcache.render.plan import PlanPart, RenderPlan

# Facts of the cluster, which Helm compares with the requirements of a chart.
_CAPABILITIES = (["cluster", "currentVersion"], ["cluster", "apiVersions"])


async def collect_evidence(
    reader: TreeReader, charts: Charts, images: ImageRegistry, plan: RenderPlan
) -> Evidence:
    """Reads the objects of all commits of a render, and signatures of its charts and artifacts
    if a rule asks for them. Raises Unavailable.
    """
    commits = {}
    for part in plan.parts:
        data = await reader.commit_object(part.spec, part.commit)
        if data is not None and len(data) <= MAX_COMMIT_BYTES:
            commits[part.commit] = data
    signatures: list[ArtifactSignature] = []
    rules = plan.request.signatures.sources
    if needs_artifact_signatures(rules):
        for spec, digest in _artifacts(plan, commits):
            host, _, name = spec.url.removeprefix("oci://").partition("/")
            image = ImageName(host, name.strip("/"), digest=digest)
            signatures += await images.signatures(image, spec.project)
    if needs_chart_signatures(rules):
        for pin in plan.pins.values():
            signatures += await charts.signatures(pin)
    return Evidence(commits, tuple(signatures))


def make_statement(
    plan: RenderPlan, evidence: Evidence, rendered: JsonMapping, inputs: str
) -> AttestationStatement:
    """Makes the statement about a stored result, whose memo is `rendered`."""
    return AttestationStatement(
        digest=rendered["digest"],
        sources=tuple(sources_of(plan, evidence)),
        renderer=plan.renderer,
        tool=plan.tool_version,
        inputs=inputs,
        values=rendered["values"],
    )


def digest_of_values(plan: RenderPlan, reads: Reads) -> str:
    """Digests the API's values in a render that read these parameters; empty: none."""
    is_helm = plan.renderer == HELM
    read = [list(path) for path in reads if not is_helm or list(path) not in _CAPABILITIES]
    inline = (plan.request.helm.values or "") if is_helm and plan.request.helm else ""
    options = plan.request.options
    if not read and not inline and options == RenderOptions():
        return ""
    parameters = read_values(plan.request.parameters, read)
    return digest_of_json({"helm": inline, "options": options.to_json(), "parameters": parameters})


def sources_of(plan: RenderPlan, evidence: Evidence) -> Iterator[SignedSource]:
    """Yields everything that a render reads, the service's own folder first.

    The evidence tells the digests of artifacts. Raises Invalid without the commit of one.
    """
    for part in _ordered_parts(plan):
        revision = part.commit
        if part.spec.kind is RepositoryKind.OCI:
            revision = _manifest_digest(part, evidence.commits)
        yield SignedSource(source_url(part.spec), part.path, revision, part.entry.id)
    for _, pin in sorted(plan.pins.items()):
        yield SignedSource(pin.origin.repository, pin.name, pin.version, pin.digest)


def _artifacts(
    plan: RenderPlan, commits: Mapping[str, bytes]
) -> Iterator[tuple[RepositorySpec, str]]:
    """Yields repository and digest of each artifact that a render reads."""
    parts = [part for part in plan.parts if part.spec.kind is RepositoryKind.OCI]
    digests = {
        (part.spec.url, part.commit): (part.spec, _manifest_digest(part, commits)) for part in parts
    }
    yield from digests.values()


def _manifest_digest(part: PlanPart, commits: Mapping[str, bytes]) -> str:
    digest = digest_of_commit(commits.get(part.commit, b""))
    if not digest:
        raise Invalid(f"commit {part.commit[:12]} of {part.spec.url} names no artifact")
    return digest


def _ordered_parts(plan: RenderPlan) -> list[PlanPart]:
    """Returns the parts without a chart repository's folder: the pinned chart covers it."""
    parts = [
        part
        for part in plan.parts
        if part.is_mounted or not plan.pins or part.spec.kind is not RepositoryKind.HELM
    ]
    return sorted(
        parts, key=lambda part: (part.is_mounted, part.path != plan.folder, part.spec.url, part.at)
    )


def source_url(spec: RepositorySpec) -> str:
    """Returns the URL of a repository in a signed statement."""
    return normal_url(spec.url) if spec.kind.has_folders else spec.url
