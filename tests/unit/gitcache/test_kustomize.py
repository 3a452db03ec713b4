"""What kustomizations refer to."""

import pytest

from core.errors import Invalid
from gitcache.render.kustomize import referenced_paths


def named(text: str, path: str = "kustomization.yaml") -> list[str]:
    return referenced_paths("", {path: text.encode()})


def test_paths_of_every_field_are_found_relative_to_the_folder() -> None:
    text = """
resources: [a.yaml, ../base]
components: [../../common]
patches: [{path: ../p.yaml}, {patch: "inline: https://not.a.path"}]
configMapGenerator:
- {name: x, files: [key=../file.txt], literals: ["url=https://fine"]}
openapi: {path: ../schema.json}
"""
    assert named(text, "over/kustomization.yaml") == [
        "../common",
        "base",
        "file.txt",
        "over/a.yaml",
        "p.yaml",
        "schema.json",
    ]


def test_inline_patches_are_no_paths() -> None:
    assert named("patchesStrategicMerge:\n- |-\n  kind: A\n  x: https://y\n") == []


@pytest.mark.parametrize(
    "reference",
    [
        "https://example.com/x.yaml",
        "http://169.254.169.254/latest",
        "github.com/org/repo",
        "github.com/org/repo//base?ref=v1",
        "git@github.com:org/repo.git",
        "ssh://git@host/x",
        "git::https://host/x",
        "file:///etc/passwd",
        "org/repo//path?ref=main",
        "HTTPS://example.com/x",
    ],
)
@pytest.mark.parametrize(
    "field",
    [
        "resources: ['{0}']",
        "bases: ['{0}']",
        "components: ['{0}']",
        "configMapGenerator: [{{name: a, files: ['k={0}']}}]",
        "secretGenerator: [{{name: a, envs: ['{0}']}}]",
        "patches: [{{path: '{0}'}}]",
        "openapi: {{path: '{0}'}}",
        "transformers: ['{0}']",
    ],
)
def test_what_is_on_the_network_is_refused(field: str, reference: str) -> None:
    with pytest.raises(Invalid, match="remote reference"):
        named(field.format(reference))


@pytest.mark.parametrize(
    "text", ["helmChartInflationGenerator: [{chartName: x}]", "[1]", "a: [", "\xff"]
)
def test_unreadable_or_unsupported_kustomizations_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"kustomization\.yaml"):
        referenced_paths("", {"kustomization.yaml": text.encode("latin-1")})
