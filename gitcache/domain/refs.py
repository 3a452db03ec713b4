"""Refs to request from a server, and resolution of the followed names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|^/|^-|\.$|\.lock$|^@$|/\.|^\.")
_MAX_NAME = 512


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
    redirect services that follow the branch.
    """
    if is_sha(name) or not is_name(name):
        return ()
    if name == "HEAD" or name.startswith("refs/"):
        return (name,)
    return (f"refs/heads/{name}", f"refs/tags/{name}")


HEAD = "HEAD"
"""Ref that stands for the repository itself."""


def prefixes(names: Iterable[str]) -> list[str]:
    """Lists the `ref-prefix` arguments for these names, unique and sorted."""
    return sorted({ref for name in names for ref in candidates(name)})


def matches_any(patterns: Iterable[str], ref: str) -> bool:
    """True if a full ref matches a pattern of branches (`release/*`) or full refs (`refs/tags/*`).

    `*` stands for any text.
    """
    return any(fnmatchcase(ref, _full(pattern)) for pattern in patterns)


def listing(pattern: str) -> list[str]:
    """Lists the arguments that request the refs of a pattern: a `ref-prefix` of version 2 of the
    protocol, and a pattern of `git ls-remote`."""
    full = _full(pattern)
    return [full] if "*" not in full else [full.partition("*")[0], full]


def _full(pattern: str) -> str:
    return pattern if pattern.startswith("refs/") else f"refs/heads/{pattern}"


def resolve(names: Iterable[str], listed: Mapping[str, str]) -> ResolvedRefs:
    """Resolves the followed names with the server's refs (full name to peeled commit)."""
    commits: dict[str, str] = {}
    missing = set()
    for name in names:
        if is_sha(name):
            commits[name] = name
        elif found := next((listed[ref] for ref in candidates(name) if ref in listed), None):
            commits[name] = found
        else:
            missing.add(name)
    return ResolvedRefs(commits, frozenset(missing))
