"""The registered kinds of sources of secrets, and the places that a new one needs."""

import importlib
import inspect
import json
import pkgutil
import re
from dataclasses import fields
from pathlib import Path

import pytest

from controlplane.api.plugin_kinds import plugin_kinds
from controlplane.platform.plugin_settings import setting_fields
from controlplane.secrets import sources
from controlplane.secrets.api import SecretSourceType
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.sources import SOURCES, source_from_json, source_to_json
from core.errors import Invalid

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/how-to/secrets.md").read_text()
KINDS = ROOT / "towline/cli/shell/plugin_kinds.json"
each_kind = pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.kind)


def filled(kind: type[SecretSource]) -> SecretSource:
    return kind(**{member.name: f"the {member.name}" for member in fields(kind)})


def test_each_source_of_the_package_is_registered_once() -> None:
    for found in pkgutil.iter_modules(sources.__path__):
        importlib.import_module(f"{sources.__name__}.{found.name}")
    named = {kind.__name__ for kind in SecretSource.__subclasses__()}
    missing = sorted(named - {kind.__name__ for kind in SOURCES})
    assert missing == [], f"add {missing} to SOURCES in controlplane/secrets/sources/__init__.py"
    assert len({kind.kind for kind in SOURCES}) == len(SOURCES)


@each_kind
def test_a_source_is_complete(kind: type[SecretSource]) -> None:
    assert kind.kind == kind.kind.upper()
    assert kind.title and kind.summary()
    assert not inspect.isabstract(kind)
    assert {member.name for member in setting_fields(kind)} == {one.name for one in fields(kind)}


@each_kind
def test_each_setting_can_be_read(kind: type[SecretSource]) -> None:
    readable = set(SecretSourceType.__annotations__)
    for member in setting_fields(kind):
        assert member.public_name in readable, (
            f"add {member.public_name} to SecretSourceType in controlplane/secrets/api.py"
        )


@each_kind
def test_the_stored_form_keeps_every_setting(kind: type[SecretSource]) -> None:
    stored = json.loads(json.dumps(source_to_json(filled(kind))))
    assert source_from_json(stored) == filled(kind)


@each_kind
def test_an_empty_setting_is_refused_by_name(kind: type[SecretSource]) -> None:
    for member in setting_fields(kind):
        values = {one.name: f"the {one.name}" for one in fields(kind)} | {member.name: " "}
        with pytest.raises(Invalid, match=f"source.{member.published}: must not be empty"):
            kind(**values).checked()


@each_kind
def test_the_guide_describes_each_source(kind: type[SecretSource]) -> None:
    assert re.search(rf"^\| `{kind.kind.lower()}` \|", GUIDE, re.MULTILINE), (
        f"add `{kind.kind.lower()}` to the table of docs/how-to/secrets.md"
    )


def test_the_console_knows_each_source() -> None:
    assert json.loads(KINDS.read_text()) == plugin_kinds(), "run make schema"
