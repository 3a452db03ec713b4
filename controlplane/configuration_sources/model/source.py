"""A configuration source: its settings, and the result of its last reconciliation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.manifests.model.documents import DocumentProblem
from controlplane.manifests.model.ownership import source_manager
from controlplane.manifests.model.plan import ManifestEffect
from controlplane.platform.parts import NamedRow, part
from core.spec.sync import DriftPolicy

MAX_PLANNED = 500
"""Maximum number of effects that a source keeps."""
MAX_PROBLEMS = 500
"""Maximum number of problems that a source keeps."""


class ApplyMode(StrEnum):
    """Application of new commits."""

    AUTOMATIC = "automatic"
    """New commits are applied at once."""
    APPROVAL = "approval"
    """New commits are planned, and applied after an approval."""


class SourceResult(StrEnum):
    """Result of the last reconciliation."""

    UNKNOWN = "unknown"
    """Not reconciled yet."""
    SYNCED = "synced"
    """The installation equals the folder."""
    OUT_OF_SYNC = "out-of-sync"
    """Another manager changed fields of the folder."""
    AWAITING_APPROVAL = "awaiting-approval"
    """A plan waits for its approval."""
    FAILED = "failed"
    """Nothing was changed; the problems tell the reason."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The folder that a source follows, and the rules by which it is applied."""

    repository_id: str = ""
    """ID of the Git repository. Required on creation."""
    ref: str = "main"
    """Branch, tag or commit; in an OCI repository a tag, version range or digest. Default:
    `main`."""
    folder: str = ""
    """Folder of the manifests. Without it: the root of the repository."""
    service_account_id: str = ""
    """ID of the service account that applies the manifests, with its permissions. Required on
    creation."""
    mode: ApplyMode = ApplyMode.AUTOMATIC
    """Application of new commits. Default: `AUTOMATIC`."""
    prune: bool = False
    """True deletes resources whose documents left the folder. Default: false."""
    deletion_budget: int = 0
    """Maximum number of deletions of one apply. Default: 0. Limit: 5,000."""
    drift: DriftPolicy = DriftPolicy.REPORT
    """Reaction to fields that other managers changed. Default: `REPORT`."""
    interval_s: int = 300
    """Seconds between two checks for drift. Default: 300. Limits: 30 to 86,400."""
    suspended: bool = False
    """True: the source applies and checks nothing. Default: false."""

    def __str__(self) -> str:
        return f"folder {self.folder or '/'!r} at {self.ref}"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The result of the last reconciliation."""

    result: SourceResult = SourceResult.UNKNOWN
    """Result of the last reconciliation."""
    message: str = ""
    """Explanation of the result."""
    seen_sha: str = ""
    """Last commit that was seen. Empty: none."""
    seen_at: datetime | None = None
    """Time of the poll that found this commit."""
    applied_sha: str = ""
    """Last commit that was applied. Empty: none, or the settings changed since."""
    applied_at: datetime | None = None
    """Time of the last apply."""
    checked_at: datetime | None = None
    """Time of the last reconciliation."""
    problems: tuple[DocumentProblem, ...] = ()
    """Problems of the last plan, with file and line. Limit: 500."""
    plan: tuple[ManifestEffect, ...] = ()
    """Changes that an apply of the last seen commit would make. Limit: 500."""
    plan_size: int = 0
    """Number of all changes of the plan."""
    plan_digest: str = ""
    """Digest of the plan, which an approval names. Empty: there is no plan."""
    approved_digest: str = ""
    """Digest of the approved plan. Empty: none."""
    approved_by: str = ""
    """E-mail address of the user who approved it."""
    is_requested: bool = False
    """True if a user requested an apply of the present commit."""
    is_forced: bool = False
    """True if the requested apply takes over fields of other managers."""
    reverts: Mapping[str, int] = field(default_factory=dict)
    """Number of reverts of each field since the last commit."""


@dataclass(frozen=True, slots=True)
class ConfigurationSource(NamedRow):
    """A folder in Git whose manifests the control plane applies as a service account."""

    project_id: str = DEFAULT_PROJECT
    """ID of the project."""
    settings: SourceSettings = part(SourceSettings)
    status: SourceStatus = part(SourceStatus)

    @property
    def target(self) -> Resource:
        """Returns the source's location for authorization."""
        return Resource.within(
            ResourceKind.CONFIGURATION_SOURCE, self.project_id, self.id, self.name
        )

    @property
    def manager(self) -> str:
        """Returns the name under which the source owns fields, and that of its set."""
        return source_manager(self.name)

    @property
    def title(self) -> str:
        """Returns kind and name for messages."""
        return f"ConfigurationSource {self.name}"
