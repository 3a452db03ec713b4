"""Signatures of container images in a real registry: rendered, and checked again by the agent."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core.errors import Invalid
from core.json_object import JsonObject
from core.runtime.clock import SystemClock
from core.signatures.artifact import ArtifactSignature
from core.spec.bundle import Attestation
from core.spec.image_signatures import ImageSignatureRule, SignatureRules, check_images
from core.spec.source import GitCredentials, RenderRequest, RepositoryKind
from core.spec.source_signatures import SignerSet, decode_evidence
from gitcache.charts.cosign import (
    CERTIFICATE_ANNOTATION,
    ENTRY_ANNOTATION,
    PAYLOAD_MEDIA_TYPE,
    SIGNATURE_ANNOTATION,
    referrers_tag,
)
from gitcache.sync.cache import GitCache
from tests.fakes.sigstore import WORKFLOW, FakeSigstore
from tests.integration.gitcache.stand import REPOSITORY, at_commit, spec
from tests.servers.registry import PASSWORD, USER, Registry, find_registry
from towline.demo.git_server import GitServer

NOW = SystemClock().now()
KEY = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    program = find_registry()
    if program is None:
        pytest.skip("no docker-registry on this machine: your system's package manager has it")
    with Registry(program) as running:
        yield running


def signer_set(key: ec.EllipticCurvePrivateKey) -> SignerSet:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return SignerSet("shop-cosign", pem.decode())


def sign(registry: Registry, name: str, digest: str, key: ec.EllipticCurvePrivateKey) -> None:
    """Signs an image as cosign does: with a payload and its signature beside the image."""
    critical = {
        "identity": {"docker-reference": f"{registry.host}/{name}"},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    payload = json.dumps({"critical": critical, "optional": None}).encode()
    signature = base64.b64encode(key.sign(payload, ec.ECDSA(hashes.SHA256()))).decode()
    layer = {"mediaType": PAYLOAD_MEDIA_TYPE, "annotations": {SIGNATURE_ANNOTATION: signature}}
    registry.store(name, f"{referrers_tag(digest)}.sig", [(layer, payload)])


class ImageShop:
    """A repository with one pod, and the rules of its fence."""

    def __init__(self, cache: GitCache, server: GitServer, registry: Registry) -> None:
        self.cache, self.registry = cache, registry
        self.served = server.create_repository("shop")
        self.rules: tuple[ImageSignatureRule, ...] = (
            ImageSignatureRule(f"{registry.host}/shop/*", (signer_set(KEY),)),
            ImageSignatureRule("docker.io/library/*"),
        )
        account = GitCredentials(username=USER, password=PASSWORD)
        cache.follow(spec(self.served.url))
        place = spec(f"oci://{registry.host}", repository_id="images", credentials=account)
        cache.follow(replace(place, refs=frozenset(), kind=RepositoryKind.HELM))

    async def render(self, *images: str) -> Attestation:
        """Renders a pod with these images; returns the attestation."""
        containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
        pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
        sha = self.served.commit(
            {"app/pod.yaml": json.dumps(pod | {"spec": {"containers": containers}})}
        )
        await at_commit(self.cache, sha)
        rules = SignatureRules(images=self.rules)
        rendered = await self.cache.render(RenderRequest(REPOSITORY, sha, "app", signatures=rules))
        assert rendered.attestation is not None
        return rendered.attestation


@pytest.fixture
def shop(cache: GitCache, git_server: GitServer, registry: Registry) -> ImageShop:
    return ImageShop(cache, git_server, registry)


@pytest.mark.parametrize("index", [False, True])
async def test_signed_and_pinned_images_are_rendered_with_their_evidence(
    shop: ImageShop, registry: Registry, *, index: bool
) -> None:
    name = f"shop/web{int(index)}"
    digest = registry.push(name, "1", NOW, index=index)
    image = f"{registry.host}/{name}:1@{digest}"
    with pytest.raises(Invalid, match="it is not signed") as refused:
        await shop.render(image)
    assert "shop-cosign (cosign key sha256:" in refused.value.message
    other = registry.push(f"{name}-signed", "1", NOW, index=index)
    sign(registry, f"{name}-signed", other, KEY)
    image = f"{registry.host}/{name}-signed:1@{other}"
    attestation = await shop.render(image, "redis:8")
    evidence = decode_evidence(attestation.evidence)
    assert list(check_images(shop.rules, [image], evidence)) == [image]


@pytest.mark.parametrize("form", ["annotations", "referrers"])
async def test_keyless_signatures_are_read_in_both_forms_of_cosign(
    shop: ImageShop, registry: Registry, form: str
) -> None:
    sigstore, name = FakeSigstore(), f"shop/{form}"
    shop.rules = (ImageSignatureRule("*", (SignerSet("ci", sigstore.text()),)),)
    digest = registry.push(name, "1", NOW)
    if form == "annotations":
        signed, certificate = sigstore.sign(digest, signer := sigstore.certify()), signer.pem
        layer = {"mediaType": PAYLOAD_MEDIA_TYPE, "annotations": annotations(signed, certificate)}
        registry.store(name, f"{referrers_tag(digest)}.sig", [(layer, signed.payload)])
    else:
        media_type = "application/vnd.dev.sigstore.bundle.v0.3+json"
        bundle = sigstore.attest(digest).bundle
        made = registry.store(name, "bundle", [({"mediaType": media_type}, bundle)])
        registry.refer(name, referrers_tag(digest), made, media_type)
    image = f"{registry.host}/{name}@{digest}"
    evidence = decode_evidence((await shop.render(image)).evidence)
    (signer_found,) = check_images(shop.rules, [image], evidence).values()
    assert (signer_found.name, signer_found.method) == (WORKFLOW, "keyless")


def annotations(signed: ArtifactSignature, certificate: str) -> dict[str, str]:
    """The annotations of cosign before version 3."""
    entry = json.loads(signed.bundle)["verificationMaterial"]["tlogEntries"][0]
    payload = {
        "body": entry["canonicalizedBody"],
        "integratedTime": int(entry["integratedTime"]),
        "logIndex": int(entry["logIndex"]),
        "logID": base64.b64decode(entry["logId"]["keyId"]).hex(),
    }
    promise = entry["inclusionPromise"]["signedEntryTimestamp"]
    return {
        SIGNATURE_ANNOTATION: base64.b64encode(signed.signature).decode(),
        CERTIFICATE_ANNOTATION: certificate,
        ENTRY_ANNOTATION: json.dumps({"SignedEntryTimestamp": promise, "Payload": payload}),
    }


async def test_images_of_tags_are_refused_with_the_digest_to_pin(
    shop: ImageShop, registry: Registry
) -> None:
    digest = registry.push("shop/tagged", "2", NOW)
    sign(registry, "shop/tagged", digest, KEY)
    image = f"{registry.host}/shop/tagged:2"
    with pytest.raises(Invalid, match=f"pin it by digest: {image}@{digest}"):
        await shop.render(image)


async def test_images_of_others_are_refused(shop: ImageShop, registry: Registry) -> None:
    digest = registry.push("shop/foreign", "1", NOW)
    sign(registry, "shop/foreign", digest, ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(Invalid, match="the signer is not allowed"):
        await shop.render(f"{registry.host}/shop/foreign@{digest}")
    with pytest.raises(Invalid, match="no image rule allows"):
        await shop.render(f"{registry.host}/bank/web@{digest}")
