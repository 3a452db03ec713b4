"""The chain from the commits of a service to its objects."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.access.model.bindings import Project
from controlplane.authorization import Fence, ImageRule, ResourceKind, SourceRule
from controlplane.pipelines.engine.codec import state_to_json
from controlplane.pipelines.model.records import PipelineRecord, PipelineService
from controlplane.pipelines.model.state import HistoryEntry, PipelineState, ReleaseId
from controlplane.pipelines.operations.provenance import (
    AgentCheck,
    Provenance,
    ProvenanceReports,
    ProvenanceStage,
    ProvenanceState,
)
from controlplane.services.model.service import Component, Revision, Service
from controlplane.services.ports import ComponentStore
from core.errors import NotFound
from core.signatures.artifact import ArtifactSignature
from core.signatures.commit import object_id
from core.spec.bundle import make_bundle
from core.spec.input_checks import CheckResult, InputCheck, InputKind, InputVerdict
from core.spec.source_signatures import Evidence, SignerSet
from core.spec.statements.attestation import AttestationStatement, SignedSource, Signer
from core.spec.statements.signing_keys import rotate
from gitcache.render.signing import RenderSigner
from tests.fakes.actors import ADMIN, NOBODY
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)
from tests.fakes.security_key import SecurityKey, with_signature
from towline.attestation_file import verify_envelope

ADA, EVE = SecurityKey(), SecurityKey()
TIER = Signer(Ed25519PrivateKey.generate())
DIGEST = "sha256:" + "a" * 64
CLUSTER, REPOSITORY = make_cluster("prod"), make_repository("shop")
KEYS = SignerSet("shop-keys", f"ada@example.org {ADA.line}")
RULE = SourceRule(REPOSITORY.url, signed_by=("shop-keys",))
FENCE = Fence(sources=(RULE,), signers=(KEYS,))
RELEASE, OLD = ReleaseId("rel"), ReleaseId("old")
UNSIGNED = (
    b"tree " + b"1" * 40 + b"\nauthor Ada <a@x> 1700000000 +0000\n"
    b"committer Ada <a@x> 1700000000 +0000\n\nchange\n"
)


def service_of(commit: bytes, digest: str = DIGEST) -> Service:
    """A service whose bundle the render tier made from a commit."""
    sha = object_id(commit)
    source = SignedSource(REPOSITORY.url, "web", sha, "d" * 40)
    attestation = TIER.sign(AttestationStatement(digest, (source,), "raw", "1"))
    attestation = replace(attestation, evidence=Evidence({sha: commit}).encode())
    service = make_service("web", CLUSTER, repository_id=REPOSITORY.id, project_id="shop")
    return service.changed(commit_sha=sha, digest=DIGEST, attestation=attestation, revision_id="r1")


async def chain(world: MemoryOperations, service: Service, fence: Fence = FENCE) -> Provenance:
    project = Project("shop", "shop", START, START, fence=fence)
    await world.given(CLUSTER, replace(REPOSITORY, project_id="shop"), project, service)
    if world.manifests.signer is None:
        world.manifests.signer = RenderSigner(TIER, world.clock)
    return await ProvenanceReports(world.context).of_service(ADMIN, service.id)


def link(found: Provenance, stage: ProvenanceStage) -> tuple[str, ProvenanceState, str]:
    (only,) = [each for each in found.links if each.stage is stage]
    return only.subject, only.state, only.detail


async def test_a_signer_of_the_fence_is_verified() -> None:
    signed = with_signature(UNSIGNED, ADA.sign(UNSIGNED))
    found = await chain(operations_over_memory(), service_of(signed))
    subject, state, _ = link(found, ProvenanceStage.SIGNER)
    assert subject.startswith("ada@example.org (ssh key SHA256:")
    assert state is ProvenanceState.VERIFIED
    assert object_id(signed) in link(found, ProvenanceStage.SOURCE)[0]
    assert TIER.key_id in link(found, ProvenanceStage.BUNDLE)[2]
    statement = verify_envelope(found.attestation.encode(), TIER.public_pem)
    assert statement.digest == DIGEST


@pytest.mark.parametrize(
    ("commit", "reason"),
    [
        (UNSIGNED, "is not signed"),
        (with_signature(UNSIGNED, EVE.sign(UNSIGNED)), "the signer is not allowed"),
        (with_signature(UNSIGNED, ADA.sign(b"another")), "is wrong"),
    ],
)
async def test_another_signer_fails_the_chain(commit: bytes, reason: str) -> None:
    found = await chain(operations_over_memory(), service_of(commit))
    _, state, detail = link(found, ProvenanceStage.SIGNER)
    assert state is ProvenanceState.FAILED
    assert reason in detail and "shop-keys (ada@example.org SHA256:" in detail


async def test_without_a_rule_a_signature_is_shown_and_not_claimed() -> None:
    signed = with_signature(UNSIGNED, ADA.sign(UNSIGNED))
    open_fence = Fence(unrestricted=True)
    found = await chain(operations_over_memory(), service_of(signed), open_fence)
    assert link(found, ProvenanceStage.SIGNER)[:2] == (
        "signed, not checked (ssh)",
        ProvenanceState.UNVERIFIED,
    )


async def test_a_commit_that_cannot_be_read_fails_the_chain() -> None:
    """Also where no rule asks for its signature."""
    late = UNSIGNED.replace(b"committer Ada <a@x> 1700000000", b"committer Ada <a@x> 999999999999")
    signed = with_signature(late, ADA.sign(late))
    found = await chain(operations_over_memory(), service_of(signed), Fence(unrestricted=True))
    _, state, detail = link(found, ProvenanceStage.SIGNER)
    assert state is ProvenanceState.FAILED and "999999999999" in detail


@pytest.mark.parametrize("signer", [TIER, Signer(Ed25519PrivateKey.generate())])
async def test_the_statement_is_verified_by_the_key_of_the_render_tier(signer: Signer) -> None:
    """A changed row of the database does not pass for what the tier signed."""
    world = operations_over_memory()
    world.manifests.signer = RenderSigner(signer, world.clock)
    found = await chain(world, service_of(UNSIGNED), Fence(unrestricted=True))
    _, state, detail = link(found, ProvenanceStage.BUNDLE)
    if signer is not TIER:
        assert state is ProvenanceState.FAILED
        assert TIER.key_id in detail and signer.key_id in detail
        return
    states = {each.stage: each.state for each in found.links}
    for stage in (ProvenanceStage.SOURCE, ProvenanceStage.RENDERER, ProvenanceStage.BUNDLE):
        assert states[stage] is ProvenanceState.VERIFIED


async def test_a_key_that_the_render_tier_replaced_still_verifies() -> None:
    world, new = operations_over_memory(), Signer(Ed25519PrivateKey.generate())
    world.manifests.signer = RenderSigner(new, world.clock, rotations=(rotate(TIER, new),))
    found = await chain(world, service_of(UNSIGNED), Fence(unrestricted=True))
    assert link(found, ProvenanceStage.BUNDLE)[1] is ProvenanceState.VERIFIED


async def test_a_statement_about_another_bundle_fails_the_chain() -> None:
    found = await chain(operations_over_memory(), service_of(UNSIGNED, "sha256:" + "b" * 64))
    assert link(found, ProvenanceStage.BUNDLE)[1] is ProvenanceState.FAILED


async def test_an_unsigned_bundle_has_no_verified_source() -> None:
    service = service_of(UNSIGNED).changed(attestation=None)
    found = await chain(operations_over_memory(), service)
    assert found.attestation == ""
    assert link(found, ProvenanceStage.SOURCE)[1] is ProvenanceState.UNVERIFIED


async def test_approvals_of_the_release_are_in_the_chain() -> None:
    world, service = operations_over_memory(), service_of(UNSIGNED)
    history = (
        HistoryEntry(START, "g", RELEASE, "approved: fine", "ann@example.org"),
        HistoryEntry(START, "g", RELEASE, "gate opened"),
        HistoryEntry(START, "g", OLD, "approved: no", "bob@example.org"),
    )
    state = state_to_json(PipelineState(history=history))
    revision = Revision(
        "r1", service.id, "s", "main", "web", DIGEST, "i", "a", "c", START, START, "p", RELEASE
    )
    await world.given(
        PipelineRecord("p", "rollout", START, START, state=state),
        PipelineService("ps", "p", service.id, promoted=True),
        revision,
    )
    subject, _, detail = link(await chain(world, service), ProvenanceStage.APPROVAL)
    assert (subject, "rollout: approved: fine" in detail) == ("ann@example.org", True)


async def test_objects_of_the_chain_are_ordered_by_kind_and_name() -> None:
    world, service = operations_over_memory(), service_of(UNSIGNED)
    web = Component(
        "3", service.id, CLUSTER.id, "apps", "v1", "Deployment", "a", "web", "u1", "", None, "",
        True, (), START,
    )  # fmt: skip
    rows = [
        web,
        replace(web, id="1", kind="Service", uid="u2"),
        replace(web, id="2", kind="Service", namespace="b", name="api", uid="u3"),
    ]
    async with world.store.write() as tx:
        await tx[ComponentStore].upsert(rows)
    found = await chain(world, service)
    objects = [link.subject for link in found.links if link.stage is ProvenanceStage.OBJECT]
    assert objects == ["Deployment a/web", "Service a/web", "Service b/api"]


async def test_a_chain_needs_the_right_to_read_the_service() -> None:
    world = operations_over_memory()
    service = service_of(UNSIGNED)
    await chain(world, service)
    for actor, id in ((NOBODY, service.id), (ADMIN, "none")):
        with pytest.raises(NotFound) as refused:
            await ProvenanceReports(world.context).of_service(actor, id)
        assert refused.value.kind == ResourceKind.SERVICE


async def test_images_are_shown_with_their_signers() -> None:
    made = json.loads((Path(__file__).parents[2] / "core/cosign_signature.json").read_text())
    payload = made["payload"].encode()
    digest = json.loads(payload)["critical"]["image"]["docker-manifest-digest"]
    images = {
        f"registry.test/shop/web@{digest}": ProvenanceState.VERIFIED,
        f"registry.test/shop/web@sha256:{'0' * 64}": ProvenanceState.FAILED,
        "redis:8": ProvenanceState.UNVERIFIED,
    }
    pod = {"spec": {"containers": [{"image": image} for image in images]}}
    bundle = make_bundle([pod])
    world = operations_over_memory()
    world.manifests.bundles[bundle.digest] = bundle
    signed = ArtifactSignature(b"", payload, base64.b64decode(made["signature"]))
    attestation = TIER.sign(AttestationStatement(bundle.digest, (), "raw", "1"))
    attestation = replace(attestation, evidence=Evidence(artifacts=(signed,)).encode())
    service = service_of(UNSIGNED).changed(digest=bundle.digest, attestation=attestation)
    rules = (ImageRule("registry.test/*", ("shop-cosign",)), ImageRule("docker.io/library/*"))
    keys = SignerSet("shop-cosign", made["key"])
    found = await chain(world, service, Fence(images=rules, signers=(keys,)))
    links = [each for each in found.links if each.stage is ProvenanceStage.IMAGE]
    assert {each.subject: each.state for each in links} == images
    details = " ".join(each.detail for each in links)
    assert "signed by a key without a name (cosign key sha256:" in details
    assert "it is not signed" in details and "asks for no signature" in details


def told(service: Service, *checks: InputCheck, digest: str = DIGEST) -> Service:
    """The service after its agent reported checks of a bundle."""
    return service.changed(inputs=InputVerdict(digest, START, checks))


async def test_the_agents_own_checks_stand_beside_those_of_the_control_plane() -> None:
    signed = with_signature(UNSIGNED, ADA.sign(UNSIGNED))
    service, sha = service_of(signed), object_id(signed)
    source = f"commit {sha} of {REPOSITORY.url}, web"
    checks = (
        InputCheck(InputKind.BUNDLE, DIGEST, CheckResult.VERIFIED, "signed by the key k"),
        InputCheck(InputKind.SOURCE, source, CheckResult.UNVERIFIED, "no rule"),
    )
    found = await chain(operations_over_memory(), told(service, *checks))
    agents = {each.stage: each.agent for each in found.links if each.agent is not None}
    assert agents == {
        ProvenanceStage.BUNDLE: AgentCheck(ProvenanceState.VERIFIED, "signed by the key k", START),
        ProvenanceStage.SIGNER: AgentCheck(ProvenanceState.UNVERIFIED, "no rule", START),
    }
    assert link(found, ProvenanceStage.SIGNER)[1] is ProvenanceState.VERIFIED


async def test_checks_of_another_bundle_say_nothing_about_this_one() -> None:
    check = InputCheck(InputKind.BUNDLE, DIGEST, CheckResult.REFUSED, "unsigned")
    service = told(service_of(UNSIGNED), check, digest="sha256:" + "b" * 64)
    found = await chain(operations_over_memory(), service)
    assert [each.agent for each in found.links if each.agent is not None] == []
    assert link(found, ProvenanceStage.AGENT)[1] is not ProvenanceState.FAILED


async def test_a_refusal_of_the_agent_fails_the_chain() -> None:
    check = InputCheck(InputKind.BUNDLE, DIGEST, CheckResult.REFUSED, "unknown key")
    found = await chain(operations_over_memory(), told(service_of(UNSIGNED), check))
    _, state, detail = link(found, ProvenanceStage.AGENT)
    assert (state, detail) == (ProvenanceState.FAILED, "refuses this bundle: unknown key")
