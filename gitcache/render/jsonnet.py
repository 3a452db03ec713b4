"""Renders Jsonnet: one entry file, imports within the commit, parameters as variables."""

import base64
import codecs
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from core.errors import Invalid
from core.spec.renderers import RenderValue
from gitcache.domain import paths
from gitcache.domain.references import References
from gitcache.render import kubeyaml, manifests
from gitcache.render.parameters import ParameterRecorder, copy_plain
from gitcache.render.renderer import Files, Renderer, RenderTool, WorkerJob

if TYPE_CHECKING:
    # Workers do not plan, and should start fast.
    from gitcache.render.plan import CommitRoot, Planning, RenderPlan

ENTRY = "main.jsonnet"
SUFFIXES = (".jsonnet", ".libsonnet")

_IMPORT = re.compile(rb"""\bimport(?:str|bin)?\s*@?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_FUNCTION = re.compile(r"^function\s*\(([^()]*)\)", re.MULTILINE)
_MAX_DEPTH = 20
_MAX_MESSAGE_CHARS = 2000
# Prefix of file names for the library, which would resolve others in its working directory.
_ROOT = "/commit/"
_PROJECT = "jsonnetfile.json"
_PROJECT_LIBRARIES = ("lib", "vendor")
_MISSING = "which is not in this commit"
# The library refuses binary data, such as a SealedSecret's; go-jsonnet replaces each such byte.
_BASE64 = "base64Decode"
_BASE64_PRELUDE = (
    "local original = std; local std = original + "
    f'{{{_BASE64}(str):: original.native("{_BASE64}")(str)}}; '
)
_EACH_BYTE = "towline.each_byte"
codecs.register_error(_EACH_BYTE, lambda error: ("\ufffd" * (error.end - error.start), error.end))


class Jsonnet(Renderer):
    """Evaluates the entry file of the folder where it starts."""

    name = "jsonnet"
    detected_by = (ENTRY,)
    entry_suffix = SUFFIXES[0]
    reference_files = r".*\.(jsonnet|libsonnet)"
    tool = RenderTool("Jsonnet", "install rjsonnet", library="rjsonnet")
    uses_liquid = False

    async def plan(
        self, planning: "Planning", origin: "CommitRoot", plan: "RenderPlan", *, any_sources: bool
    ) -> "RenderPlan":
        options = plan.request.options
        libraries_of_options = [
            paths.resolve_inside(plan.folder, name, "libraries") for name in options.libraries
        ]
        libraries = [
            *reversed(libraries_of_options),
            *await _bundler_folders(planning, origin, plan),
        ]
        entry = paths.resolve_inside(plan.root, options.entry or ENTRY, "entry")
        plan = replace(plan, settings={"entry": entry, "libraries": libraries})
        return await planning.add_reads(origin, plan, [*libraries, entry])

    def references(self, folder: str, files: Files) -> References:
        return References(referenced_paths(folder, files))

    def render(self, job: WorkerJob) -> list[manifests.LocatedObject]:
        entry = job.settings["entry"]
        if entry not in job.files:
            raise Invalid(f"{entry}: not found; it is the entry file of Jsonnet")
        result = _evaluate(entry, job)
        try:
            value = manifests.load_json(result)
        except kubeyaml.YamlError as error:
            raise Invalid(f"{entry}: the result is malformed: {error}") from error
        return manifests.collect(_result_objects(value, entry, 0))


async def _bundler_folders(
    planning: "Planning", origin: "CommitRoot", plan: "RenderPlan"
) -> list[str]:
    """Returns the library folders of jsonnet-bundler and Tanka, of the nearest project around."""
    folder = plan.root
    while await planning.find(origin, paths.child(folder, _PROJECT)) is None:
        if not folder:
            return []
        folder = posixpath.dirname(folder)
    return [paths.child(folder, name) for name in _PROJECT_LIBRARIES]


def referenced_paths(folder: str, files: Files) -> list[str]:
    """Lists the paths that a folder's sources import, relative to the repository and sorted.

    Includes imports in comments; the caller drops missing files later.
    """
    references = set()
    for path, data in files.items():
        if not path.endswith(SUFFIXES) or not paths.is_below(path, folder):
            continue
        for quoted in _IMPORT.findall(data):
            name = quoted[1:-1].decode("utf-8", "replace")
            references.add(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))
    return sorted(references)


def _evaluate(entry: str, job: WorkerJob) -> str:
    """Evaluates the entry to JSON with the library, which is imported on demand."""
    import rjsonnet

    files, options = job.files, job.options
    arguments = _function_arguments(_decode_text(entry, files[entry]), job.parameters)
    try:
        return rjsonnet.evaluate_snippet(
            "entry",
            f"import {orjson.dumps(_ROOT + entry).decode()}",
            import_callback=_Imports(files, job.settings["libraries"]),
            ext_vars={},
            ext_codes=_named_parameters(files, job.parameters) | _value_codes(options.variables),
            tla_vars={},
            tla_codes=arguments | _value_codes(options.arguments),
            native_callbacks={_BASE64: (("str",), _decode_base64)},
        )
    except (RuntimeError, ValueError) as error:
        raise Invalid(f"{entry}: {_error_text(str(error))}") from error


def _decode_base64(text: str) -> str:
    """Decodes base64 as go-jsonnet does."""
    return base64.b64decode(text, validate=True).decode("utf-8", _EACH_BYTE)


def _value_codes(values: Sequence[RenderValue]) -> dict[str, str]:
    return {
        variable.name: variable.value if variable.code else orjson.dumps(variable.value).decode()
        for variable in values
    }


class _Imports:
    """Resolves imports among the given files only: beside the importing file, then in libraries."""

    def __init__(self, files: Files, libraries: Sequence[str]) -> None:
        self._files = files
        self._libraries = libraries

    def __call__(self, folder: str, name: str) -> tuple[str, str]:
        if name.startswith(_ROOT):
            return name, self._decode_text(name.removeprefix(_ROOT))
        importing_folder = folder.removeprefix(_ROOT.rstrip("/")).strip("/")
        for base in (importing_folder, *self._libraries):
            path = paths.join(base, name)
            if path is not None and path in self._files:
                return _ROOT + path, self._decode_text(path)
        raise RuntimeError(
            f"{self._importer(importing_folder, name)} imports {name[:200]}, {_MISSING}"
        )

    def _decode_text(self, path: str) -> str:
        text = _decode_text(path, self._files[path])
        is_code = path.endswith(SUFFIXES) and _BASE64 in text
        # On the first line, so that errors keep their line numbers.
        return _BASE64_PRELUDE + text if is_code else text

    def _importer(self, folder: str, name: str) -> str:
        """Returns the file that contains an import; the library tells only its folder."""
        for path, data in self._files.items():
            if posixpath.dirname(path) == folder and name.encode() in data:
                return path
        return folder or "a file"


def _named_parameters(files: Files, recorder: ParameterRecorder) -> dict[str, str]:
    """Returns parameters that a source names in quotes: `cluster` or `cluster.handle`."""
    sources = [data for path, data in files.items() if path.endswith(SUFFIXES)]
    return {
        name: orjson.dumps(copy_plain(recorder.value(*parts))).decode()
        for name, parts in _parameter_names(recorder)
        if any(f"{quote}{name}{quote}".encode() in data for data in sources for quote in "\"'")
    }


def _parameter_names(recorder: ParameterRecorder) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Lists all parameter names without recording a read."""
    for name, value in dict.items(recorder.root):
        yield name, (name,)
        if isinstance(value, dict):
            for inner, _ in dict.items(value):
                yield f"{name}.{inner}", (name, inner)


def _function_arguments(source: str, recorder: ParameterRecorder) -> dict[str, str]:
    """Returns the arguments of an entry whose function starts at the beginning of a line."""
    match = _FUNCTION.search(source)
    if match is None:
        return {}
    names = {part.partition("=")[0].strip() for part in match[1].split(",")}
    available = {name for name, _ in dict.items(recorder.root)}
    return {
        name: orjson.dumps(copy_plain(recorder.value(name))).decode()
        for name in sorted(names & available)
    }


def _result_objects(value: object, location: str, depth: int) -> Iterator[manifests.LocatedObject]:
    """Yields the objects of a result: an object, a list, or a map of either."""
    if depth > _MAX_DEPTH:
        raise Invalid(f"{location}: objects are nested too deeply")
    if isinstance(value, dict) and "kind" in value and "apiVersion" in value:
        yield from manifests.flatten(value, location)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _result_objects(inner, f"{location}, {key[:80]}", depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _result_objects(inner, f"{location}, item {number}", depth + 1)
    elif value is not None:
        raise Invalid(f"{location}: not a Kubernetes object")


def _decode_text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path}: not UTF-8 text") from error


def _error_text(text: str) -> str:
    """Joins the first lines of an error trace."""
    plain_text = text.replace(_ROOT, "").removeprefix("import_callback error: ")
    plain_text = plain_text.removeprefix("RuntimeError: ").removeprefix("Invalid: ")
    lines = [line.strip() for line in plain_text[:_MAX_MESSAGE_CHARS].splitlines()[:4]]
    return "jsonnet: " + "; ".join(
        "".join(char if char.isprintable() else " " for char in line) for line in lines if line
    )
