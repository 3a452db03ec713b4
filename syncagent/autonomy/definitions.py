"""Services as files of a folder define them: one YAML document each.

name: shop
namespace: shop
folder: manifests/shop        # beside this file; or in `repository`, at `ref`
options: {createNamespace: true, drift: report, keepOnPrune: false}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from fleet.errors import Invalid
from syncagent.domain.mirrors import Definition
from syncagent.domain.services import DriftPolicy, SyncOptions

MOST_FILES = 1000
LONGEST_FILE = 256 << 10
_FIELDS = {"name", "namespace", "folder", "repository", "ref", "options"}
_OPTIONS = {
    "createNamespace": "create_namespace",
    "keepOnPrune": "keep_on_prune",
    "replaceImmutable": "replace_immutable",
    "paused": "paused",
    "dryRun": "dry_run",
}


@dataclass(frozen=True, slots=True)
class Definitions:
    """What was read. `problems`: files from which nothing may be concluded, and why."""

    services: tuple[Definition, ...]
    problems: tuple[str, ...]


def read_definitions(folder: Path) -> Definitions:
    """All definitions of a folder. Invalid: it is not there, or holds too much."""
    if not folder.is_dir():
        raise Invalid(f"the folder of services {folder} is not there")
    files = sorted(one for one in folder.iterdir() if one.suffix in {".yaml", ".yml"})
    if len(files) > MOST_FILES:
        raise Invalid(f"{len(files)} files of services; {MOST_FILES} at most")
    found: dict[str, Definition] = {}
    problems = []
    for path in files:
        try:
            for one in _documents(path):
                if one.name in found:
                    raise Invalid(f"the service {one.name} is defined twice")
                found[one.name] = one
        except (Invalid, OSError) as error:
            problems.append(f"{path.name}: {error}")
    return Definitions(tuple(found.values()), tuple(problems))


def _documents(path: Path) -> list[Definition]:
    if path.stat().st_size > LONGEST_FILE:
        raise Invalid(f"longer than {LONGEST_FILE:,} bytes")
    try:
        raws = list(yaml.safe_load_all(path.read_text()))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"is not YAML: {str(error).splitlines()[0]}") from error
    return [_definition(raw) for raw in raws if raw is not None]


def _definition(raw: Any) -> Definition:
    if not isinstance(raw, dict) or not raw.keys() <= _FIELDS:
        raise Invalid(f"a service has the fields {', '.join(sorted(_FIELDS))}, no others")
    texts = {name: raw[name] for name in _FIELDS - {"options"} if name in raw}
    if not all(isinstance(one, str) and one for one in texts.values()):
        raise Invalid("name, namespace, folder, repository and ref are texts")
    if missing := {"name", "namespace", "folder"} - texts.keys():
        raise Invalid(f"{', '.join(sorted(missing))} is missing")
    if PurePosixPath(texts["folder"]).is_absolute() or ".." in PurePosixPath(texts["folder"]).parts:
        raise Invalid(f"the folder {texts['folder']} leads out of its place")
    return Definition(**texts, options=_options(raw.get("options") or {}))


def _options(raw: Mapping[str, Any]) -> SyncOptions:
    if not isinstance(raw, dict) or not raw.keys() <= {*_OPTIONS, "drift"}:
        raise Invalid(f"options are {', '.join([*_OPTIONS, 'drift'])}, no others")
    given: dict[str, Any] = {field: raw[name] for name, field in _OPTIONS.items() if name in raw}
    if not all(isinstance(one, bool) for one in given.values()):
        raise Invalid("options but drift are true or false")
    drift = raw.get("drift", DriftPolicy.HEAL.value)
    if drift not in set(DriftPolicy):
        raise Invalid(f"drift is {', '.join(DriftPolicy)}")
    given.setdefault("create_namespace", True)
    return SyncOptions(**given, drift=DriftPolicy(drift))
