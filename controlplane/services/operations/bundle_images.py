"""The images of a service's desired bundle, and the evidence of their signatures."""

from dataclasses import dataclass

from controlplane.platform.context import OperationContext
from controlplane.services.model.service import Service
from core.errors import Invalid, NotFound, Unavailable
from core.spec.bundle import open_bundle
from core.spec.images import images_in
from core.spec.source_signatures import Evidence, decode_evidence


@dataclass(frozen=True, slots=True)
class BundleImages:
    """Images that the objects of a bundle name, each once, in their order."""

    names: tuple[str, ...] = ()
    evidence: Evidence = Evidence()


async def images_of_bundle(context: OperationContext, service: Service) -> BundleImages:
    """The images of the desired bundle; none while it is not stored."""
    digest, attestation = service.desired.digest, service.desired.attestation
    if digest is None:
        return BundleImages()
    try:
        bundle = open_bundle(digest, await context.manifests.bundle(digest))
        evidence = decode_evidence(attestation.evidence if attestation else b"")
    except (Unavailable, NotFound, Invalid):
        return BundleImages()
    images = dict.fromkeys(image for body in bundle.objects() for image in images_in(body))
    return BundleImages(tuple(images), evidence)
