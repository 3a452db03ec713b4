"""The decisions of a fence about one service, for people."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.access.model.bindings import Project
from controlplane.authorization import DestinationRule, Fence, ImageRule, SourceRule
from controlplane.services.operations.fence_reports import FenceReport, FenceReports
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import Attestation, make_bundle
from core.spec.source_signatures import Evidence, SignerSet
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

MADE = json.loads((Path(__file__).parents[2] / "core/cosign_signature.json").read_text())
PAYLOAD = MADE["payload"].encode()
SIGNED = json.loads(PAYLOAD)["critical"]["image"]["docker-manifest-digest"]
PROD, REPOSITORY = make_cluster("prod"), make_repository("shop", project_id="shop")
WEB_SERVICE = make_service("web", PROD, repository_id=REPOSITORY.id, project_id="shop")
WEB = f"registry.test/shop/web@{SIGNED}"
OTHER = f"registry.test/shop/web@sha256:{'0' * 64}"
FENCE = Fence(
    sources=(SourceRule(REPOSITORY.url, folders=("web",)),),
    destinations=(DestinationRule(("web",), "web:deployer", clusters=("prod",)),),
    images=(ImageRule("registry.test/*", ("shop-cosign",)), ImageRule("docker.io/library/*")),
    signers=(SignerSet("shop-cosign", MADE["key"]),),
)


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


async def report(world: MemoryOperations, fence: Fence, *images: str) -> FenceReport:
    """The report about a service of project shop whose bundle names these images."""
    bundle = make_bundle([{"spec": {"containers": [{"image": image} for image in images]}}])
    world.manifests.bundles[bundle.digest] = bundle
    signature = ArtifactSignature(b"", PAYLOAD, base64.b64decode(MADE["signature"]))
    evidence = Evidence(artifacts=(signature,)).encode()
    service = WEB_SERVICE.changed(
        folder="web",
        digest=bundle.digest,
        attestation=replace(Attestation("", b"", b""), evidence=evidence),
        render_error="chart not found",
    )
    project = Project("shop", "shop", START, START, fence=fence)
    await world.given(PROD, REPOSITORY, project, replace(service, namespace="web"))
    return await FenceReports(world.context).of_service(ADMIN, service.id)


async def test_each_source_destination_and_image_names_its_rule(world: MemoryOperations) -> None:
    found = await report(world, FENCE, WEB, "redis:8", OTHER, WEB, "quay.io/x/y", "a b")
    signed = "image rule registry.test/*, signed by shop-cosign"
    rules = [(check.subject.removeprefix("image "), check.rule) for check in found.checks]
    assert rules[0][1] == f"source rule {REPOSITORY.url}"
    assert rules[1] == ("namespace web of cluster prod", "destination rule prod")
    assert rules[2:] == [
        (WEB, signed),
        ("redis:8", "image rule docker.io/library/*"),
        (OTHER, signed),
        ("quay.io/x/y", ""),
        ("a b", ""),
    ]
    *allowed, unsigned, unknown, malformed = [check.refusal for check in found.checks]
    assert allowed == [""] * 4
    assert "it is not signed" in unsigned and "shop-cosign (cosign key" in unsigned
    assert unknown == "no image rule allows quay.io/x/y"
    assert "not the name of an image" in malformed
    assert (found.service_account, found.render_error) == ("web:deployer", "chart not found")


async def test_an_image_by_tag_needs_a_digest_where_a_signature_is_needed(
    world: MemoryOperations,
) -> None:
    found = await report(world, FENCE, "registry.test/shop/web:1")
    assert "pin it by digest" in found.checks[-1].refusal


@pytest.mark.parametrize(
    ("fence", "rule"),
    [
        (replace(FENCE, images=()), "the fence has no image rules"),
        (Fence(unrestricted=True), "the fence has no image rules"),
        (replace(FENCE, images=(*FENCE.images, ImageRule("*"))), "image rule *"),
    ],
)
async def test_an_image_that_needs_no_signature_is_allowed(
    world: MemoryOperations, fence: Fence, rule: str
) -> None:
    found = await report(world, fence, OTHER)
    assert (found.checks[-1].rule, found.checks[-1].refusal) == (rule, "")
    assert not any(check.refusal for check in found.checks)


async def test_what_no_rule_allows_has_no_rule(world: MemoryOperations) -> None:
    found = await report(world, Fence(), OTHER)
    assert [bool(check.refusal) for check in found.checks] == [True, True, False]
    assert [check.rule for check in found.checks][:2] == ["", ""]


async def test_without_the_bundle_images_are_unknown(world: MemoryOperations) -> None:
    found = await report(world, FENCE, WEB)
    world.manifests.bundles.clear()
    again = await FenceReports(world.context).of_service(ADMIN, WEB_SERVICE.id)
    assert len(found.checks) == 3 and len(again.checks) == 2
