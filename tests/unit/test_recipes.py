"""The recipes of CONTRIBUTING name each place of their examples, and only existing files.

A new place, or a moved one, fails here until the recipe names it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("core", "controlplane", "syncagent", "gitcache", "proxy", "towline", "console/src")
SUFFIXES = (".json", ".py", ".pyi", ".proto", ".ts", ".tsx", ".graphql")
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:graphql|toml))`")
CONSTANT = re.compile(r"`(_[A-Z_]+)`")
FIELD, GATE = "Adding a field", "Adding a kind of gate"
RENDERER, SINK = "Adding a renderer", "Adding a kind of sink"
SOURCE, WIRE = "Adding an external source of secrets", "Adding a message to the wire"


GENERATED = frozenset(f"console/src/api/{name}.ts" for name in ("generated", "inputs", "kinds"))
"""Files of `npm run generate`."""


class Example(NamedTuple):
    """An example of a recipe: its files are those below `folders` that match `pattern`."""

    recipe: str
    pattern: str
    folders: tuple[str, ...] = (*SOURCES, "schema.graphql")
    others: frozenset[str] = frozenset()
    """Files with another meaning of the same word, and code that acts on the value."""


EXAMPLES = (
    Example(FIELD, "docs_path|docsPath"),
    Example(
        FIELD,
        "protect",
        ("controlplane/services", "controlplane/generators", "towline", "console/src"),
        frozenset(
            {
                "console/src/clusters/clusters.graphql",
                "console/src/clusters/groups.graphql",
                "console/src/clusters/operations.ts",
                "controlplane/services/operations/removal.py",
                "towline/cli/clusters/clusters.graphql",
                "towline/cli/clusters/clusters.py",
                "towline/cli/clusters/generated.py",
            }
        ),
    ),
    Example(
        GATE,
        "SoakRule|SOAK",
        others=GENERATED,
    ),
    Example(GATE, "VersionRule|VERSION", ("controlplane/pipelines", "console/src"), GENERATED),
    Example(GATE, "emptyPasses", (*SOURCES, "schema.graphql"), GENERATED),
    Example(
        RENDERER,
        "(?i:r?jsonnet)",
        (*SOURCES, "pyproject.toml"),
        frozenset({"gitcache/render/jsonnet.py", "console/src/api/generated.ts"}),
    ),
    Example(
        SINK,
        "TeamsSink|TEAMS|teams",
        (*SOURCES, "schema.graphql", "towline/cli/shell/plugin_kinds.json"),
        frozenset({"controlplane/notifications/sinks/teams.py", "console/src/api/generated.ts"}),
    ),
    Example(
        SOURCE,
        "VaultSource|KvStore",
        (*SOURCES, "schema.graphql"),
        frozenset(
            {"controlplane/secrets/sources/vault.py", "controlplane/secrets/backends/vault.py"}
        ),
    ),
    Example(
        WIRE,
        r"VerificationResult|pb\.Verified",
        ("core/wire", "controlplane/agents", "syncagent/link", "syncagent/ports.py"),
    ),
    Example(
        WIRE,
        r"DriftFound|pb\.Drift",
        ("core/wire", "core/spec/reports/report.py", "controlplane/agents", "syncagent/link"),
    ),
    Example(WIRE, "MetricCheck", ("core/wire", "controlplane/agents", "syncagent/state")),
    Example(
        WIRE,
        r"CANCEL_JOB|CancelJob|cancel_job",
        ("core/wire", "controlplane/agents", "controlplane/clusters", "syncagent/link"),
        frozenset({"controlplane/agents/operations/jobs.py"}),
    ),
)


@cache
def recipes() -> dict[str, str]:
    return dict(SECTION.findall((ROOT / "CONTRIBUTING.md").read_text()))


def named_by(recipe: str) -> set[str]:
    """The paths in code font of a recipe. A path is complete: nothing stands for its folder."""
    return set(NAMED.findall(recipes()[recipe]))


def files(folders: Iterable[str]) -> Iterator[Path]:
    for name in folders:
        start = ROOT / name
        found = sorted(start.rglob("*")) if start.is_dir() else [start]
        yield from (path for path in found if start == path or path.suffix in SUFFIXES)


def places(example: Example) -> set[str]:
    """The files with a match; of migrations, their folder."""
    word = re.compile(rf"(?<![\w-])(?:{example.pattern})(?!\w)")
    found = set()
    for path in files(example.folders):
        if word.search(path.read_text()):
            name = str(path.relative_to(ROOT))
            found.add(re.sub(r"(/migrations/versions/).+", r"\1", name))
    return found - example.others


@pytest.mark.parametrize("recipe", [FIELD, GATE, RENDERER, SINK, SOURCE, WIRE])
def test_each_path_of_a_recipe_exists(recipe: str) -> None:
    named = named_by(recipe)
    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_each_constant_of_a_recipe_exists_in_a_file_that_it_names() -> None:
    constants = set(CONSTANT.findall(recipes()[FIELD]))
    named = [ROOT / path for path in named_by(FIELD) if path.endswith(".py")]
    code = "\n".join(path.read_text() for path in named)
    assert constants
    assert {name for name in constants if not re.search(rf"^{name}\b", code, re.MULTILINE)} == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.pattern[:20])
def test_a_recipe_names_each_place_of_its_example(example: Example) -> None:
    found = places(example)
    assert found
    assert found - named_by(example.recipe) == set()


@pytest.mark.parametrize(
    ("recipe", "console"),
    [(FIELD, "console/src/services/"), (GATE, "console/src/api/")],
)
def test_a_recipe_includes_the_console(recipe: str, console: str) -> None:
    assert [path for path in named_by(recipe) if path.startswith(console)]


def test_a_recipe_of_the_wire_says_which_stubs_are_generated() -> None:
    stubs = {f"core/wire/v1/{path.name}" for path in (ROOT / "core/wire/v1").glob("agent_pb2.*")}
    assert stubs <= named_by(WIRE)


def test_a_missing_place_is_found() -> None:
    """The check itself: a field that no recipe describes has places that no recipe names."""
    example = Example(FIELD, "fleet_map")
    assert places(example) - named_by(FIELD)
