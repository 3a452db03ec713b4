"""Inputs of the decision whether to render a service: a narrow view of its row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from controlplane.repositories.model.repository import normalize_folder
from core.identity import ClusterId, RepositoryId, ServiceId


@dataclass(frozen=True, slots=True)
class RenderState:
    """The fields of a `Service` that the check of a new commit needs."""

    id: ServiceId
    cluster_id: ClusterId
    repository_id: RepositoryId | None
    updated_at: datetime
    ref: str
    folder: str
    pinned_sha: str | None
    promoted: bool
    commit_sha: str | None
    input_digest: str | None
    reads: Mapping[str, str]
    render_error: str | None
    waiting: bool
    rendered_by: ClusterId | None
    commits_behind: int | None = None

    @property
    def is_rolled_back(self) -> bool:
        """Returns whether a rollback, and not a pipeline, pinned the service."""
        return self.pinned_sha is not None and not self.promoted

    @property
    def refs(self) -> frozenset[str]:
        """Returns the refs that the git cache follows for the service. After a rollback, its own
        ref shows how far the service is behind.
        """
        return frozenset({self.target_ref, self.ref} if self.is_rolled_back else {self.target_ref})

    @property
    def target_ref(self) -> str:
        """Returns the ref of its repository that the service should follow."""
        return self.pinned_sha or self.ref

    @property
    def paths(self) -> Iterable[str]:
        """Returns the folders and files of the repository that the next render reads, as far as
        known.
        """
        return self.reads or (normalize_folder(self.folder),)

    @property
    def ignores_commits(self) -> bool:
        """Returns whether no commit can change the service, because a pipeline moves it
        or it is pinned.
        """
        if self.pinned_sha is None or self.promoted:
            return self.promoted
        is_rendered = self.commit_sha == self.pinned_sha and self.input_digest is not None
        return is_rendered and self.render_error is None

    def is_stale(self, current_ids: Mapping[str, str | None]) -> bool:
        """Returns whether an input of the last render has changed, by IDs of Git objects."""
        needs_render = self.waiting or self.input_digest is None or self.render_error is not None
        if needs_render or not self.reads:
            return True
        return any(current_ids.get(path) != rendered_id for path, rendered_id in self.reads.items())
