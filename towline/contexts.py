"""Reads saved sign-ins from `~/.config/towline/config.toml` (mode 0600).

Imports only fast modules of the standard library (no dataclasses, no pathlib): the kubectl
credential plugin reads the file on every kubectl command. `context_file.py` writes it.
"""

import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from core.errors import Invalid, Unauthenticated
from core.json_object import JsonObject, JsonValue

_TEXTS = frozenset({"url", "token", "ca", "refresh"})
_KEYS = _TEXTS | {"expires"}
_SECTION = "[contexts."
_MAX_BYTES = 4 << 20
FilePath = str | os.PathLike[str]


class ControlPlaneTarget(NamedTuple):
    """Address and credentials of a control plane.

    `ca`: PEM text to trust instead of the system's CAs. `refresh`: refresh token. `expires`: expiry
    of the token in seconds since 1970; 0 if unknown.
    """

    url: str
    token: str = ""
    ca: str = ""
    refresh: str = ""
    expires: int = 0

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


class SavedContexts(NamedTuple):
    """Saved control planes by name, and the name of the current one."""

    current: str = ""
    targets: Mapping[str, ControlPlaneTarget] = MappingProxyType({})

    def with_target(self, name: str, target: ControlPlaneTarget) -> "SavedContexts":
        """Adds a context and makes it the current one."""
        return SavedContexts(name, {**self.targets, name: target})

    def without(self, name: str) -> "SavedContexts":
        """Removes a context. Raises Invalid if the name is unknown."""
        if name not in self.targets:
            raise Invalid(f"not signed in to {name or 'any control plane'}")
        remaining = {key: value for key, value in self.targets.items() if key != name}
        return SavedContexts("" if name == self.current else self.current, remaining)

    def find_by_url(self, url: str) -> ControlPlaneTarget | None:
        """Target with this URL, or None."""
        return next((target for target in self.targets.values() if target.url == url), None)


class GlobalFlags(NamedTuple):
    """Global flags that select the control plane; None for a flag that is not set."""

    url: str | None = None
    context: str | None = None
    ca_file: FilePath | None = None
    config: FilePath | None = None


def config_path(global_flags: GlobalFlags, environ: Mapping[str, str] = os.environ) -> FilePath:
    """Path of the context file: flag, TOWLINE_CONFIG, XDG_CONFIG_HOME, then ~/.config."""
    if global_flags.config is not None:
        return global_flags.config
    if "TOWLINE_CONFIG" in environ:
        return environ["TOWLINE_CONFIG"]
    home = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(home, "towline", "config.toml")


def resolve(
    global_flags: GlobalFlags, environ: Mapping[str, str] = os.environ
) -> ControlPlaneTarget:
    """Selects the control plane: flags, then environment, then file.

    A token is only sent to the control plane it was saved for, or to TOWLINE_URL if TOWLINE_TOKEN
    is set. Unauthenticated: no control plane is configured. Invalid: malformed file.
    """
    contexts = read(config_path(global_flags, environ))
    environment_url = environ.get("TOWLINE_URL")
    saved = _saved_target(contexts, global_flags, environment_url)
    url = global_flags.url or (None if global_flags.context else environment_url)
    target = saved or (ControlPlaneTarget(normal_url(url)) if url else None)
    if target is None:
        raise Unauthenticated(
            "not signed in: run `towline login URL`, or set TOWLINE_URL and TOWLINE_TOKEN"
        )
    matches_environment = not environment_url or normal_url(environment_url) == target.url
    token = _read_secret("TOWLINE_TOKEN", environ) if matches_environment else ""
    ca_file = global_flags.ca_file or environ.get("TOWLINE_CA_FILE")
    if token:
        target = target._replace(token=token, refresh="", expires=0)
    return target._replace(
        ca=_read_text(ca_file) if ca_file else target.ca,
    )


def normal_url(url: str) -> str:
    """Normalizes a URL: no trailing slash, https by default. Raises Invalid."""
    full = url if "://" in url else f"https://{url}"
    if not full.startswith(("https://", "http://")) or len(full.split("/", 3)[2]) == 0:
        raise Invalid(f"{url!r} is not an http or https URL", field="url")
    return full.rstrip("/")


def read(path: FilePath) -> SavedContexts:
    """Reads the contexts of a file; empty if it does not exist. Invalid: malformed file."""
    try:
        text = _read_utf8(path)
    except FileNotFoundError:
        return SavedContexts()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None
    data = _parse_written_form(text) or _parse(path, text)
    if unknown := data.keys() - {"current", "contexts"}:
        raise Invalid(f"{path}: unknown key {min(unknown)}")
    targets = data.get("contexts", {})
    return SavedContexts(
        _checked_text(data.get("current", ""), path, "current"),
        {name: _parse_target(path, name, target) for name, target in targets.items()},
    )


def _parse_written_form(text: str) -> JsonObject | None:
    """Parses a file in exactly the form that `write` produces; None for an edited file.

    Saves the login plugin a third of its time, which loading `tomllib` would take.
    """
    data: JsonObject = {"contexts": {}}
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


def _parse(path: FilePath, text: str) -> JsonObject:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path} is not TOML: {error}") from None


def _saved_target(
    contexts: SavedContexts, global_flags: GlobalFlags, environment_url: str | None
) -> ControlPlaneTarget | None:
    if global_flags.url:
        return contexts.find_by_url(normal_url(global_flags.url))
    if global_flags.context:
        if global_flags.context not in contexts.targets:
            raise Invalid(f"not signed in to {global_flags.context}: run `towline login URL`")
        return contexts.targets[global_flags.context]
    if environment_url:
        return contexts.find_by_url(normal_url(environment_url))
    return contexts.targets.get(contexts.current)


def _read_secret(name: str, environ: Mapping[str, str]) -> str:
    if environ.get(name):
        return environ[name]
    file = environ.get(f"{name}_FILE")
    return _read_text(file).strip() if file else ""


def _read_utf8(path: FilePath) -> str:
    with open(path, "rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise Invalid(f"{path} is larger than {_MAX_BYTES:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not a text file") from None


def _read_text(path: FilePath) -> str:
    try:
        return _read_utf8(path)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}") from None


def _parse_target(path: FilePath, name: str, data: object) -> ControlPlaneTarget:
    if not isinstance(data, dict) or "url" not in data:
        raise Invalid(f"{path}: contexts.{name} has no url")
    if unknown := data.keys() - _KEYS:
        raise Invalid(f"{path}: unknown key contexts.{name}.{min(unknown)}")
    expires = data.get("expires", 0)
    if not isinstance(expires, int):
        raise Invalid(f"{path}: contexts.{name}.expires is not a number")
    texts = {key: value for key, value in data.items() if key in _TEXTS}
    checked = {key: _checked_text(value, path, f"contexts.{name}") for key, value in texts.items()}
    return ControlPlaneTarget(**checked, expires=expires)


def _checked_text(value: JsonValue, path: FilePath, field: str) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{path}: {field} is not text")
    return value
