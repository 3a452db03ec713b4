"""Signatures of the images in a rendered bundle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.errors import Invalid, Unavailable
from core.signatures.artifact import ArtifactSignature
from core.signatures.trusted import TrustedSigners
from core.spec.bundle import open_bundle
from core.spec.image_signatures import SignatureRules, check_images, image_signers, unpinned_error
from core.spec.images import images_in, read_image
from core.spec.source_signatures import MAX_EVIDENCE_BYTES, MAX_SIGNATURES, Evidence
from gitcache.ports import ContentStore, ImageRegistry


@dataclass(frozen=True, slots=True)
class ImageEvidence:
    """Finds and checks the signatures of the images in bundles."""

    content: ContentStore
    registry: ImageRegistry

    async def complete(
        self, digest: str, rules: SignatureRules, project: str, evidence: Evidence
    ) -> Evidence:
        """Returns the evidence of a bundle with the signatures of its images that rules ask for.

        Raises Invalid for an image outside the rules or without a signature, Unavailable.
        """
        if not rules.images:
            return evidence
        data = await self.content.get(digest)
        if data is None:
            raise Unavailable(f"bundle {digest} is no longer stored")
        objects = open_bundle(digest, data).objects()
        images = list(dict.fromkeys(text for entry in objects for text in images_in(entry)))
        artifacts = list(evidence.artifacts)
        for text in images:
            trusted = image_signers(rules.images, read_image(text))
            if trusted is not None:
                artifacts += await self._image_signatures(text, project, trusted)
        completed = replace(evidence, artifacts=tuple(artifacts))
        check_images(rules.images, images, completed)
        if artifacts and not completed.encode():
            raise Invalid(
                f"the bundle cannot carry {len(artifacts)} signatures of images; the limit is "
                f"{MAX_SIGNATURES}, in {MAX_EVIDENCE_BYTES:,} bytes: split the service"
            )
        return completed

    async def _image_signatures(
        self, text: str, project: str, trusted: TrustedSigners
    ) -> Sequence[ArtifactSignature]:
        """All signatures of an image: the agent's own tenants may trust others than its fence."""
        image = read_image(text)
        if image.digest:
            return await self.registry.signatures(image, project)
        raise unpinned_error(text, trusted, await self.registry.digest(image, project))
