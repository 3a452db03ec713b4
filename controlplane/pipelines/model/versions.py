"""Selection of versions among the tags of images, charts and repositories."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from semantic_version import NpmSpec, Version

from controlplane.platform.names import check_text
from core import patterns
from core.errors import Invalid

_MAX_TEXT = 512


def check_range(text: str, field: str) -> None:
    """Raises Invalid unless the text is an npm version range."""
    check_text(text, field, _MAX_TEXT)
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


def highest_version(tags: Iterable[str], versions: str) -> str | None:
    """Returns the tag of the highest version in a range; `v1.2.0` is 1.2.0, `1.2_a` is 1.2+a."""
    spec = NpmSpec(versions)
    candidates: list[tuple[Version, str]] = []
    for tag in tags:
        version = _parse_version(tag)
        if version is not None and version in spec:
            candidates.append((version, tag))
    return max(
        candidates, default=(None, None), key=lambda pair: (pair[0].precedence_key, pair[1])
    )[1]


def highest_match(tags: Iterable[str], pattern: str) -> str | None:
    """Returns the highest tag by the first group of the pattern, or by the whole match."""
    matches = [
        (tag, groups) for tag in tags if (groups := patterns.match_groups(pattern, tag)) is not None
    ]
    best = max(matches, default=None, key=lambda match: (_sort_key(*match), match[0]))
    return best[0] if best else None


def matching_tags(tags: Iterable[str], pattern: str) -> list[str]:
    """Returns the tags that match a pattern; all without one."""
    return [tag for tag in tags if not pattern or patterns.match_groups(pattern, tag) is not None]


def newest_tag(built: Mapping[str, datetime]) -> str | None:
    """Returns the tag of the most recently built image."""
    return max(built, default=None, key=lambda tag: (built[tag], tag))


def _parse_version(tag: str) -> Version | None:
    try:
        return Version(tag.removeprefix("v").replace("_", "+"))
    except ValueError:
        return None


def _sort_key(tag: str, groups: tuple[str | None, ...]) -> tuple[tuple[bool, int, str], ...]:
    sorted_text = groups[0] if groups and groups[0] is not None else tag
    parts = re.findall(r"\d+|\D+", sorted_text)
    return tuple((p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts)
