"""Which refs to ask a server for, and what its answer means for the names that are followed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|^/|^-|\.$|\.lock$|^@$|/\.|^\.")
_MAX_NAME = 512


@dataclass(frozen=True, slots=True)
class Resolved:
    """The commits that the followed names stand for now, and the names that stand for none."""

    commits: Mapping[str, str]
    missing: frozenset[str]


def is_sha(name: str) -> bool:
    """A full object name: SHA-1 or SHA-256, lower case."""
    return _SHA.fullmatch(name) is not None


def is_name(name: str) -> bool:
    """Whether this could be a ref (git-check-ref-format(1)) or a sha; what cannot is missing."""
    return 0 < len(name) <= _MAX_NAME and not _FORBIDDEN.search(name)


def candidates(name: str) -> tuple[str, ...]:
    """Full refs that a followed name may mean, best first.

    A branch wins over a tag of the same name: whoever may only push tags must not be able to
    take over what follows a branch.
    """
    if is_sha(name) or not is_name(name):
        return ()
    if name == "HEAD" or name.startswith("refs/"):
        return (name,)
    return (f"refs/heads/{name}", f"refs/tags/{name}")


def prefixes(names: Iterable[str]) -> list[str]:
    """The `ref-prefix` arguments that cover these names, each once, sorted."""
    return sorted({ref for name in names for ref in candidates(name)})


def resolve(names: Iterable[str], listed: Mapping[str, str]) -> Resolved:
    """What the followed names stand for, given the server's refs (full name to peeled commit)."""
    commits: dict[str, str] = {}
    missing = set()
    for name in names:
        if is_sha(name):
            commits[name] = name
        elif found := next((listed[ref] for ref in candidates(name) if ref in listed), None):
            commits[name] = found
        else:
            missing.add(name)
    return Resolved(commits, frozenset(missing))
