"""Render options in the API."""

from controlplane.platform.graphql.derive import Draft, Output, draft, output
from core.spec.renderers import RenderOptions, RenderValue


@output(RenderValue)
class ServiceRenderValue(Output[RenderValue]):
    """A value that a service passes to its renderer."""


@output(RenderOptions)
class ServiceRendering(Output[RenderOptions]):
    """Files and values of a render."""


@draft(RenderValue)
class RenderValueAttributes(Draft[RenderValue]):
    """A value to pass to the renderer."""


@draft(RenderOptions)
class RenderingAttributes(Draft[RenderOptions]):
    """Files and values of a render. They replace all earlier options; an absent field gets its
    default."""
