"""Liquid templates over files."""

import pytest

from core.errors import Invalid
from gitcache.render.templates import check_untemplated, expand, untemplated_hint

PARAMETERS = {"cluster": {"handle": "prod-eu", "tags": ["a", "b"]}, "configuration": {"size": 3}}


def test_parameters_are_filled_in_and_the_suffix_is_dropped() -> None:
    files = {"a.yaml": b"x: {{ cluster.handle }}", "b.yaml.liquid": b"n: {{ configuration.size }}"}
    assert expand(files, PARAMETERS) == {"a.yaml": b"x: prod-eu", "b.yaml": b"n: 3"}


def test_other_files_stay_as_they_are() -> None:
    assert expand({"run.sh": b"{{ x }}", "b": b"\xff"}, {}) == {"run.sh": b"{{ x }}", "b": b"\xff"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\nb: {{ cluster.nope }}", "web/a.yaml, line 2: "),
        ("{{ nobody }}", "'nobody' is undefined"),
        ("{% if x %}", "web/a.yaml"),
        ("{{ x | nofilter }}", "web/a.yaml, line 1"),
        ("{{ cluster.__class__ }}", "undefined"),
        ("{{ cluster.handle.__class__.__mro__ }}", "undefined"),
        ("{% include '/etc/passwd' %}", "web/a.yaml, line 1: templates cannot include"),
        ("{% for i in (1..1000) %}{% for j in (1..1000) %}.{% endfor %}{% endfor %}", "limit"),
    ],
)
def test_errors_name_file_line_and_reason(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        expand({"web/a.yaml": text.encode()}, PARAMETERS)
    assert reason in caught.value.message
    assert "\n" not in caught.value.message


def test_two_files_for_one_name_are_refused() -> None:
    with pytest.raises(Invalid, match="remove one of them"):
        expand({"a.yaml": b"", "a.yaml.liquid": b""}, {})


def test_an_error_of_a_template_names_the_switch() -> None:
    """A Prometheus rule is no Liquid template."""
    with pytest.raises(Invalid, match=r"`templated: false`"):
        expand({"rule.yaml": b"summary: '{{ $labels.job }} is down'"}, PARAMETERS)


@pytest.mark.parametrize("path", ["a.yaml.liquid", "b/kustomization.yml.liquid", "c.json.liquid"])
def test_a_template_of_an_untemplated_service_names_the_switch(path: str) -> None:
    with pytest.raises(Invalid, match=rf"^{path}: .*`templated: true`"):
        check_untemplated({path: b""})


def test_files_of_an_untemplated_service_may_look_like_templates() -> None:
    check_untemplated({"rule.yaml": b"{{ $labels }}", "page.html.liquid": b"{{ page }}"})


def test_an_error_of_an_untemplated_file_names_the_switch_only_if_it_looks_like_a_template() -> (
    None
):
    files = {"web/a.yaml": b"n: {{ cluster.handle }}", "web/b.yaml": b"n: {"}
    assert "`templated: true`" in untemplated_hint("web/a.yaml, line 1: a key must be text", files)
    assert untemplated_hint("web/b.yaml, line 1: did not find", files) == ""
