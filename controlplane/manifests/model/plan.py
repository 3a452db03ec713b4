"""Plans of manifests: what an apply changes, or why it changes nothing."""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.manifests.model.documents import DocumentProblem


class ManifestAction(StrEnum):
    """Effect of an apply on one resource."""

    CREATE = "CREATE"
    """The resource is created."""
    UPDATE = "UPDATE"
    """Fields of the resource change."""
    DELETE = "DELETE"
    """The resource is deleted."""
    UNCHANGED = "UNCHANGED"
    """Nothing changes."""


@dataclass(frozen=True, slots=True)
class SpecDifference:
    """A field that an apply changes."""

    path: str
    """Path of the field, such as `spec.helm.chart`."""
    before: str | None
    """Present value as JSON. None: the field is absent, or secret."""
    after: str | None
    """New value as JSON. None: the field is removed. Secrets are masked."""


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that another manager has set to another value."""

    path: str
    """Path of the field."""
    owner: str
    """Manager that set the field."""


@dataclass(frozen=True, slots=True)
class ManifestEffect:
    """The effect on one resource."""

    action: ManifestAction
    """Effect on the resource."""
    kind: str
    """Kind of the resource."""
    name: str
    """Name of the resource; that of a service contains its cluster, as `eu-1/web`."""
    changes: tuple[SpecDifference, ...] = ()
    """Fields that change."""
    conflicts: tuple[FieldConflict, ...] = ()
    """Fields that other managers own."""
    file: str = ""
    """Name of the file. Empty for a deletion."""
    line: int = 0
    """First line of the document. 0 for a deletion."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The effects of an apply on all resources. With a problem, nothing was done."""

    items: tuple[ManifestEffect, ...]
    """Effects in the order in which they are carried out."""
    problems: tuple[DocumentProblem, ...]
    """All problems that were found. Empty if the plan can be carried out."""
    applied: bool
    """True if the plan was carried out."""


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """Options of an apply."""

    manager: str = "cli"
    """Name of the manager that owns the fields. Limit: 63 characters. Default: `cli`."""
    dry_run: bool = False
    """True plans without changing anything. Default: false."""
    force: bool = False
    """True takes over fields of other managers. Default: false."""
    prune_set: str = ""
    """Set that the resources belong to. Resources of the set without a document are deleted.
    Default: none, and nothing is deleted."""
    max_deletions: int = 0
    """Maximum number of deletions. Default: 0."""
