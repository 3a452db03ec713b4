"""Places that define a cluster's own services: files in a folder, ConfigMaps, or a folder
in git.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import orjson

from core.errors import Invalid, Unavailable
from core.spec.bundle import KubeObject
from syncagent.domain.local_services import Document, ServiceDefinition
from syncagent.domain.objects import metadata_of
from syncagent.ports import ConfigMaps, LocalRenders

LABEL: Final = "towline.dev/services"
_MAX_FILES = 1000
_MAX_FILE = 1 << 20
_SUFFIXES = {".yaml", ".yml"}


class DefinitionFolder:
    """The YAML files of a folder; subfolders hold manifests and are not read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def documents(self) -> Sequence[Document]:
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[Document]:
        if not self._folder.is_dir():
            raise Invalid(f"the folder of services {self._folder} does not exist")
        try:
            files = sorted(path for path in self._folder.iterdir() if path.suffix in _SUFFIXES)
            if len(files) > _MAX_FILES:
                raise Invalid(f"{len(files)} files of services; at most {_MAX_FILES} are supported")
            return [Document(file.name, _read_text(file)) for file in files]
        except OSError as error:
            raise Unavailable(f"{error.filename} cannot be read: {error.strerror}") from error


class DefinitionConfigMaps:
    """Each value of the ConfigMaps with the label `towline.dev/services` in one namespace.
    Writers of this namespace control the agent with all of its permissions: reserve it for the
    cluster's operators.
    """

    def __init__(self, configmaps: ConfigMaps, namespace: str) -> None:
        self._configmaps = configmaps
        self._namespace = namespace

    async def documents(self) -> Sequence[Document]:
        return _documents(await self._configmaps.labelled(self._namespace, LABEL))


class DefinitionRepository:
    """The same ConfigMaps, rendered from a folder of a repository, so that the cluster needs none.
    The services they define come from the same repository unless they name another one.
    """

    def __init__(self, renders: LocalRenders, repository: str, ref: str, folder: str) -> None:
        self._renders = renders
        self._root = ServiceDefinition("services", "default", folder, repository, ref)
        self._digest = ""
        self._known: Sequence[Document] = ()

    async def documents(self) -> Sequence[Document]:
        rendered = await self._renders.render(self._root)
        if rendered.digest != self._digest:
            objects = [orjson.loads(line) for line in (await rendered.load()).splitlines()]
            marked = (
                manifest
                for manifest in objects
                if LABEL in (metadata_of(manifest).get("labels") or ())
            )
            self._known = _documents(marked, self._root.repository, self._root.ref)
            self._digest = rendered.digest
        return self._known


def _documents(
    configmaps: Iterable[KubeObject], repository: str = "", ref: str = ""
) -> list[Document]:
    return [
        Document(
            f"ConfigMap {metadata_of(configmap).get('name')}: {key}", str(text), repository, ref
        )
        for configmap in configmaps
        for key, text in sorted((configmap.get("data") or {}).items())
    ]


def _read_text(path: Path) -> str:
    """Reads a file as text; the parser finds invalid bytes."""
    with path.open("rb") as file:
        return file.read(_MAX_FILE).decode(errors="replace")
