"""Triggers of releases other than commits of the first stage: schedules and new versions.

A schedule makes the first stage's revisions a release. A finding is an image tag, a chart version
or a git tag. It is written to the first stage's source, and becomes a release like other commits.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from cronsim import CronSim, CronSimError
from semantic_version import NpmSpec, Version

from controlplane.pipelines.model.calendar import zone_of
from controlplane.pipelines.model.git_writes import GitWrite
from controlplane.platform.names import check_text
from core import patterns
from core.errors import Invalid
from core.spec.images import is_tag, parse_image

MAX_TRIGGERS = 50
MAX_TEXT = 512
MAX_COMPARED = 100


class TriggerKind(StrEnum):
    """Kind of a trigger."""

    SCHEDULE = "SCHEDULE"
    """Times of a crontab line."""
    IMAGE = "IMAGE"
    """New tags of a container image."""
    CHART = "CHART"
    """New versions of a chart in an OCI registry."""
    TAG = "TAG"
    """New tags of the Git repository."""


class TagPolicy(StrEnum):
    """Policy that selects an image tag.

    SEMVER: the highest version in the range. REGEX: the highest match of the pattern, compared by
    its first group, numbers as numbers. NEWEST: the most recently built image. DIGEST: one tag,
    whenever its digest changes.
    """

    SEMVER = "SEMVER"
    """The highest semantic version in `range`."""
    REGEX = "REGEX"
    """The highest tag that `pattern` matches, compared by its first group."""
    NEWEST = "NEWEST"
    """The tag with the most recently built image."""
    DIGEST = "DIGEST"
    """A fixed tag. A new digest counts as a new version."""


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """Fires at the times of a crontab line in a time zone."""

    cron: str
    zone: str = "UTC"
    kind: Literal[TriggerKind.SCHEDULE] = TriggerKind.SCHEDULE

    def check(self, field: str) -> None:
        """Raises Invalid for an invalid crontab line or zone."""
        check_text(self.cron, f"{field}.cron", MAX_TEXT)
        zone_of(self.zone, f"{field}.zone")
        try:
            next(CronSim(self.cron, datetime(2026, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration):
            raise Invalid(
                "must be a crontab line such as `30 9 * * 1-5`", field=f"{field}.cron"
            ) from None

    def next_after(self, moment: datetime) -> datetime:
        """Returns the first time after a moment, in UTC."""
        local = moment.astimezone(zone_of(self.zone))
        return next(CronSim(self.cron, local)).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class ImageRule:
    """New tags of an image, named with its registry and without a tag.

    `range` (npm syntax) is for SEMVER, `tag` for DIGEST. `pattern` is for REGEX, and optionally for
    NEWEST as a filter.
    """

    image: str
    policy: TagPolicy = TagPolicy.SEMVER
    range: str = "*"
    pattern: str = ""
    tag: str = "latest"
    kind: Literal[TriggerKind.IMAGE] = TriggerKind.IMAGE

    def check(self, field: str) -> None:
        """Raises Invalid for a rule that can never match."""
        parse_image(self.image, f"{field}.image")
        check_range(self.range, f"{field}.range")
        check_pattern(self.pattern, f"{field}.pattern", needed=self.policy is TagPolicy.REGEX)
        if not is_tag(self.tag):
            raise Invalid("is not an image tag", field=f"{field}.tag")


@dataclass(frozen=True, slots=True)
class ChartRule:
    """New versions of a chart in an OCI registry, named like `registry.example.org/charts/shop`."""

    chart: str
    range: str = "*"
    kind: Literal[TriggerKind.CHART] = TriggerKind.CHART

    def check(self, field: str) -> None:
        """Raises Invalid for a rule that can never match."""
        parse_image(self.chart.removeprefix("oci://"), f"{field}.chart")
        check_range(self.range, f"{field}.range")


@dataclass(frozen=True, slots=True)
class TagRule:
    """New tags of the repository of the first stage's services, by version.

    Without a git write these services follow the tag itself from then on.
    """

    range: str = "*"
    kind: Literal[TriggerKind.TAG] = TriggerKind.TAG

    def check(self, field: str) -> None:
        """Raises Invalid for an invalid range."""
        check_range(self.range, f"{field}.range")


TriggerRule = ScheduleRule | ImageRule | ChartRule | TagRule


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
    def kind(self) -> TriggerKind:
        return self.rule.kind

    @property
    def watches(self) -> bool:
        """Returns whether the trigger polls an external source."""
        return self.kind is not TriggerKind.SCHEDULE

    def check(self, field: str) -> None:
        """Raises Invalid for fields that do not fit together."""
        check_text(self.name, f"{field}.name", 255)
        self.rule.check(field)
        if self.write is not None:
            self.write.check(f"{field}.git")
        if self.kind in (TriggerKind.IMAGE, TriggerKind.CHART) and self.write is None:
            raise Invalid("requires `git`: the change to write", field=f"{field}.git")
        if self.kind is TriggerKind.SCHEDULE and self.write is not None:
            raise Invalid("a schedule cannot have `git`", field=f"{field}.git")


@dataclass(frozen=True, slots=True)
class TriggerFinding:
    """A finding: a tag or version, and the digest if it matters."""

    value: str
    digest: str = ""


def check_range(text: str, field: str) -> None:
    """Raises Invalid unless the text is an npm version range."""
    check_text(text, field, MAX_TEXT)
    try:
        NpmSpec(text)
    except ValueError:
        raise Invalid("must be a version range such as ^1.2", field=field) from None


def check_pattern(pattern: str, field: str, *, needed: bool) -> None:
    """Raises Invalid for an invalid regular expression, or if a needed one is missing."""
    if needed and not pattern:
        raise Invalid("is needed", field=field)
    try:
        patterns.validate_pattern(pattern)
    except Invalid as error:
        raise Invalid(error.message, field=field) from None


def highest_version(tags: Iterable[str], wanted: str) -> str | None:
    """Returns the tag of the highest version in a range; `v1.2.0` counts as 1.2.0, `1_2` is a
    chart's form.
    """
    spec = NpmSpec(wanted)
    found: list[tuple[Version, str]] = []
    for tag in tags:
        version = _version(tag)
        if version is not None and version in spec:
            found.append((version, tag))
    return max(found, default=(None, None), key=lambda pair: (pair[0].precedence_key, pair[1]))[1]


def highest_match(tags: Iterable[str], pattern: str) -> str | None:
    """Returns the highest tag by the first group of the pattern, or by the whole match."""
    matches = [
        (tag, held) for tag in tags if (held := patterns.match_groups(pattern, tag)) is not None
    ]
    best = max(matches, default=None, key=lambda match: (_order(*match), match[0]))
    return best[0] if best else None


def matching_tags(tags: Iterable[str], pattern: str) -> list[str]:
    """Returns the tags that match a pattern; all without one."""
    return [tag for tag in tags if not pattern or patterns.match_groups(pattern, tag) is not None]


def newest_tag(made: Mapping[str, datetime]) -> str | None:
    """Returns the tag of the most recently built image."""
    return max(made, default=None, key=lambda tag: (made[tag], tag))


def _version(tag: str) -> Version | None:
    try:
        return Version(tag.removeprefix("v").replace("_", "+"))
    except ValueError:
        return None


def _order(tag: str, held: tuple[str | None, ...]) -> tuple[tuple[bool, int, str], ...]:
    text = held[0] if held and held[0] is not None else tag
    parts = re.findall(r"\d+|\D+", text)
    return tuple((p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts)
