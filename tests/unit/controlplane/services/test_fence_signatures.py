"""Signatures that fences of projects ask for: of sources, of images, and by whom."""

from dataclasses import replace

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.operations.projects import ProjectChange, Projects
from controlplane.authorization import DestinationRule, Fence, FenceSource, ImageRule, SourceRule
from controlplane.services.operations.fences import ServiceFences, fence_of_job
from core.errors import Forbidden, Invalid
from core.spec.image_signatures import ImageSignatureRule, SignatureRules
from core.spec.source_signatures import SignatureRule, SignerSet
from tests.fakes.actors import ADMIN
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, make_cluster, operations_over_memory

PROD = make_cluster("prod")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB2cbi5fHroMtyFnzWJUc7AcM5yP+/yRtAQppHPcyK3I"
KEYS = SignerSet("shop-keys", f"ada@example.org {KEY}")


@pytest.fixture
async def world() -> MemoryOperations:
    return operations_over_memory()


@pytest.fixture
def projects(world: MemoryOperations) -> Projects:
    return Projects(world.context, ServiceFences())


@pytest.mark.parametrize(
    ("fence", "field"),
    [
        (Fence(sources=(SourceRule("*", signed_by=("no",)),)), "fence.sources.signedBy"),
        (Fence(signers=(KEYS, KEYS)), "fence.signers"),
        (Fence(signers=(SignerSet("a b", KEY),)), "fence.signers.name"),
    ],
)
async def test_signers_of_a_fence_have_names(projects: Projects, fence: Fence, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        await projects.create(ADMIN, ProjectChange(name="bank", fence=fence))
    assert refused.value.field == field


@pytest.mark.parametrize("keys", ["", "# nothing", "ssh-ed25519 AAAA", "ada ssh-dss AAAA", "-"])
async def test_signers_of_a_fence_are_keys(projects: Projects, keys: str) -> None:
    fence = Fence(signers=(SignerSet("shop-keys", keys),))
    with pytest.raises(Invalid):
        await projects.create(ADMIN, ProjectChange(name="bank", fence=fence))


def test_a_fence_asks_for_signatures_of_the_sources_that_a_service_uses() -> None:
    fence = Fence(
        sources=(
            SourceRule("https://git/shop", refs=("main",), signed_by=("shop-keys",)),
            SourceRule("https://git/shop", refs=("dev",)),
            SourceRule("https://charts/*", charts=("redis",)),
        ),
        signers=(KEYS,),
    )
    chart = SignatureRule("https://charts/*", ("redis",))
    for ref, rules in (
        ("main", (SignatureRule("https://git/shop", signed_by=(KEYS,)), chart)),
        ("dev", (SignatureRule("https://git/shop"), chart)),
    ):
        found = fence.signature_rules([FenceSource("https://git/shop", "web", ref)])
        assert found == SignatureRules(rules)
    assert replace(fence, unrestricted=True).signature_rules([]) == SignatureRules()


def test_a_fence_asks_for_signatures_of_images() -> None:
    fence = Fence(
        images=(ImageRule("registry/shop/*", ("shop-keys",)), ImageRule("docker.io/library/*")),
        signers=(KEYS,),
    ).checked()
    assert fence.signature_rules([]).images == (
        ImageSignatureRule("registry/shop/*", (KEYS,)),
        ImageSignatureRule("docker.io/library/*"),
    )
    assert replace(fence, unrestricted=True).signature_rules([]) == SignatureRules()
    with pytest.raises(Invalid, match="known: shop-keys"):
        replace(fence, images=(ImageRule("*", ("other",)),)).checked()
    with pytest.raises(Invalid, match="is not a pattern"):
        replace(fence, images=(ImageRule("a?b"),)).checked()


def test_only_the_rules_that_allow_a_source_ask_for_its_signature() -> None:
    """A chart needs no signature of a commit; of equal rules there is one."""
    others = SignerSet("bank-keys", f"bob@example.org {KEY}")
    fence = Fence(
        sources=(
            SourceRule("https://git/shop", folders=("web",), signed_by=("shop-keys",)),
            SourceRule("https://git/*", folders=("api",), signed_by=("bank-keys", "shop-keys")),
            SourceRule("https://charts/*", charts=("redis",), signed_by=("shop-keys",)),
        ),
        signers=(KEYS, others),
    ).checked()
    chart = SignatureRule("https://charts/*", ("redis",), (KEYS,))

    def asked(*sources: FenceSource) -> tuple[SignatureRule, ...]:
        return fence.signature_rules(sources).sources

    web = FenceSource("https://git/shop", "web", "main")
    assert asked(web, replace(web, ref="v1")) == (
        SignatureRule("https://git/shop", signed_by=(KEYS,)),
        chart,
    )
    api = replace(web, folder="api")
    assert asked(api) == (SignatureRule("https://git/shop", signed_by=(others, KEYS)), chart)
    assert asked(FenceSource("https://charts/x", chart="redis")) == (chart,)
    assert asked(replace(web, folder="other")) == (chart,)


async def test_images_of_jobs_must_need_no_signature(world: MemoryOperations) -> None:
    images = (ImageRule("registry.test/*", ("shop-keys",)), ImageRule("docker.io/library/*"))
    fence = Fence(
        images=images, signers=(KEYS,), destinations=(DestinationRule(("*",), "", ("*",)),)
    )
    await world.given(Project("jobs", "jobs", START, START, fence=fence))
    async with world.context.store.read() as tx:
        for image, reason in (
            ("redis", ""),
            ("registry.test/check@sha256:" + "0" * 64, "it is not signed"),
            ("registry.test/check", "pin it by digest"),
            ("evil.test/check", "no image rule allows"),
        ):
            pod = {"spec": {"containers": [{"image": image}]}}
            if not reason:
                await fence_of_job(tx, "jobs", PROD, "shop", pod)
                continue
            with pytest.raises(Forbidden, match=reason):
                await fence_of_job(tx, "jobs", PROD, "shop", pod)
