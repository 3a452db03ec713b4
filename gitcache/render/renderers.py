"""All renderers."""

from core.errors import Invalid
from gitcache.render.helm import Helm
from gitcache.render.jsonnet import Jsonnet
from gitcache.render.kustomize import Kustomize
from gitcache.render.raw import Raw
from gitcache.render.renderer import Renderer

RENDERERS: tuple[Renderer, ...] = (
    Kustomize(),
    Helm(),
    Jsonnet(),
    Raw(),
)
"""AUTO looks for their files in this order; the last one takes any folder."""

_BY_NAME = {renderer.name: renderer for renderer in RENDERERS}


def renderer_of_entry(entry: str) -> Renderer:
    """Returns the renderer of an entry file. Raises Invalid if there is none."""
    for renderer in RENDERERS:
        if renderer.entry_suffix and entry.endswith(renderer.entry_suffix):
            return renderer
    raise Invalid(f"{entry[:200]!r} is not an entry file of a renderer", field="rendering.entry")


def renderer_named(name: str) -> Renderer:
    """Returns a renderer. Raises Invalid for an unknown name."""
    if name not in _BY_NAME:
        raise Invalid(f"{name[:80]!r} is not a renderer; choose from {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
