"""Revisions that no service may get."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from controlplane.authorization import Resource, ResourceKind

EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class DeniedRevision:
    """A denied commit or digest. No service receives it until a user allows it again."""

    id: str
    """Unique ID."""
    revision: str
    """Commit or digest."""
    project_id: str | None
    """ID of the project whose services and pipelines do not receive it. None: those of all
    projects."""
    actor: str
    """E-mail address of the user, or name of the pipeline, that denied it."""
    reason: str
    """Reason of the denial."""
    inserted_at: datetime

    @classmethod
    def of(
        cls, revision: str, project_id: str | None, actor: str, reason: str, at: datetime
    ) -> "DeniedRevision":
        """The denial of a revision in one project, or in all; it has one ID."""
        return cls(
            f"{project_id or EVERYWHERE}:{revision}", revision, project_id, actor, reason, at
        )

    @property
    def target(self) -> Resource:
        """Its location for authorization: the pipelines that it concerns."""
        return Resource.of_project(ResourceKind.PIPELINE, self.project_id)

    def concerns(self, project_id: str) -> bool:
        """Reports whether it concerns resources of a project."""
        return self.project_id in (None, project_id)


class DeniedRevisions:
    """Denials of some revisions, in all projects."""

    def __init__(self, rows: Iterable[DeniedRevision] = ()) -> None:
        self._rows = tuple(rows)

    def find(self, project_id: str, *revisions: str | None) -> DeniedRevision | None:
        """The denial of one of these revisions for a project, if there is one."""
        for denial in self._rows:
            if denial.revision in revisions and denial.concerns(project_id):
                return denial
        return None
