"""Decisions of a project's fence about one service, for people."""

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.access.model.bindings import Project
from controlplane.authorization import Actor, Fence, Verb, require
from controlplane.platform.context import ContextOperations
from controlplane.services.operations.bundle_images import BundleImages, images_of_bundle
from controlplane.services.operations.fences import FenceCheck, fenced_services
from controlplane.services.operations.lookup import find_service
from core.errors import Invalid
from core.spec.image_signatures import check_images, deciding_rules
from core.spec.images import read_image

_MAX_IMAGES = 1000


@dataclass(frozen=True, slots=True)
class FenceReport:
    """The fence of a service's project, applied to the service."""

    project: Project
    service_account: str
    """`NAMESPACE:NAME` of the account that applies the objects. Empty: the agent itself."""
    checks: tuple[FenceCheck, ...]
    """Decisions about each source, the destination, and each image of the desired bundle. Limit:
    1,000 images."""
    render_error: str
    """Error of the last render, whose images are unknown. Empty if there was none."""


class FenceReports(ContextOperations):
    """Shows what fences allow."""

    async def of_service(self, actor: Actor, id: str) -> FenceReport:
        """The decisions of its project's fence about a service. NotFound, Forbidden."""
        async with self._context.read(actor) as tx:
            service = await find_service(tx, id)
            require(actor, Verb.READ, service.target)
            (fenced,) = await fenced_services(tx, [service])
        images = await images_of_bundle(self._context, service)
        checks = (*fenced.checks(), *_image_checks(fenced.project.fence, images))
        error = service.desired.render_error or ""
        return FenceReport(fenced.project, fenced.part.service_account, checks, error)


def _image_checks(fence: Fence, images: BundleImages) -> Iterator[FenceCheck]:
    rules = fence.image_rules()
    for image in images.names[:_MAX_IMAGES]:
        subject, rule = f"image {image}", ""
        if not rules:
            yield FenceCheck(subject, "the fence has no image rules", "")
            continue
        try:
            deciding = map(str, deciding_rules(rules, read_image(image)))
            rule = f"image rule {'; '.join(deciding)}"
            check_images(rules, [image], images.evidence)
        except Invalid as error:
            yield FenceCheck(subject, rule, error.message)
        else:
            yield FenceCheck(subject, rule, "")
