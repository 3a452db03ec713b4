"""The registered kinds of sinks, and the places that a new one needs."""

import importlib
import inspect
import json
import pkgutil
from dataclasses import fields
from pathlib import Path

import pytest

from controlplane.api.plugin_kinds import plugin_kinds
from controlplane.notifications import sinks
from controlplane.notifications.model.sink_kind import CommitSink, SinkKind, UrlSink
from controlplane.notifications.sinks import SINKS
from controlplane.platform.plugin_settings import setting_fields
from core.errors import Invalid
from towline.cli.reports.notifications import sink_configuration
from towline.cli.shell.plugin_kinds import SINK_KINDS

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/how-to/notifications.md").read_text()
each_kind = pytest.mark.parametrize("kind", SINKS, ids=lambda kind: kind.kind)


def subclasses(kind: type) -> set[type]:
    return {kind}.union(*(subclasses(each) for each in kind.__subclasses__()))


def test_each_sink_of_the_package_is_registered_once() -> None:
    for found in pkgutil.iter_modules(sinks.__path__):
        importlib.import_module(f"{sinks.__name__}.{found.name}")
    named = {kind for kind in subclasses(SinkKind) if kind.__module__.startswith(sinks.__name__)}
    missing = sorted({kind.__name__ for kind in named} - {kind.__name__ for kind in SINKS})
    assert missing == [], f"add {missing} to SINKS in controlplane/notifications/sinks/__init__.py"
    assert len({kind.kind for kind in SINKS}) == len(SINKS)


@each_kind
def test_a_sink_says_its_name_title_and_field(kind: type[SinkKind]) -> None:
    assert kind.kind == kind.kind.upper()
    assert kind.title and kind.key and kind.summary()
    assert not inspect.isabstract(kind)


@each_kind
def test_settings_are_never_printed(kind: type[SinkKind]) -> None:
    settings = kind(**{field.name: f"{field.name}-secret" for field in fields(kind)})
    assert "secret" not in repr(settings), f"{kind.__name__} needs @dataclass(repr=False)"


@each_kind
def test_each_setting_is_published(kind: type[SinkKind]) -> None:
    """A field without a `Setting` cannot be set by users."""
    assert {member.name for member in setting_fields(kind)} == {one.name for one in fields(kind)}


@each_kind
def test_the_guide_describes_each_sink(kind: type[SinkKind]) -> None:
    rows = [line for line in GUIDE.splitlines() if line.startswith("|")]
    assert any(f"`{kind.kind.lower()}`" in row for row in rows), (
        f"add `{kind.kind.lower()}` to the table of docs/how-to/notifications.md"
    )


def test_the_commands_know_each_sink() -> None:
    generated = json.loads(json.dumps(plugin_kinds()))["sinks"]
    assert generated == SINK_KINDS, "run make schema"


def test_settings_of_another_kind_are_refused() -> None:
    assert sink_configuration("SLACK", {"url": "u", "token": None}) == {"slack": {"url": "u"}}
    with pytest.raises(Invalid, match="--token-file: a slack sink has no token"):
        sink_configuration("SLACK", {"url": "u", "token": "t"})
    with pytest.raises(Invalid, match="--repository: a github sink needs it"):
        sink_configuration("GITHUB", {"token": "t"})


@each_kind
def test_a_sink_accepts_audit_rows_or_commits_but_not_both(kind: type[SinkKind]) -> None:
    assert not (kind.takes_audit and kind.of_commits)
    assert issubclass(kind, CommitSink if kind.of_commits else UrlSink | SinkKind)
    forwards = kind.forward is not SinkKind.forward
    assert forwards == kind.takes_audit, "a sink that takes audit rows overrides `forward`"
