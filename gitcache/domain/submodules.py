"""What a `.gitmodules` file says (gitmodules(5)): which URL belongs to which path."""

import posixpath
import re

from fleet.errors import Invalid
from fleet.remotes import Remote, parse_remote
from gitcache.domain import paths

MODULES_FILE = ".gitmodules"

_MAX_FILE = 1 << 20
_MAX_MODULES = 200
_SECTION = re.compile(r'\s*\[\s*submodule\s+"(?:[^"\\]|\\.)*"\s*\]\s*')
_SETTING = re.compile(r"\s*(path|url)\s*=\s*(.*?)\s*")


def parse_modules(data: bytes) -> dict[str, str]:
    """Path to URL as written; entries without both are left out. Invalid: too many."""
    found: list[dict[str, str]] = []
    current: dict[str, str] | None = None
    for line in data[:_MAX_FILE].decode("utf-8", "replace").splitlines():
        if line.lstrip().startswith("["):
            current = {} if _SECTION.fullmatch(line) else None
            found += [] if current is None else [current]
        elif current is not None and (setting := _SETTING.fullmatch(line)):
            current[setting[1]] = setting[2].strip('"')
    if len(found) > _MAX_MODULES:
        raise Invalid(f"the repository has more than {_MAX_MODULES} submodules")
    complete = [module for module in found if "path" in module and "url" in module]
    return {
        path: module["url"]
        for module in complete
        if (path := paths.join("", module["path"])) is not None
    }


def place_of(url: str, parent: Remote) -> str | None:
    """Where a submodule's repository is, to be compared with `place`; None: nowhere we go.

    A relative URL is seen from the repository that it is written in.
    """
    if url.startswith(("./", "../")):
        path = posixpath.normpath(posixpath.join(f"/{parent.path}", url)).lstrip("/")
        return _place(parent.host, path)
    try:
        return place(parse_remote(url))
    except Invalid:
        return None


def place(remote: Remote) -> str:
    """Host and path of a repository, the same for all the ways to reach it."""
    return _place(remote.host, remote.path)


def _place(host: str, path: str) -> str:
    return f"{host}/{path.strip('/').removesuffix('.git')}"
