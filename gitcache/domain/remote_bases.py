"""Remote bases: URLs of folders in Git repositories, in the forms that kustomize accepts."""

import hashlib
import posixpath
import re
from dataclasses import dataclass
from urllib.parse import parse_qs

_FOLDER = ".remote-bases"
_SCHEME = re.compile(r"(?:ssh|https?|file)://", re.IGNORECASE)
_USER = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*@")
_GITHUB = re.compile(r"github\.com[/:]", re.IGNORECASE)
_FILE_SUFFIXES = (".yaml", ".yml", ".json")
_ORGANISATION_AND_NAME = 2


@dataclass(frozen=True, slots=True)
class BaseRef:
    """A folder of the Git repository at `url`; `ref` is a branch, tag or commit, or HEAD."""

    url: str
    folder: str
    ref: str

    @property
    def mount_path(self) -> str:
        """Returns the folder of the repository at this ref among the files of a render."""
        exact = f"{self.url} {self.ref}"
        return f"{_FOLDER}/{hashlib.sha256(exact.encode()).hexdigest()[:16]}"


def parse_base(text: str) -> BaseRef | None:
    """Parses a reference as kustomize does (NewRepoSpecFromURL); None for other references.

    A local repository (`file://`) and a file by HTTP are other references.
    """
    address, _, query = text.partition("?")
    host, rest = _split_host(_without_prefix(address, "git::"))
    if (parts := _repository_and_folder(rest)) is None:
        return None
    repository, folder = parts[0], posixpath.normpath(parts[1].strip("/"))
    if folder == ".." or folder.startswith("../"):
        return None
    if host.startswith("http") and not query and folder.endswith(_FILE_SUFFIXES):
        return None
    arguments = parse_qs(query)
    ref = (arguments.get("ref") or arguments.get("version") or ["HEAD"])[0]
    return BaseRef(host + repository, "" if folder == "." else folder, ref)


def _split_host(address: str) -> tuple[str, str]:
    """Splits off everything before the path of the repository; empty without a host."""
    scheme = match[0].lower() if (match := _SCHEME.match(address)) else ""
    rest = address[len(scheme) :]
    user = match[0] if (match := _USER.match(rest)) else ""
    rest = rest[len(user) :]
    is_github = _GITHUB.match(rest) is not None
    if scheme == "file://" or not (scheme or user or is_github):
        return "", ""
    ends = [rest.find("/")] if scheme else [rest.find("/"), rest.find(":")]
    end = min((position for position in ends if position > 0), default=-1)
    if end < 0:
        return "", ""
    host, path = rest[: end + 1], rest[end + 1 :]
    if is_github:
        # kustomize reads all URLs of GitHub as one of these two.
        secure = scheme == "ssh://" or user
        return (f"{user or 'git@'}github.com:" if secure else "https://github.com/"), path
    # The account of an https URL belongs to the connection, not to the place.
    return scheme + ("" if scheme.startswith("http") else user) + host, path


def _repository_and_folder(path: str) -> tuple[str, str] | None:
    before, azure, after = path.partition("_git/")
    if azure:
        name, _, folder = after.partition("/")
        return before + azure + name, folder
    repository, separator, folder = path.partition("//")
    if separator:
        return (repository, folder) if repository else None
    repository, suffix, folder = path.partition(".git")
    if suffix:
        return repository + suffix, folder
    names = path.split("/")
    if len(names) < _ORGANISATION_AND_NAME:
        return None
    split = _ORGANISATION_AND_NAME
    return "/".join(names[:split]), "/".join(names[split:])


def _without_prefix(text: str, prefix: str) -> str:
    return text[len(prefix) :] if text.lower().startswith(prefix) else text
