"""Plain manifests of a local folder as a bundle."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import yaml

from fleet.bundle import MAX_BUNDLE_BYTES, Bundle, make_bundle
from fleet.errors import Invalid
from syncagent.domain.mirrors import Definition
from syncagent.ports import Rendered, Renders

_SUFFIXES = {".yaml", ".yml", ".json"}


class FolderRenders:
    """Fills in `ports.Renders`; what names a repository is left to `repositories`."""

    def __init__(self, root: Path, repositories: Renders | None = None) -> None:
        self._root = root
        self._repositories = repositories

    async def render(self, definition: Definition) -> Rendered:
        if definition.repository and self._repositories is not None:
            return await self._repositories.render(definition)
        if definition.repository:
            raise Invalid(f"this agent has no git part: it cannot read {definition.repository}")
        return Rendered(await asyncio.to_thread(self._bundle, definition))

    def _bundle(self, definition: Definition) -> Bundle:
        folder = (self._root / definition.folder).resolve()
        if not folder.is_relative_to(self._root.resolve()):
            raise Invalid(f"the folder {definition.folder} leads out of its place")
        if not folder.is_dir():
            raise Invalid(f"the folder {definition.folder} is not there")
        files = sorted(one for one in folder.rglob("*") if one.suffix in _SUFFIXES)
        if sum(one.stat().st_size for one in files) > MAX_BUNDLE_BYTES:
            raise Invalid(f"more than {MAX_BUNDLE_BYTES:,} bytes in {definition.folder}")
        return make_bundle(raw for path in files for raw in _objects(path))


def _objects(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes()
    try:
        whole = [orjson.loads(text)] if path.suffix == ".json" else list(yaml.safe_load_all(text))
    except (orjson.JSONDecodeError, yaml.YAMLError, RecursionError) as error:
        raise Invalid(f"{path.name} cannot be read: {str(error).splitlines()[0]}") from error
    found = [one for one in whole if one is not None]
    if not all(isinstance(one, dict) for one in found):
        raise Invalid(f"{path.name} holds something that is no object")
    return found
