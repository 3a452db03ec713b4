"""Parses `.gitmodules` files (gitmodules(5)), and finds repositories by URLs in commits."""

import posixpath
import re
from collections.abc import Mapping

from core.errors import Invalid
from core.identity import RepositoryId
from core.remotes import Remote, parse_remote
from core.spec.source import RepositoryKind, RepositorySpec
from gitcache.domain import paths

MODULES_FILE = ".gitmodules"

_MAX_FILE = 1 << 20
_MAX_MODULES = 200
_SECTION = re.compile(r'\s*\[\s*submodule\s+"(?:[^"\\]|\\.)*"\s*\]\s*')
_SETTING = re.compile(r"\s*(path|url)\s*=\s*(.*?)\s*")


def parse_modules(data: bytes) -> dict[str, str]:
    """Maps paths to URLs; skips incomplete entries. Raises Invalid beyond the limit."""
    modules: list[dict[str, str]] = []
    current: dict[str, str] | None = None
    for line in data[:_MAX_FILE].decode("utf-8", "replace").splitlines():
        if line.lstrip().startswith("["):
            current = {} if _SECTION.fullmatch(line) else None
            modules += [] if current is None else [current]
        elif current is not None and (setting := _SETTING.fullmatch(line)):
            current[setting[1]] = setting[2].strip('"')
    if len(modules) > _MAX_MODULES:
        raise Invalid(f"the repository has more than {_MAX_MODULES} submodules")
    complete_modules = [module for module in modules if "path" in module and "url" in module]
    return {
        path: module["url"]
        for module in complete_modules
        if (path := paths.join("", module["path"])) is not None
    }


def find_followed(
    url: str, parent: RepositorySpec, followed: Mapping[RepositoryId, RepositorySpec]
) -> RepositorySpec | None:
    """Returns the followed Git repository at a URL in a commit of `parent`, in its project only.

    Of two, such as one by https and one by ssh, the first id wins: the same after each restart.
    """
    remote = parse_remote(parent.url)
    if (location := repository_location(url, remote)) is None:
        return None
    matching = (
        spec
        for spec in followed.values()
        if spec.project == parent.project
        and spec.kind is RepositoryKind.GIT
        and repository_location(spec.url, remote) == location
    )
    return min(matching, key=lambda spec: spec.id, default=None)


def repository_location(url: str, parent: Remote) -> str | None:
    """Returns host and path of a repository, the same for all of its URLs; None if not allowed.

    Relative URLs are resolved from the parent repository.
    """
    if url.startswith(("./", "../")):
        path = posixpath.normpath(posixpath.join(f"/{parent.path}", url)).lstrip("/")
        return _location(parent.host, path)
    try:
        remote = parse_remote(url)
    except Invalid:
        return None
    return _location(remote.host, remote.path)


def _location(host: str, path: str) -> str:
    return f"{host}/{path.strip('/').removesuffix('.git')}"
