"""Bundles from plain manifests in a local folder."""

import asyncio
from functools import partial
from pathlib import Path

import orjson
import yaml

from core.errors import Invalid, Unavailable
from core.spec.bundle import MAX_BUNDLE_BYTES, Bundle, make_bundle
from syncagent.autonomy.alias_size import expanded
from syncagent.autonomy.definitions import YAML_ERRORS, BoundedYamlLoader, first_line
from syncagent.domain.local_services import ServiceDefinition
from syncagent.ports import LocalRender, LocalRenders

_SUFFIXES = {".yaml", ".yml", ".json"}
Stamp = tuple[tuple[str, int, int], ...]


class FolderRenders:
    """Implements `ports.LocalRenders`; `repositories` handles definitions with a repository.
    Files are read again only after the size or modification time of one has changed.
    """

    def __init__(self, root: Path | None, repositories: LocalRenders | None = None) -> None:
        self._root = root
        self._repositories = repositories
        self._cached: dict[str, tuple[Stamp, LocalRender]] = {}

    async def render(self, definition: ServiceDefinition) -> LocalRender:
        if definition.repository and self._repositories is not None:
            return await self._repositories.render(definition)
        if definition.repository:
            raise Invalid(
                f"this agent runs without git support and cannot read {definition.repository}"
            )
        if self._root is None:
            raise Invalid(
                "the service names no repository, and this agent has no folder of services"
            )
        return await asyncio.to_thread(self._render, self._root, definition.folder)

    def _render(self, root: Path, folder: str) -> LocalRender:
        try:
            files = _list_files(root, folder)
            versions = tuple(_file_version(file) for file in files)
            cached = self._cached.get(folder)
            if cached is not None and cached[0] == versions:
                return cached[1]
            bundle = _build_bundle(files)
        except OSError as error:
            raise Unavailable(f"{error.filename} cannot be read: {error.strerror}") from error
        rendered = LocalRender(
            bundle.digest, len(bundle.data), partial(_rebuild, files, bundle.digest)
        )
        self._cached[folder] = (versions, rendered)
        return rendered


def _list_files(root: Path, name: str) -> list[Path]:
    try:
        folder = (root / name).resolve()
    except ValueError as error:
        raise Invalid(f"{name!r} is not a valid folder name: {error}") from None
    if not folder.is_relative_to(root.resolve()):
        raise Invalid(f"the folder {name} leads outside its root")
    if not folder.is_dir():
        raise Invalid(f"the folder {name} does not exist")
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    if sum(file.stat().st_size for file in files) > MAX_BUNDLE_BYTES:
        raise Invalid(f"more than {MAX_BUNDLE_BYTES:,} bytes in {name}")
    return files


def _file_version(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path), status.st_size, status.st_mtime_ns


def _build_bundle(files: list[Path]) -> Bundle:
    return make_bundle(raw for path in files for raw in _parse_objects(path))


async def _rebuild(files: list[Path], digest: str) -> bytes:
    """Builds the bundle's bytes again. Unavailable: the files have changed since."""
    bundle = await asyncio.to_thread(_build_bundle, files)
    if bundle.digest != digest:
        raise Unavailable("the folder changed while it was being read; retrying")
    return bundle.data


def _parse_objects(path: Path) -> list[dict[str, object]]:
    text = path.read_bytes()
    try:
        whole = (
            [orjson.loads(text)]
            if path.suffix == ".json"
            else list(yaml.load_all(text, BoundedYamlLoader))
        )
    except YAML_ERRORS as error:
        raise Invalid(f"{path.name} cannot be read: {first_line(error)}") from error
    if b"&" in text and expanded(whole) > MAX_BUNDLE_BYTES:
        raise Invalid(f"{path.name} grows beyond {MAX_BUNDLE_BYTES:,} bytes by its aliases")
    found = [document for document in whole if document is not None]
    if not all(isinstance(document, dict) for document in found):
        raise Invalid(f"{path.name} contains a document that is not an object")
    return found
