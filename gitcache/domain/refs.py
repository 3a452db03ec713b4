"""Refs to request from a server, and resolution of the followed names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import quote, unquote

from core.spec.images import is_digest, is_tag, is_tag_range

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|^/|^-|\.$|\.lock$|^@$|/\.|^\.")
_MAX_NAME = 512
_TAGS = "refs/tags/"
_ARTIFACTS = "refs/artifacts/"


@dataclass(frozen=True, slots=True)
class ResolvedRefs:
    """Commits of the followed names, and the names without a commit."""

    commits: Mapping[str, str]
    missing: frozenset[str]


def is_sha(name: str) -> bool:
    """True for a full object id: SHA-1 or SHA-256, lower case."""
    return _SHA.fullmatch(name) is not None


def is_name(name: str) -> bool:
    """True for a valid ref name (git-check-ref-format(1)) or sha; others count as missing."""
    return 0 < len(name) <= _MAX_NAME and not _FORBIDDEN.search(name)


def candidates(name: str) -> tuple[str, ...]:
    """Lists the full refs that a followed name may mean, best first.

    A branch wins over a tag of the same name, so that somebody who may push only tags cannot
    redirect services that follow the branch. Digests and version ranges, which only artifacts have,
    get names of their own where git forbids their characters.
    """
    if is_sha(name):
        return ()
    if not is_name(name):
        is_artifact = is_digest(name) or is_tag_range(name)
        return (_ARTIFACTS + quote(name, safe="").replace("~", "%7E"),) if is_artifact else ()
    if name == "HEAD" or name.startswith("refs/"):
        return (name,)
    return (f"refs/heads/{name}", f"refs/tags/{name}")


def artifact_of(ref: str) -> str | None:
    """Returns the tag, version range or digest that a full ref stands for in a registry."""
    if ref.startswith(_ARTIFACTS):
        return unquote(ref.removeprefix(_ARTIFACTS))
    name = ref.removeprefix(_TAGS)
    is_followed = ref.startswith(_TAGS) and is_name(ref) and (is_tag(name) or is_tag_range(name))
    return name if is_followed else None


HEAD = "HEAD"
"""Ref that stands for the repository itself."""


def prefixes(names: Iterable[str]) -> list[str]:
    """Lists the `ref-prefix` arguments for these names, unique and sorted."""
    return sorted({ref for name in names for ref in candidates(name)})


def matches_any(patterns: Iterable[str], ref: str) -> bool:
    """True if a full ref matches a pattern of branches (`release/*`) or full refs (`refs/tags/*`).

    `*` stands for any text.
    """
    return any(fnmatchcase(ref, _full_pattern(pattern)) for pattern in patterns)


def listing_arguments(pattern: str) -> list[str]:
    """Lists the arguments that request the refs of a pattern: a `ref-prefix` of version 2 of the
    protocol, and a pattern of `git ls-remote`."""
    full = _full_pattern(pattern)
    return [full] if "*" not in full else [full.partition("*")[0], full]


def _full_pattern(pattern: str) -> str:
    return pattern if pattern.startswith("refs/") else f"refs/heads/{pattern}"


def resolve(names: Iterable[str], listed: Mapping[str, str]) -> ResolvedRefs:
    """Resolves the followed names with the server's refs (full name to peeled commit)."""
    commits: dict[str, str] = {}
    missing = set()
    for name in names:
        if is_sha(name):
            commits[name] = name
        elif sha := next((listed[ref] for ref in candidates(name) if ref in listed), None):
            commits[name] = sha
        else:
            missing.add(name)
    return ResolvedRefs(commits, frozenset(missing))
