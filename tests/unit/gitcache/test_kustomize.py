"""References of kustomizations."""

import pytest

from core.errors import Invalid
from gitcache.domain.remote_bases import BaseRef, parse_base
from gitcache.render.kustomize import Kustomize, referenced_paths


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
        "ssh://git@host/x",
        "git::https://host/x",
        "git::file:///etc/x",
        "file:///etc/passwd",
        "org/repo//path?ref=main",
        "HTTPS://example.com/x",
    ],
)
@pytest.mark.parametrize(
    "field",
    [
        "resources: [a.yaml, '{0}']",
        "bases: ['{0}']",
        "components: ['{0}']",
        "configMapGenerator: [{{name: a, files: ['k={0}']}}]",
        "secretGenerator: [{{name: a, envs: ['{0}']}}]",
        "patches: [{{path: '{0}'}}]",
        "openapi: {{path: '{0}'}}",
        "transformers: ['{0}']",
    ],
)
def test_remote_references_are_refused(field: str, reference: str) -> None:
    with pytest.raises(Invalid, match="remote reference"):
        named(field.format(reference))


@pytest.mark.parametrize(
    "field", ["configMapGenerator: [{files: ['k=%s']}]", "patches: [{path: '%s'}]", "crds: ['%s']"]
)
def test_only_folders_come_from_other_repositories(field: str) -> None:
    with pytest.raises(Invalid, match="remote reference"):
        named(field % "https://git.test/org/repo//base?ref=v1")


GITHUB = "https://github.com/org/repo"


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("https://git.test/a/b//x/y?ref=v1", ("https://git.test/a/b", "x/y", "v1")),
        ("https://git.test/a/b/c//x?version=v1", ("https://git.test/a/b/c", "x", "v1")),
        ("https://git.test/a/b/x/y", ("https://git.test/a/b", "x/y", "HEAD")),
        ("https://git.test/a/b.git/x?ref=v1&timeout=9", ("https://git.test/a/b.git", "x", "v1")),
        ("git::https://git.test/a/b//x?ref=", ("https://git.test/a/b", "x", "HEAD")),
        ("HTTPS://me@dev.test/o/_git/r/x", ("https://dev.test/o/_git/r", "x", "HEAD")),
        ("git@git.test:a/b//x?ref=v1", ("git@git.test:a/b", "x", "v1")),
        ("ssh://git@git.test:22/a/b.git//x", ("ssh://git@git.test:22/a/b.git", "x", "HEAD")),
        ("github.com/org/repo/x?ref=v1", (GITHUB, "x", "v1")),
        ("https://me@github.com/org/repo", ("me@github.com:org/repo", "", "HEAD")),
        ("git@github.com:org/repo.git//x", ("git@github.com:org/repo.git", "x", "HEAD")),
        ("ssh://github.com/org/repo//./x/../y", ("git@github.com:org/repo", "y", "HEAD")),
        ("https://git.test:8443/a/b/x", ("https://git.test:8443/a/b", "x", "HEAD")),
        ("https://git.test/a/b/c.git/x", ("https://git.test/a/b/c.git", "x", "HEAD")),
        ("https://git.test/a/b/x.yaml?ref=v1", ("https://git.test/a/b", "x.yaml", "v1")),
        ("git@git.test:a/b//x.yaml", ("git@git.test:a/b", "x.yaml", "HEAD")),
    ],
)
def test_remote_bases_are_read_as_kustomize_reads_them(
    text: str, base: tuple[str, str, str]
) -> None:
    assert parse_base(text) == BaseRef(*base)
    kustomization = {"over/kustomization.yaml": f"resources: ['{text}', ../a]".encode()}
    found = Kustomize().references("", kustomization)
    assert (found.bases, found.paths) == ([text], ["a"])


@pytest.mark.parametrize(
    "text",
    [
        "../base",
        "https://git.test/a/b//../../x",
        "https://git.test/one",
        "https://raw.test/a/b/main/x.yaml",
        "file:///a/b",
        "file://git.test/a/b",
        "https://git.test/a/b//..",
        "https://example.git",
        "git@example.git",
        "https://git.test///x",
        "git.test/a/b",
        "//a/b",
        "@:",
    ],
)
def test_other_references_are_no_remote_bases(text: str) -> None:
    assert parse_base(text) is None


@pytest.mark.parametrize(
    "text", ["helmChartInflationGenerator: [{chartName: x}]", "[1]", "a: [", "\xff"]
)
def test_unreadable_or_unsupported_kustomizations_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"kustomization\.yaml"):
        referenced_paths("", {"kustomization.yaml": text.encode("latin-1")})
