"""Renders plain manifests."""

from typing import TYPE_CHECKING

from gitcache.render import manifests
from gitcache.render.renderer import Renderer, WorkerJob

if TYPE_CHECKING:
    from gitcache.render.plan import RenderPlan


class Raw(Renderer):
    """Reads all manifests in and below the folder; AUTO selects it if no other renderer fits."""

    name = "raw"

    def may_read(self, path: str, plan: "RenderPlan") -> bool:
        return manifests.is_manifest(plan.folder, path, plan.request.options)

    def render(self, job: WorkerJob) -> list[manifests.LocatedObject]:
        return manifests.read_manifests(job.folder, job.files, job.options)
