"""Limits of render options, and their way to a render."""

import pytest

from controlplane.services.model.settings_checks import check_render_options
from core.errors import Invalid
from core.identity import RepositoryId
from core.spec.render_orders import RenderOrder, dump_order, load_order
from core.spec.renderers import RenderOptions, RenderValue
from core.spec.source import RenderRequest
from tests.fakes.operations import make_cluster, make_service

OPTIONS = RenderOptions(
    recurse=False,
    include=("b.yaml", "a.yaml"),
    entry="app.jsonnet",
    libraries=("vendor", "lib"),
    variables=(RenderValue("env", "prod"), RenderValue("count", "1", code=True)),
)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (RenderOptions(include=("a",) * 65), "rendering.include"),
        (RenderOptions(arguments=(RenderValue("a", ""),) * 101), "rendering.arguments"),
        (RenderOptions(exclude=("a" * 1025,)), "rendering"),
        (RenderOptions(entry="a" * 1025), "rendering"),
        (RenderOptions(variables=(RenderValue("a", "x" * 65_537),)), "rendering"),
    ],
)
def test_options_beyond_a_limit_are_refused(options: RenderOptions, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_render_options(options)
    assert caught.value.field == field


def test_options_within_the_limits_reach_the_render() -> None:
    service = make_service("web", make_cluster("dev"), repository_id="git", rendering=OPTIONS)
    assert check_render_options(OPTIONS) == OPTIONS
    assert service.render_request("a" * 40, {}).options == OPTIONS


def test_an_order_for_an_agent_keeps_options_and_their_order() -> None:
    request = RenderRequest(RepositoryId("git"), "a" * 40, "web", options=OPTIONS)
    assert load_order(dump_order(RenderOrder(request, ()))).request == request
