"""Writes the file of contexts, which `contexts.py` reads."""

import json
from pathlib import Path

from core.runtime.atomic_files import write_atomically
from towline.contexts import ControlPlaneTarget, FilePath, SavedContexts, read


def write(path: FilePath, contexts: SavedContexts) -> None:
    """Writes contexts to a file, atomically and with mode 0600."""
    lines = [f"current = {_quote(contexts.current)}\n"]
    for name, target in contexts.targets.items():
        lines += [f"\n[contexts.{_quote(name)}]\n", f"url = {_quote(target.url)}\n"]
        lines += [f"token = {_quote(target.token)}\n", f"ca = {_quote(target.ca)}\n"]
        if target.refresh:
            lines.append(f"refresh = {_quote(target.refresh)}\n")
        if target.expires:
            lines.append(f"expires = {target.expires}\n")
    write_private(path, "".join(lines))


def save_token(
    path: FilePath, target: ControlPlaneTarget, token: str, refresh: str, expires: int
) -> ControlPlaneTarget:
    """Saves a new token of a target, without changing the current context."""
    contexts = read(path)
    name_by_url = {target.url: name for name, target in contexts.targets.items()}
    name = name_by_url.get(target.url) or target.url.split("/", 3)[2]
    saved = target._replace(token=token, refresh=refresh, expires=expires)
    targets = {**contexts.targets, name: saved}
    write(path, SavedContexts(contexts.current or name, targets))
    return saved


def write_private(path: FilePath, text: str) -> None:
    """Writes text to a file, atomically and with mode 0600; creates its folder."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, text.encode())


def _quote(text: str) -> str:
    """Formats a TOML basic string: JSON's escapes are a subset of TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
