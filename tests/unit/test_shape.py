"""The shape of the code: sizes, docstrings, words and places that may not appear.

The figures are those of CONTRIBUTING.md; what ruff can hold (statements, nesting, complexity) it
holds.
"""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median, quantiles

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "controlplane", "syncagent", "gitcache", "proxy", "towline")
# Written by a tool, or a list of statements that nobody refactors.
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$|/migrations/versions/|/generated(_inputs)?\.py$")

# Each worker would parse all files anew.
pytestmark = pytest.mark.xdist_group("shape")

FILE_LINES = 800
FOLDER_MODULES = 25
FUNCTION_LINES = 80
MEDIAN_FILE_LINES = 150
MEDIAN_FUNCTION_LINES = 9
LONG_FUNCTION_LINES = 35
MOCKS_PER_THOUSAND_LINES = 5

# Their functions import what few processes need, and what costs start-up time or memory.
IMPORT_ON_DEMAND = {
    "controlplane/foundation.py",
    "core/spec/source_signatures.py",
    "gitcache/compose_replica.py",
    "syncagent/link/channel.py",
    "towline/completion/names.py",
    "towline/kubectl_login.py",
    "towline/serve/listeners.py",
}
BANNED_NAMES = {"utils", "util", "helpers", "common", "misc"}
# Written in pieces, so that this file does not hold what it looks for.
BANNED_TEXT = re.compile(
    "|".join(
        [
            r"(?<![\w.~-])/(?:roo" + r"t|wor" + r"k|farm)/\w",
            r"TO" + r"DO\b|FIX" + r"ME\b|XX" + r"X\b|NotImplemented" + "Error",
            r"(?:pypi|pythonhosted|npmjs)\." + r"(?:org|com)",
        ]
    )
)
MOCKS = re.compile(r"\bMock\(|\bmocker\b|\bpatch\(|\bmock\.")


def modules(*folders: str) -> list[Path]:
    """The Python files of some folders, without generated ones."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if not GENERATED.search(str(path)))


@dataclass(frozen=True)
class Function:
    """A function or method; `imports` are the lines in it that import our own code."""

    name: str
    line: int
    lines: int
    documented: bool
    imports: tuple[int, ...]


@dataclass(frozen=True)
class Outline:
    """Properties of a file that these tests need; its tree would be a hundred times as large."""

    empty: bool
    docstring: str
    functions: tuple[Function, ...]


@cache
def outline(path: Path) -> Outline:
    """A file, parsed once for all tests."""
    tree = ast.parse(path.read_text())
    functions = (
        function(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return Outline(not tree.body, ast.get_docstring(tree) or "", tuple(functions))


def function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    imports = (one for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom))
    return Function(
        node.name,
        node.lineno,
        (node.end_lineno or node.lineno) - node.lineno + 1,
        bool(ast.get_docstring(node)),
        tuple(one.lineno for one in imports if is_own_import(one)),
    )


def functions(paths: list[Path]) -> Iterator[tuple[str, Function]]:
    """Each function, and where it is."""
    for path in paths:
        for one in outline(path).functions:
            yield f"{path.relative_to(ROOT)}:{one.line} {one.name}", one


def tracked() -> list[Path]:
    """Files that git knows and people write, of the checkout that holds this test."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listed.stdout.decode().split("\0") if not GENERATED.search(name)]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_no_file_is_longer_than_a_reader_holds() -> None:
    """800 lines at most, tests included."""
    sizes = {path: len(path.read_text().splitlines()) for path in modules(*PACKAGES, "tests")}
    assert {str(path): size for path, size in sizes.items() if size > FILE_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    """80 lines at most, tests included."""
    found = functions(modules(*PACKAGES, "tests"))
    assert {where: one.lines for where, one in found if one.lines > FUNCTION_LINES} == {}


def test_most_functions_and_files_are_small() -> None:
    """The median and the ninth decile of the product's code."""
    lines = [one.lines for _, one in functions(modules(*PACKAGES))]
    files = [len(path.read_text().splitlines()) for path in modules(*PACKAGES)]
    assert median(lines) <= MEDIAN_FUNCTION_LINES
    assert quantiles(lines, n=10)[-1] <= LONG_FUNCTION_LINES
    assert median(files) <= MEDIAN_FILE_LINES


def test_no_folder_holds_more_modules_than_a_reader_surveys() -> None:
    """25 at most, without `__init__`."""
    counts = Counter(path.parent for path in modules(*PACKAGES) if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > FOLDER_MODULES} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is(package: str) -> None:
    """A docstring at the head of each file that holds anything."""
    outlines = {path: outline(path) for path in modules(package)}
    silent = [path for path, one in outlines.items() if not (one.empty or one.docstring)]
    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_belongs_there_and_what_does_not(package: str) -> None:
    """A package and its inner packages open with two sentences: purpose, and prohibition."""
    packages = [ROOT / package / "__init__.py", *(ROOT / package).glob("*/__init__.py")]
    short = [one for one in packages if len(re.findall(r"[.;]\s|\.$", outline(one).docstring)) < 2]
    assert short == []


def test_no_name_says_nothing() -> None:
    """Names say what is inside; a heap's name does not."""
    heaps = [path for path in modules(*PACKAGES, "tests") if path.stem in BANNED_NAMES]
    heaps += [path for path in modules(*PACKAGES) if path.parent.name in BANNED_NAMES]
    assert heaps == []


def test_our_own_code_is_imported_at_the_head_of_a_file() -> None:
    """An import inside a function hides a cycle or a cost, unless few processes need it."""
    found = functions(modules(*PACKAGES))
    importing = {where.partition(":")[0] for where, one in found if one.imports}
    assert importing == IMPORT_ON_DEMAND


def test_only_ports_and_stores_select_rows_by_column() -> None:
    """Operations call the verbs of a port, whose arguments have types."""
    verbs = {"find", "find_unlocked", "select"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules("controlplane")
        if path.name != "ports.py" and "store" not in (path.stem, path.parent.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and node.keywords and not node.args
        and isinstance(node.func, ast.Attribute) and node.func.attr in verbs
    ]  # fmt: skip
    assert found == []


def is_own_import(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether a statement imports one of our packages."""
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or (node.module or "").partition(".")[0] in PACKAGES
    return any(alias.name.partition(".")[0] in PACKAGES for alias in node.names)


def test_every_test_states_its_intent() -> None:
    """By a docstring, or by a name of at least three words."""
    silent = [
        where
        for where, one in functions(modules("tests"))
        if one.name.startswith("test_") and not one.documented and len(one.name.split("_")) < 4
    ]
    assert silent == []


def test_tests_use_fakes_not_mocks() -> None:
    """At most five mocks in a thousand lines of tests."""
    text = "\n".join(path.read_text() for path in modules("tests") if path != Path(__file__))
    density = 1000 * len(MOCKS.findall(text)) / len(text.splitlines())
    assert density <= MOCKS_PER_THOUSAND_LINES


def test_tracked_files_hold_nothing_of_one_machine() -> None:
    """No path of somebody's machine, no host of a package registry, no unfinished mark."""
    found = [
        f"{path.relative_to(ROOT)}:{number} {match[0]}"
        for path in tracked()
        if path.suffix not in (".png", ".ico", ".sum", ".webp", ".woff2")
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if (match := BANNED_TEXT.search(line))
    ]
    assert found == []


def test_lock_files_name_no_host() -> None:
    """Pins and hashes only, so that any index serves."""
    hosts = [path for path in tracked() if path.suffix == ".lock" and "://" in path.read_text()]
    assert hosts == []
