"""Additional sources of a service: folders of any repository, merged into its own folder."""

from dataclasses import dataclass

from core.identity import RepositoryId


@dataclass(frozen=True, slots=True)
class ServiceSource:
    """A further folder of a service, whose files appear below `path` in its own folder."""

    id: str
    service_id: str
    repository_id: RepositoryId
    """ID of the Git repository."""
    place: int
    """Position among the sources of the service."""
    ref: str
    """Branch, tag or commit."""
    folder: str
    """Folder in the repository."""
    path: str
    """Target folder, relative to the folder of the service."""
    sha: str = ""
    """Commit of the last render. Empty before the first one."""
    tree: str = ""
    """Git object id of the folder at the last render."""
