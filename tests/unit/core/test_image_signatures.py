"""Images of rendered objects: names, the places where pods name them, and required signatures."""

import base64
import json
from pathlib import Path

import pytest

from core.errors import Invalid
from core.identity import RepositoryId
from core.signatures.artifact import ArtifactSignature
from core.spec.image_signatures import ImageSignatureRule, SignatureRules, check_images
from core.spec.images import images_in, read_image
from core.spec.render_orders import RenderOrder, dump_order, load_order
from core.spec.source import RenderRequest
from core.spec.source_signatures import Evidence, SignerSet

_MADE = json.loads((Path(__file__).parent / "cosign_signature.json").read_text())
_PAYLOAD = _MADE["payload"].encode()
DIGEST = json.loads(_PAYLOAD)["critical"]["image"]["docker-manifest-digest"]
SIGNED = ArtifactSignature(b"", _PAYLOAD, base64.b64decode(_MADE["signature"]))
KEYS = SignerSet("shop-cosign", _MADE["key"])
RULES = (
    ImageSignatureRule("registry.example.org/shop/*", (KEYS,)),
    ImageSignatureRule("docker.io/library/*"),
)
WEB = "registry.example.org/shop/web"


@pytest.mark.parametrize(
    ("text", "repository", "tag", "digest"),
    [
        ("redis", "docker.io/library/redis", "", ""),
        ("redis:8", "docker.io/library/redis", "8", ""),
        ("team/redis:8", "docker.io/team/redis", "8", ""),
        ("index.docker.io/redis", "docker.io/library/redis", "", ""),
        ("docker.io/team/redis", "docker.io/team/redis", "", ""),
        ("localhost/redis", "localhost/redis", "", ""),
        ("host:5000/redis", "host:5000/redis", "", ""),
        ("a.b/c/d:1@" + DIGEST, "a.b/c/d", "1", DIGEST),
        ("a.b/c@" + DIGEST, "a.b/c", "", DIGEST),
    ],
)
def test_an_image_is_read_as_container_runtimes_do(
    text: str, repository: str, tag: str, digest: str
) -> None:
    image = read_image(text)
    assert (image.repository, image.tag, image.digest) == (repository, tag, digest)


@pytest.mark.parametrize(
    "text",
    ["", " redis", "redis\n", "Redis", "a//b", "a.b/c@sha256:00", "a.b/c@md5:00", "x" * 513, "-/x"],
)
def test_what_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not the name of an image"):
        read_image(text)


def test_images_are_found_in_all_pods_of_an_object() -> None:
    pod = {
        "containers": [{"image": "a"}, {"name": "none"}, 7],
        "initContainers": [{"image": "b"}],
        "ephemeralContainers": [{"image": "c"}],
        "volumes": [{"image": {"reference": "d"}}, {"emptyDir": {}}],
    }
    deep = {"kind": "List", "items": [{"spec": {"jobTemplate": {"spec": {"template": pod}}}}]}
    assert sorted(images_in(deep)) == ["a", "b", "c", "d"]
    assert list(images_in({"kind": "ConfigMap", "data": {"image": "x"}})) == []
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    assert list(images_in(nested)) == []


def test_signed_and_pinned_images_are_accepted() -> None:
    images = [f"{WEB}:1@{DIGEST}", f"{WEB}@{DIGEST}", "redis:8"]
    found = check_images(RULES, images, Evidence(artifacts=(SIGNED,)))
    assert list(found) == images[:2]
    assert {signer.method for signer in found.values()} == {"cosign"}
    assert check_images((), ["anything"], Evidence()) == {}


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("registry.example.org/bank/web@" + DIGEST, "no image rule allows registry.example.org/b"),
        ("evil/library/redis", "no image rule allows docker.io/evil/library/redis"),
        (f"{WEB}:1", f"pin it by digest: {WEB}:1@sha256:…"),
        (f"{WEB}@sha256:{'0' * 64}", "it is not signed, or its signature is of another artifact"),
        ("redis:@", "is not the name of an image"),
    ],
)
def test_other_images_are_refused_with_their_name(image: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_images(RULES, [image], Evidence(artifacts=(SIGNED,)))
    assert reason in refused.value.message
    if "web" in image and "bank" not in image:
        assert "shop-cosign (cosign key sha256:" in refused.value.message


def test_rules_reach_an_agent_that_renders() -> None:
    rules = SignatureRules(images=RULES)
    request = RenderRequest(RepositoryId("r"), "c" * 40, "web", signatures=rules)
    assert load_order(dump_order(RenderOrder(request, ()))).request.signatures == rules
