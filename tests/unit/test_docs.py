"""Documentation names only what exists."""

import json
import re
import runpy
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml
from graphql import parse, validate
from pydantic import BaseModel

from controlplane.kinds import all_kinds
from controlplane.manifests.model.documents import DocumentProblem, Source
from controlplane.manifests.operations.manifests import Manifests
from controlplane.manifests.operations.reading import DocumentReader
from controlplane.notifications.sinks import SINKS
from controlplane.platform.store.schema import metadata
from syncagent import settings as agent
from tests.fakes.api import FakeApi
from tests.fakes.empty_control_plane import schema
from tests.fakes.manifest_world import kind_operations
from tests.fakes.operations import operations_over_memory
from towline.cli.manifests.generated import MANIFEST_SCHEMA
from towline.cli.manifests.values import fill_secret_values
from towline.settings import ServeSettings

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
# Each worker would build the command line and its page anew.
pytestmark = pytest.mark.xdist_group("docs")
PACKAGES = ("core", "controlplane", "syncagent", "gitcache", "proxy", "towline")

LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?<![\w./-])towline((?: [a-z]+(?:-[a-z]+)*)+)")
TARGET = re.compile(r"(?<![\w-])make ([a-z]+)\b")
CODE = re.compile(r"`([^`\n]+)`")
SOURCE_PATH = re.compile(
    rf"(?<![\w/.-])(?:{'|'.join(PACKAGES)}|bench|tests|docs|charts|console)/[\w/.-]*"
)


MODULE = re.compile(r"^[\w/]+\.py$")
DOTTED = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.[a-z_]+)+\.[A-Z]\w+")


@cache
def modules() -> frozenset[str]:
    """The paths of all our modules, with a slash in front."""
    folders = [ROOT / name for name in (*PACKAGES, "bench", "tests", "docs")]
    found = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    return frozenset(f"/{path.relative_to(ROOT)}" for path in found)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """The fenced blocks of a page in one of these languages."""
    for language, text in FENCE.findall(page.read_text()):
        if language in languages:
            yield text


def code_of(page: Path) -> list[str]:
    """Code that a page asks one to type: shell blocks, and code in running text."""
    return [*blocks(page, "sh"), *CODE.findall(FENCE.sub("", page.read_text()))]


@cache
def generator() -> dict[str, Any]:
    """The names of docs/generate.py; what it reads from the program it reads once."""
    names = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    return names | {"commands": cache(names["commands"]), "page": cache(names["page"])}


def anchors(page: Path) -> set[str]:
    """The anchors of a page: those that it sets, and those of its headings as GitHub forms them."""
    text = FENCE.sub("", page.read_text())
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return set(re.findall(r'<a id="([^"]+)">', text)) | {
        re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist_in_the_program(page: Path) -> None:
    """Words behind `towline` are a command, up to the first that the command takes itself."""
    commands = generator()["commands"]()
    groups = {one.rpartition(" ")[0] for one in commands}
    unknown = []
    for words in (found for code in code_of(page) for found in COMMAND.findall(code)):
        named = "towline"
        for word in words.split():
            if named not in groups:
                break
            named = f"{named} {word}"
        if named not in commands:
            unknown.append(named)
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_exist_in_their_page(page: Path) -> None:
    """A long option of a `towline` line in a shell block is in the reference of commands."""
    known = set(re.findall(r"--[a-z-]+", generator()["page"]()))
    lines = [
        line
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("towline ")
    ]
    used = {option for line in lines for option in re.findall(r" (--[a-z-]+)", line)}
    assert used - known == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {target for code in code_of(page) for target in TARGET.findall(code)}
    assert named - targets == set()


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", ROOT / "docs/explanation/architecture.md"], ids=name_of
)
def test_paths_that_are_named_exist(page: Path) -> None:
    codes = CODE.findall(FENCE.sub("", page.read_text()))
    named = {path for code in codes for path in SOURCE_PATH.findall(code)}
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_modules_that_are_named_exist(page: Path) -> None:
    """A page may omit the folder of a module: `limits.py` is any file of that name."""
    named = {code for code in CODE.findall(FENCE.sub("", page.read_text())) if MODULE.match(code)}
    assert {name for name in named if not any(f.endswith(f"/{name}") for f in modules())} == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_dotted_names_exist(page: Path) -> None:
    """`controlplane.platform.ports.Store` is a name in a module."""
    missing = []
    for code in CODE.findall(FENCE.sub("", page.read_text())):
        if DOTTED.fullmatch(code):
            module, _, name = code.rpartition(".")
            if not hasattr(import_module(module), name):
                missing.append(code)
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_in_the_architecture(package: str) -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    inner = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert {name for name in inner if f"`{package}/{name}/`" not in text} == set()


def import_contracts() -> Iterator[tuple[list[str], list[str]]]:
    """The containers and the layers of each contract of .importlinter that has containers."""
    rules = ConfigParser()
    rules.read(ROOT / ".importlinter")
    for section in rules.values():
        if "containers" in section:
            layers = section["layers"].replace("__main__", "")
            yield section["containers"].split(), re.findall(r"\w+", layers)


def test_the_layers_are_those_of_the_import_rules() -> None:
    """The table of layers agrees with .importlinter, name by name and in its order."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    for containers, layers in import_contracts():
        several = len(containers) > 1
        container = "a noun of `controlplane`" if several else f"`{containers[0]}`"
        row = re.search(rf"^\| {container} \| (.+·.+) \|$", text, re.MULTILINE)
        assert row and re.findall(r"\w+", row[1]) == layers, container


def test_the_picture_has_the_nouns_in_their_order() -> None:
    """The boxes of nouns, from top to bottom, are those of the contract about nouns."""
    picture = (ROOT / "docs" / "images" / "controlplane.svg").read_text()
    drawn = re.findall(r'<rect class="agent".*>\n *<text class="text"[^>]*>(\w+)<', picture)
    (nouns,) = (names for names, _ in import_contracts() if len(names) > 1)
    assert [f"controlplane.{noun}" for noun in drawn] == nouns


def test_every_table_of_the_store_is_described() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    assert {name for name in metadata.tables if f"`{name}`" not in text} == set()


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The full names of a model's settings, those of its groups too."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_of(field.annotation, f"{prefix}{name}.")
        elif is_dataclass(field.annotation):
            yield from (f"{prefix}{name}.{one.name}" for one in fields(field.annotation))
        else:
            yield f"{prefix}{name}"


def test_every_setting_is_documented_and_no_other() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    named = set(re.findall(r"^\| `([a-z0-9_.]+)` \|", page, re.MULTILINE))
    assert named == set(settings_of(ServeSettings))


def test_every_setting_of_the_agent_is_documented_and_no_other() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    exist = {
        f"{agent.PREFIX}{group.upper()}_{field.name.upper()}"
        for group, kind in get_type_hints(agent.Settings).items()
        for field in fields(kind)
    }
    named = set(re.findall(rf"^\| `({agent.PREFIX}\w+)` \|", page, re.MULTILINE))
    files = {f"{agent.PREFIX}HUB_{name}_FILE" for name in ("TOKEN", "BOOTSTRAP_TOKEN")}
    assert named == exist | files


def test_the_reference_of_commands_is_what_the_program_says() -> None:
    """`.venv/bin/python docs/generate.py` would change nothing."""
    generated = generator()
    assert generated["PAGE"].read_text() == generated["page"]()
    assert generated["MAN_PAGE"].read_text() == generated["manual"]()


def test_queries_are_valid_against_the_schema() -> None:
    errors = [
        f"{name_of(page)}: {error}"
        for page in PAGES
        for text in blocks(page, "graphql")
        for error in validate(schema(), parse(text))
    ]
    assert errors == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_declarations_can_be_applied(page: Path) -> None:
    """Documents of our own kinds, in blocks of their own or written by a shell block."""
    here = re.compile(r"<<'EOF'\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)
    texts = [*blocks(page, "yaml"), *(t for b in blocks(page, "sh") for t in here.findall(b))]
    assert problems_of([text for text in texts if "apiVersion: towline" in text]) == []


def problems_of(texts: list[str]) -> list[DocumentProblem]:
    """Everything that is wrong with manifests before they meet an installation."""
    context = operations_over_memory().context
    kinds = all_kinds(kind_operations(context))
    manifests = Manifests(context, kinds)
    api = FakeApi(
        {MANIFEST_SCHEMA: lambda kind: {"manifestSchema": json.dumps(manifests.schema(kind))}}
    )
    found: list[DocumentProblem] = []
    for text in texts:
        (sent,) = fill_secret_values(api, [{"file": "page", "content": text}], read=lambda *_: "x")
        DocumentReader(kinds).read([Source(sent["file"], sent["content"])], found)
    return found


def test_the_examples_are_yaml() -> None:
    files = sorted((ROOT / "docs" / "examples").glob("*.yaml"))
    assert files
    for file in files:
        kinds = [one["kind"] for one in yaml.safe_load_all(file.read_text())]
        assert {"ClusterRoleBinding", "ClusterSource"} & set(kinds)


def test_every_page_is_in_the_navigation() -> None:
    """MkDocs reports dead links; a page that no menu names is found here without a build."""
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r"^ +- ([\w/-]+\.md)$", text, re.MULTILINE))
    assert named == {
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")
    }


def test_pages_are_sorted_by_the_readers_purpose() -> None:
    """Diataxis: a page teaches, solves a task, states facts or explains."""
    folders = {page.parent.name for page in (ROOT / "docs").rglob("*.md")}
    assert folders == {"docs", "tutorial", "how-to", "reference", "explanation"}


def test_the_readme_shows_the_steps_of_the_demo() -> None:
    shown = re.findall(
        r"^✓ \d/\d (.+) \([\d.]+ s\)$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    steps = (ROOT / "towline/demo/steps.py").read_text()
    assert len(shown) == 7
    assert [step for step in shown if f'"{step}"' not in steps] == []


@pytest.mark.parametrize("name", ["fleet-services", "notifications"])
def test_pages_on_previews_name_the_sinks_that_comment_on_requests(name: str) -> None:
    """Both pages, and no other sink: neither page may say that there are no comments."""
    text = (ROOT / "docs" / "how-to" / f"{name}.md").read_text()
    paragraphs = [part for part in text.split("\n\n") if "request" in part and "comment" in part]
    sinks = {sink.kind.lower() for sink in SINKS}
    named = [sinks.intersection(CODE.findall(part)) for part in paragraphs]
    assert named == [{sink.kind.lower() for sink in SINKS if sink.of_commits}]
