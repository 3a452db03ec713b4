"""Where the command line is signed in: the file `~/.config/towline/config.toml` (mode 0600).

Standard library only, and of that the quick part (no dataclasses): the kubectl credential plugin
reads it on every kubectl command.
"""

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fleet.errors import Invalid, Unauthenticated
from fleet.runtime.files import write_whole

_TEXTS = frozenset({"url", "token", "ca", "refresh"})
_KEYS = _TEXTS | {"expires"}
_SECTION = "[contexts."


class Target(NamedTuple):
    """A control plane and how to reach it. `ca` is PEM text to trust instead of the system's.

    `refresh` is what a new token is asked for with, `expires` when this one ends, in seconds since
    1970; 0: not known.
    """

    url: str
    token: str = ""
    ca: str = ""
    refresh: str = ""
    expires: int = 0

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


class Contexts(NamedTuple):
    """Signed-in control planes by name, and which one is meant when none is named."""

    current: str = ""
    targets: Mapping[str, Target] = MappingProxyType({})

    def with_target(self, name: str, target: Target) -> "Contexts":
        """These contexts with one more, which becomes the current one."""
        return Contexts(name, {**self.targets, name: target})

    def without(self, name: str) -> "Contexts":
        """These contexts with one less. Invalid: there is none of this name."""
        if name not in self.targets:
            raise Invalid(f"not signed in to {name or 'any control plane'}")
        left = {key: value for key, value in self.targets.items() if key != name}
        return Contexts("" if name == self.current else self.current, left)

    def at(self, url: str) -> Target | None:
        """The target with this URL."""
        return next((one for one in self.targets.values() if one.url == url), None)


class Wish(NamedTuple):
    """What flags say about the control plane; None where they say nothing."""

    url: str | None = None
    context: str | None = None
    ca_file: Path | None = None
    config: Path | None = None


def config_path(wish: Wish, environ: Mapping[str, str] = os.environ) -> Path:
    """The file of contexts: flag, TOWLINE_CONFIG, else below XDG_CONFIG_HOME or ~/.config."""
    if wish.config is not None:
        return wish.config
    if "TOWLINE_CONFIG" in environ:
        return Path(environ["TOWLINE_CONFIG"])
    home = environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "towline" / "config.toml"


def resolve(wish: Wish, environ: Mapping[str, str] = os.environ) -> Target:
    """The control plane that is meant: flag, then environment, then file.

    A token goes only to the control plane that it was saved for, or that TOWLINE_URL names beside
    it. Unauthenticated: no control plane is known. Invalid: the file cannot be understood.
    """
    contexts = read(config_path(wish, environ))
    named = environ.get("TOWLINE_URL")
    saved = _saved(contexts, wish, named)
    url = wish.url or (None if wish.context else named)
    target = saved or (Target(normal_url(url)) if url else None)
    if target is None:
        raise Unauthenticated(
            "not signed in: run `towline login URL`, or set TOWLINE_URL and TOWLINE_TOKEN"
        )
    is_meant = not named or normal_url(named) == target.url
    token = _secret("TOWLINE_TOKEN", environ) if is_meant else ""
    ca_file = wish.ca_file or environ.get("TOWLINE_CA_FILE")
    if token:
        target = target._replace(token=token, refresh="", expires=0)
    return target._replace(
        ca=_read_text(Path(ca_file)) if ca_file else target.ca,
    )


def normal_url(url: str) -> str:
    """The URL without a slash at its end; https where nothing is said. Invalid: not a URL."""
    full = url if "://" in url else f"https://{url}"
    if not full.startswith(("https://", "http://")) or len(full.split("/", 3)[2]) == 0:
        raise Invalid(f"{url!r} is not an http or https URL", field="url")
    return full.rstrip("/")


def read(path: Path) -> Contexts:
    """The contexts of a file; none without the file. Invalid: it cannot be understood."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None
    data = _as_written(text) or _parse(path, text)
    if unknown := data.keys() - {"current", "contexts"}:
        raise Invalid(f"{path}: unknown key {min(unknown)}")
    targets = data.get("contexts", {})
    return Contexts(
        _text(data.get("current", ""), path, "current"),
        {name: _target(path, name, one) for name, one in targets.items()},
    )


def write(path: Path, contexts: Contexts) -> None:
    """Keep contexts in a file that only its owner may read, whole or not at all."""
    lines = [f"current = {_quote(contexts.current)}\n"]
    for name, target in contexts.targets.items():
        lines += [f"\n[contexts.{_quote(name)}]\n", f"url = {_quote(target.url)}\n"]
        lines += [f"token = {_quote(target.token)}\n", f"ca = {_quote(target.ca)}\n"]
        if target.refresh:
            lines.append(f"refresh = {_quote(target.refresh)}\n")
        if target.expires:
            lines.append(f"expires = {target.expires}\n")
    write_private(path, "".join(lines))


def save_token(path: Path, target: Target, token: str, refresh: str, expires: int) -> Target:
    """Keep a new token of a target in the file; which one is current stays."""
    contexts = read(path)
    known = {one.url: name for name, one in contexts.targets.items()}
    name = known.get(target.url) or target.url.split("/", 3)[2]
    saved = target._replace(token=token, refresh=refresh, expires=expires)
    targets = {**contexts.targets, name: saved}
    write(path, Contexts(contexts.current or name, targets))
    return saved


def write_private(path: Path, text: str) -> None:
    """Put text into a file of mode 0600, whole or not at all; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, text.encode())


def _as_written(text: str) -> dict[str, Any] | None:
    """What is in a file that looks as `write` leaves it; None: somebody has edited it.

    Saves the login plugin the third of its time that loading a parser takes.
    """
    data: dict[str, Any] = {"contexts": {}}
    table = data
    try:
        for line in filter(None, text.split("\n")):
            key, equals, value = line.partition(" = ")
            if equals and key.isidentifier() and key not in table:
                table[key] = json.loads(value)
            elif line.startswith(_SECTION) and line.endswith("]"):
                name = json.loads(line[len(_SECTION) : -1])
                if not isinstance(name, str) or name in data["contexts"]:
                    return None
                table = data["contexts"][name] = {}
            else:
                return None
    except ValueError:
        return None
    return data


def _parse(path: Path, text: str) -> dict[str, Any]:
    tomllib = import_module("tomllib")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None


def _saved(contexts: Contexts, wish: Wish, environment_url: str | None) -> Target | None:
    if wish.url:
        return contexts.at(normal_url(wish.url))
    if wish.context:
        if wish.context not in contexts.targets:
            raise Invalid(f"not signed in to {wish.context}: run `towline login URL`")
        return contexts.targets[wish.context]
    if environment_url:
        return contexts.at(normal_url(environment_url))
    return contexts.targets.get(contexts.current)


def _secret(name: str, environ: Mapping[str, str]) -> str:
    if environ.get(name):
        return environ[name]
    file = environ.get(f"{name}_FILE")
    return _read_text(Path(file)).strip() if file else ""


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None


def _target(path: Path, name: str, data: Any) -> Target:
    if not isinstance(data, dict) or "url" not in data:
        raise Invalid(f"{path}: contexts.{name} has no url")
    if unknown := data.keys() - _KEYS:
        raise Invalid(f"{path}: unknown key contexts.{name}.{min(unknown)}")
    expires = data.get("expires", 0)
    if not isinstance(expires, int):
        raise Invalid(f"{path}: contexts.{name}.expires is not a number")
    texts = {key: value for key, value in data.items() if key in _TEXTS}
    found = {key: _text(value, path, f"contexts.{name}") for key, value in texts.items()}
    return Target(**found, expires=expires)


def _text(value: Any, path: Path, place: str) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{path}: {place} is not text")
    return value


def _quote(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
