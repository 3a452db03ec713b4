"""The provenance of a service: the chain from the commits to the objects in the cluster."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from controlplane.authorization import Actor, Verb, require
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.pipelines.engine import codec
from controlplane.pipelines.ports import PipelineServiceStore, PipelineStore
from controlplane.platform.context import ContextOperations
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Component, Revision, Service
from controlplane.services.operations.bundle_images import images_of_bundle
from controlplane.services.operations.fences import fenced_services
from controlplane.services.operations.lookup import find_service
from controlplane.services.ports import ComponentStore, RevisionStore
from core.errors import Invalid, Unavailable
from core.signatures.commit import read_commit
from core.signatures.trusted import method_of
from core.spec.image_signatures import ImageSignatureRule, check_images
from core.spec.input_checks import CheckResult, InputKind, InputVerdict
from core.spec.source_signatures import Evidence, SignatureRule, check_signatures, decode_evidence
from core.spec.statements.attestation import SignedSource, TrustedKeys, decode_statement
from core.spec.statements.in_toto import envelope
from core.spec.statements.signing_keys import former_keys, public_key

_MAX_APPROVALS = 50
_MAX_IMAGES = 100
_IN_STATEMENT = "named in the signed statement"


class ProvenanceStage(StrEnum):
    """Links of the chain, from the sources to the objects."""

    SOURCE = "SOURCE"
    """A commit or a chart."""
    SIGNER = "SIGNER"
    """Signer of a source."""
    RENDERER = "RENDERER"
    """Renderer and the version of its tool."""
    BUNDLE = "BUNDLE"
    """Rendered bundle and the key that signed its statement."""
    IMAGE = "IMAGE"
    """Container image that the bundle names, and its signer."""
    APPROVAL = "APPROVAL"
    """Decision of a user about the release."""
    AGENT = "AGENT"
    """Agent that applies the bundle."""
    OBJECT = "OBJECT"
    """Objects in the cluster."""


class ProvenanceState(StrEnum):
    """Result of the check of a link."""

    VERIFIED = "VERIFIED"
    """The link was checked, and holds."""
    UNVERIFIED = "UNVERIFIED"
    """Nothing requires or permits a check."""
    FAILED = "FAILED"
    """The link was checked, and does not hold."""


_STATES = {
    CheckResult.VERIFIED: ProvenanceState.VERIFIED,
    CheckResult.UNVERIFIED: ProvenanceState.UNVERIFIED,
    CheckResult.REFUSED: ProvenanceState.FAILED,
}


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """Result of the agent's own check of a link, by its own keys and rules."""

    state: ProvenanceState
    """Result of the check."""
    detail: str
    """Reason of the result, for people."""
    at: datetime
    """Time of the first check with this result, by the agent's clock."""


@dataclass(frozen=True, slots=True)
class ProvenanceLink:
    """A link of the chain."""

    stage: ProvenanceStage
    """Kind of the link."""
    subject: str
    """Commit, signer, renderer, digest, user, agent or object."""
    state: ProvenanceState
    """Result of its check."""
    detail: str = ""
    """Reason of the state, for people."""
    agent: AgentCheck | None = None
    """Check of the bundle, signer or image by the agent itself. None: it has reported none."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The chain of a service's desired bundle, and its attestation."""

    service: Service
    links: tuple[ProvenanceLink, ...]
    """Links, from the sources to the objects."""
    attestation: str
    """Attestation as a DSSE envelope with an in-toto statement. Empty: the bundle is unsigned."""


class ProvenanceReports(ContextOperations):
    """Shows where the objects of a service come from."""

    async def of_service(self, actor: Actor, id: str) -> Provenance:
        """The chain of a service. NotFound, Forbidden."""
        async with self._context.read(actor) as tx:
            service = await find_service(tx, id)
            require(actor, Verb.READ, service.target)
            (fenced_service,) = await fenced_services(tx, [service])
            revision = await tx[RevisionStore].get(service.desired.revision_id or "")
            approvals = [link async for link in _approvals(tx, actor, service, revision)]
            cluster = await tx[ClusterStore].get(service.cluster_id)
            components = await tx[ComponentStore].of_services([service.id])
        keys = await self._signing_keys()
        links = [
            *self._source_links(service, fenced_service.signatures.sources, keys),
            *await self._image_links(service, fenced_service.signatures.images),
            *approvals,
            *_cluster_links(service, cluster, components),
        ]
        attestation = service.desired.attestation
        signed_attestation = envelope(attestation).decode() if attestation is not None else ""
        return Provenance(service, tuple(links), signed_attestation)

    async def _signing_keys(self) -> TrustedKeys | None:
        """The keys of the render tier; None: it cannot be asked now."""
        try:
            identity = await self._context.manifests.signing_identity()
        except Unavailable:
            return None
        keys = TrustedKeys(())
        keys.pin(public_key(identity.public_key), former_keys(identity.rotations))
        return keys

    def _source_links(
        self, service: Service, rules: tuple[SignatureRule, ...], keys: TrustedKeys | None
    ) -> Iterator[ProvenanceLink]:
        attestation, digest = service.desired.attestation, service.desired.digest or ""
        agent_checks = _AgentChecks.of(service)

        def bundle_link(state: ProvenanceState, detail: str) -> ProvenanceLink:
            agent = agent_checks.find(InputKind.BUNDLE, digest)
            return ProvenanceLink(ProvenanceStage.BUNDLE, digest, state, detail, agent)

        if attestation is None:
            subject, state = service.desired.commit_sha or "unknown", ProvenanceState.UNVERIFIED
            unsigned = "the render tier has not signed the bundle"
            yield ProvenanceLink(ProvenanceStage.SOURCE, subject, state, unsigned)
            yield bundle_link(state, unsigned)
            return
        try:
            statement = decode_statement(attestation.statement)
            if keys is not None:
                keys.verify(digest, attestation)
            evidence = decode_evidence(attestation.evidence)
        except Invalid as error:
            yield bundle_link(ProvenanceState.FAILED, error.message)
            return
        state = ProvenanceState.UNVERIFIED if keys is None else ProvenanceState.VERIFIED
        for source in statement.sources:
            yield ProvenanceLink(ProvenanceStage.SOURCE, str(source), state, _IN_STATEMENT)
            agent = agent_checks.find(InputKind.SOURCE, str(source))
            yield replace(self._signer_link(rules, source, evidence), agent=agent)
        renderer = f"{statement.renderer} {statement.tool}".strip() or "none"
        yield ProvenanceLink(ProvenanceStage.RENDERER, renderer, state, _IN_STATEMENT)
        if statement.digest == digest:
            yield bundle_link(state, f"signed by the key {attestation.key_id}")
        else:
            yield bundle_link(ProvenanceState.FAILED, f"the statement is about {statement.digest}")

    async def _image_links(
        self, service: Service, rules: tuple[ImageSignatureRule, ...]
    ) -> list[ProvenanceLink]:
        """The images of the bundle; none while it is not stored."""
        images = await images_of_bundle(self._context, service)
        agent_checks = _AgentChecks.of(service)
        return [
            replace(
                _image_link(image, rules, images.evidence),
                agent=agent_checks.find(InputKind.IMAGE, image),
            )
            for image in images.names[:_MAX_IMAGES]
        ]

    def _signer_link(
        self, rules: tuple[SignatureRule, ...], source: SignedSource, evidence: Evidence
    ) -> ProvenanceLink:
        stage = ProvenanceStage.SIGNER
        try:
            signers = check_signatures(rules, [source], evidence, self._context.clock.now())
            signature = _unverified_signature(source, evidence)
        except Invalid as error:
            return ProvenanceLink(stage, "refused", ProvenanceState.FAILED, error.message)
        if signer := signers.get(source):
            return ProvenanceLink(stage, str(signer), ProvenanceState.VERIFIED, "")
        reason = "the project's fence asks for no signature"
        return ProvenanceLink(stage, signature, ProvenanceState.UNVERIFIED, reason)


@dataclass(frozen=True, slots=True)
class _AgentChecks:
    """The agent's checks of the desired bundle; those of another bundle say nothing about it."""

    verdict: InputVerdict | None

    @classmethod
    def of(cls, service: Service) -> "_AgentChecks":
        verdict = service.observed.inputs
        is_current = verdict is not None and verdict.digest == service.desired.digest
        return cls(verdict if is_current else None)

    @property
    def refusal(self) -> str:
        """The reason of the agent's refusal; empty: it refuses nothing."""
        checks = self.verdict.checks if self.verdict is not None else ()
        refused = (check for check in checks if check.result is CheckResult.REFUSED)
        return next((f"refuses this bundle: {check.reason}" for check in refused), "")

    def find(self, kind: InputKind, subject: str) -> AgentCheck | None:
        check = self.verdict.find_check(kind, subject) if self.verdict is not None else None
        if self.verdict is None or check is None:
            return None
        return AgentCheck(_STATES[check.result], check.reason, self.verdict.at)


def _image_link(
    image: str, rules: tuple[ImageSignatureRule, ...], evidence: Evidence
) -> ProvenanceLink:
    stage = ProvenanceStage.IMAGE
    try:
        signer = check_images(rules, [image], evidence).get(image)
    except Invalid as error:
        return ProvenanceLink(stage, image, ProvenanceState.FAILED, error.message)
    if signer is None:
        reason = "the project's fence asks for no signature"
        return ProvenanceLink(stage, image, ProvenanceState.UNVERIFIED, reason)
    return ProvenanceLink(stage, image, ProvenanceState.VERIFIED, f"signed by {signer}")


def _unverified_signature(source: SignedSource, evidence: Evidence) -> str:
    data = evidence.commits.get(source.revision)
    if data is None:
        return "not signed"
    armor = read_commit(source.revision, data).armor
    return f"signed, not checked ({method_of(armor)})"


async def _approvals(
    tx: Transaction, actor: Actor, service: Service, revision: Revision | None
) -> AsyncIterator[ProvenanceLink]:
    """The decisions about the release of the desired bundle, in readable pipelines."""
    if revision is None or revision.release_id is None:
        return
    rows = await tx[PipelineServiceStore].of_services([service.id])
    for record in await tx[PipelineStore].by_ids({row.pipeline_id for row in rows}):
        if not actor.may(Verb.READ, record.target):
            continue
        history = codec.state_from_json(record.state).history
        decisions = [e for e in history if e.actor and e.release == revision.release_id]
        for entry in decisions[:_MAX_APPROVALS]:
            yield ProvenanceLink(
                ProvenanceStage.APPROVAL,
                entry.actor,
                ProvenanceState.VERIFIED,
                f"{record.name}: {entry.text} ({entry.at:%Y-%m-%d %H:%M} UTC)",
            )


def _cluster_links(
    service: Service, cluster: Cluster | None, components: list[Component]
) -> Iterator[ProvenanceLink]:
    is_applied = service.observed.observed_generation == service.desired.generation
    refusal = _AgentChecks.of(service).refusal
    agent = f"agent {cluster.agent_version or '?'} of {cluster.handle}" if cluster else "no cluster"
    yield ProvenanceLink(
        ProvenanceStage.AGENT,
        agent,
        ProvenanceState.FAILED if refusal else _verified_if(is_applied),
        refusal or ("reports this bundle" if is_applied else "has not reported this bundle yet"),
    )
    for component in sorted(components, key=_object_key):
        if component.owner_uid:
            continue
        prefix = f"{component.namespace}/" if component.namespace else ""
        yield ProvenanceLink(
            ProvenanceStage.OBJECT,
            f"{component.kind} {prefix}{component.name}",
            _verified_if(component.synced),
            component.hash or ("as desired" if component.synced else "differs from the bundle"),
        )


def _verified_if(is_verified: bool) -> ProvenanceState:
    return ProvenanceState.VERIFIED if is_verified else ProvenanceState.UNVERIFIED


def _object_key(component: Component) -> tuple[str, str, str]:
    return component.kind, component.namespace, component.name
