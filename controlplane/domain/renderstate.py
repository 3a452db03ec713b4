"""What decides whether a service is to be rendered: a narrow view of its row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from fleet.identity import ClusterId, RepositoryId, ServiceId


@dataclass(frozen=True, slots=True)
class RenderState:
    """The fields of a service, as `Service` has them, that the look at a new commit needs."""

    id: ServiceId
    cluster_id: ClusterId
    repository_id: RepositoryId | None
    updated_at: datetime
    ref: str
    folder: str
    pinned: str | None
    promoted: bool
    sha: str | None
    source: str | None
    reads: Mapping[str, str]
    render_error: str | None
    waiting: bool
    rendered_by: ClusterId | None

    @property
    def wanted_ref(self) -> str:
        """Which ref of its repository the service is to be at."""
        return self.pinned or self.ref

    @property
    def paths(self) -> Iterable[str]:
        """Folders and files of the repository that the next render will read, as far as known."""
        return self.reads or (self.folder,)

    @property
    def is_settled(self) -> bool:
        """Whether no commit can change the service: its pipeline brings them, or it is held."""
        if self.pinned is None or self.promoted:
            return self.promoted
        held = self.sha == self.pinned and self.source is not None
        return held and self.render_error is None

    def is_stale(self, ids: Mapping[str, str | None]) -> bool:
        """Whether the last render read something that is another thing now; `ids` are git's."""
        undone = self.waiting or self.source is None or self.render_error is not None
        if undone or not self.reads:
            return True
        return any(ids.get(path) != was for path, was in self.reads.items())
