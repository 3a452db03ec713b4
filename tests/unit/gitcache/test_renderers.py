"""The registered renderers, and the places that a new one needs."""

import importlib
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import Invalid
from core.spec.renderers import HELM, KUSTOMIZE
from gitcache import render
from gitcache.render.raw import Raw
from gitcache.render.renderer import Renderer
from gitcache.render.renderers import RENDERERS, renderer_named

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/how-to/rendering.md").read_text()
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RAW = RENDERERS[-1]


def modules() -> Iterator[str]:
    return (f"{render.__name__}.{found.name}" for found in pkgutil.iter_modules(render.__path__))


def test_each_renderer_of_the_package_is_registered_once() -> None:
    for module in modules():
        importlib.import_module(module)
    classes = [type(renderer) for renderer in RENDERERS]
    missing = {kind.__name__ for kind in Renderer.__subclasses__() if kind not in classes}
    assert missing == set(), f"add {missing} to RENDERERS in gitcache/render/renderers.py"
    assert len({renderer.name for renderer in RENDERERS}) == len(RENDERERS)


def test_the_control_plane_names_existing_renderers() -> None:
    assert {renderer_named(name).name for name in (KUSTOMIZE, HELM)} == {KUSTOMIZE, HELM}


def test_an_unknown_renderer_is_refused() -> None:
    with pytest.raises(Invalid, match="'cue' is not a renderer; choose from kustomize"):
        renderer_named("cue")


def test_only_the_last_renderer_takes_any_folder() -> None:
    assert isinstance(RAW, Raw)
    undetected = {renderer.name for renderer in RENDERERS if not renderer.detected_by}
    assert undetected == {RAW.name}, "without `detected_by`, no folder selects a renderer"


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_the_guide_describes_each_renderer(renderer: Renderer) -> None:
    title = "plain manifests" if renderer is RAW else type(renderer).__name__
    assert re.search(rf"^\| {title} \|", GUIDE, re.MULTILINE), (
        f"add {title} to the table of docs/how-to/rendering.md"
    )


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_a_library_of_a_renderer_is_a_dependency(renderer: Renderer) -> None:
    if renderer.tool is None or renderer.tool.library is None:
        return
    listed = [*PACKAGES["dependencies"], *sum(PACKAGES["optional-dependencies"].values(), [])]
    names = {re.split(r"[<>=~!\[ ]", entry)[0] for entry in listed}
    assert renderer.tool.library in names, f"add {renderer.tool.library} to pyproject.toml"


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_reference_files_have_a_method_that_reads_them(renderer: Renderer) -> None:
    has_method = type(renderer).references is not Renderer.references
    assert bool(renderer.reference_files) == has_method


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.name)
def test_a_missing_tool_says_how_to_install_it(renderer: Renderer) -> None:
    if renderer.tool is not None:
        assert renderer.tool.title in renderer.tool.missing
        assert renderer.tool.hint
        assert renderer.tool.library or renderer.tool.commands
