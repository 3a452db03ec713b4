"""Triggers of releases other than commits of the first stage: schedules and new versions.

A schedule makes the first stage's revisions a release. A finding is an image tag, a chart version
or a git tag. It is written to the first stage's source, and becomes a release like other commits.
The kinds of triggers are in `triggers.kinds`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

from controlplane.pipelines.model.git_writes import GitWrite
from controlplane.platform.names import check_text
from controlplane.platform.plugin_settings import Plugin
from core.errors import Invalid

MAX_TRIGGERS = 50


@dataclass(frozen=True, slots=True)
class TriggerFinding:
    """A finding: a tag or version."""

    value: str
    """Tag or version."""
    digest: str = ""
    """Digest of the image, if that counts."""

    @classmethod
    def of(cls, value: str | None) -> "TriggerFinding | None":
        """Returns the finding of a tag or version; None without one."""
        return cls(value) if value else None

    def __str__(self) -> str:
        return f"{self.value}@{self.digest}" if self.digest else self.value


class TriggerContext(Protocol):
    """Registries and repositories that a trigger polls."""

    async def image_tags(self, image: str) -> list[str]:
        """Returns all tags of an image in its registry."""
        ...

    async def image_digest(self, image: str, tag: str) -> str:
        """Returns the current digest of a tag."""
        ...

    async def image_built_at(self, image: str, tag: str) -> datetime:
        """Returns the build time of a tag's image."""
        ...

    async def git_tags(self) -> list[str]:
        """Returns the tags of the repository of the first stage's services."""
        ...


class TriggerRule(Plugin):
    """Settings of one kind of trigger, and its search for versions."""

    family = "trigger"
    watches: ClassVar[bool] = True
    """True if the trigger polls an external source."""
    needs_write: ClassVar[bool] = False
    """True if a finding must be written to Git."""

    async def discover(self, context: TriggerContext) -> TriggerFinding | None:
        """Returns the version that the trigger selects now; None: it selects or polls nothing."""
        return None


@dataclass(frozen=True, slots=True)
class Trigger:
    """A rule, and the git write to the first stage's folders when it finds something.

    The trigger writes only to the repository `writes_to`, which the user who saved the pipeline may
    change.
    """

    id: str
    name: str
    rule: TriggerRule
    write: GitWrite | None = None
    writes_to: str = ""

    @property
    def watches(self) -> bool:
        """Returns whether the trigger polls an external source."""
        return self.rule.watches

    def check(self, field: str) -> None:
        """Raises Invalid for fields that do not fit together."""
        check_text(self.name, f"{field}.name")
        self.rule.check(field)
        if self.write is not None:
            self.write.check(f"{field}.git")
        if self.rule.needs_write and self.write is None:
            raise Invalid("requires `git`: the change to write", field=f"{field}.git")
        if not self.watches and self.write is not None:
            raise Invalid("a schedule cannot have `git`", field=f"{field}.git")
