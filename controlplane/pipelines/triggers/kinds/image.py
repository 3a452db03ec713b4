"""Triggers on new tags of a container image."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from controlplane.pipelines.model.triggers import TriggerContext, TriggerFinding, TriggerRule
from controlplane.pipelines.model.versions import (
    check_pattern,
    check_range,
    highest_match,
    highest_version,
    matching_tags,
    newest_tag,
)
from controlplane.platform.plugin_settings import MAX_NAME, Setting
from core.errors import Invalid
from core.spec.images import is_tag, parse_image

MAX_COMPARED = 100
_CONCURRENCY = 8


class ImageTagPolicy(StrEnum):
    """Policy that selects an image tag."""

    SEMVER = "SEMVER"
    """The highest semantic version in `range`."""
    REGEX = "REGEX"
    """The highest tag that `pattern` matches, compared by its first group."""
    NEWEST = "NEWEST"
    """The tag with the most recently built image."""
    DIGEST = "DIGEST"
    """A fixed tag. A new digest counts as a new version."""


@dataclass(frozen=True, slots=True)
class ImageRule(TriggerRule):
    """New tags of a container image."""

    kind = "IMAGE"
    title = "Image"
    needs_write = True

    image: Annotated[
        str, Setting("Image", max_length=MAX_NAME, example="registry.example.org/shop")
    ]
    """Name of the image with its registry, without a tag."""
    policy: Annotated[ImageTagPolicy, Setting("Policy")] = ImageTagPolicy.SEMVER
    """Policy that selects the tag."""
    range: Annotated[str, Setting("Version range", max_length=512)] = "*"
    """Version range in the syntax of npm, for the policy SEMVER."""
    pattern: Annotated[str, Setting("Pattern", max_length=512)] = ""
    """Regular expression for tags. Required with REGEX, possible with NEWEST."""
    tag: Annotated[str, Setting("Tag", max_length=MAX_NAME)] = "latest"
    """Tag for the policy DIGEST."""

    def check_together(self, field: str) -> None:
        parse_image(self.image, f"{field}.image")
        check_range(self.range, f"{field}.range")
        required = self.policy is ImageTagPolicy.REGEX
        check_pattern(self.pattern, f"{field}.pattern", needed=required)
        if not is_tag(self.tag):
            raise Invalid("is not an image tag", field=f"{field}.tag")

    async def discover(self, context: TriggerContext) -> TriggerFinding | None:
        if self.policy is ImageTagPolicy.DIGEST:
            return TriggerFinding(self.tag, await context.image_digest(self.image, self.tag))
        tags = await context.image_tags(self.image)
        match self.policy:
            case ImageTagPolicy.SEMVER:
                tag = await asyncio.to_thread(highest_version, tags, self.range)
            case ImageTagPolicy.REGEX:
                tag = await asyncio.to_thread(highest_match, tags, self.pattern)
            case _:
                tag = await self._newest_tag(context, tags)
        return TriggerFinding.of(tag)

    async def _newest_tag(self, context: TriggerContext, tags: list[str]) -> str | None:
        matching = await asyncio.to_thread(matching_tags, tags, self.pattern)
        if len(matching) > MAX_COMPARED:
            raise Invalid(
                f"{len(matching):,} tags match, but at most {MAX_COMPARED} are allowed: narrow the "
                "pattern",
                field="pattern",
            )
        semaphore = asyncio.Semaphore(_CONCURRENCY)

        async def with_build_time(tag: str) -> tuple[str, datetime]:
            async with semaphore:
                return tag, await context.image_built_at(self.image, tag)

        return newest_tag(dict(await asyncio.gather(*map(with_build_time, matching))))
