"""Additional sources of a service: folders of any repository, merged into its own folder."""

from dataclasses import dataclass

from core.identity import RepositoryId


@dataclass(frozen=True, slots=True)
class ServiceSource:
    """A folder whose files are placed below `path` of a service's own folder.

    `ref` is a branch, tag or commit of its repository; `place` orders the sources of a service.
    `sha` and `tree` are the commit and the git id of the last render.
    """

    id: str
    service_id: str
    repository_id: RepositoryId
    place: int
    ref: str
    folder: str
    path: str
    sha: str = ""
    tree: str = ""
