"""Renders plain manifests."""

from core.spec.bundle import KubeObject
from gitcache.render import manifests
from gitcache.render.renderer import Renderer, WorkerJob


class Raw(Renderer):
    """Reads all manifests in and below the folder; AUTO selects it if no other renderer fits."""

    name = "raw"

    def may_read(self, path: str) -> bool:
        return path.endswith(manifests.MANIFEST_SUFFIXES)

    def render(self, job: WorkerJob) -> list[KubeObject]:
        return manifests.read_folder(job.folder, job.files)
