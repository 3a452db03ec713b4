"""`.helmignore`, compared with the loader of Helm itself."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.render.helmignore import without_ignored

CHART = {"Chart.yaml": b"apiVersion: v2\nname: shop\nversion: 1.0.0\n"}
FILES = ["a.yaml", "b.yaml", "ab.yaml", ".c.yaml", "deep/a.yaml", "deep/er/b.yaml", "x[y].yaml"]
# Prints the templates that Helm renders, for each list of rules on standard input.
HELM = """
import json, pathlib, sys, tempfile, helm_python
for rules in json.load(sys.stdin)["rules"]:
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        (top / "Chart.yaml").write_text("apiVersion: v2\\nname: shop\\nversion: 1.0.0\\n")
        (top / ".helmignore").write_text("\\n".join(rules))
        for file in sys.argv[1:]:
            (top / "templates" / file).parent.mkdir(parents=True, exist_ok=True)
            (top / "templates" / file).write_text("a: b\\n")
        try:
            rendered = helm_python.Chart.load(top).render({})
            print(json.dumps(sorted(path.removeprefix("shop/templates/") for path in rendered)))
        except helm_python.HelmError as error:
            print(json.dumps(str(error)))
"""


def kept(rules: Sequence[str], files: Sequence[str]) -> list[str]:
    chart = {**CHART, **dict.fromkeys(files, b"")}
    return sorted(set(without_ignored(chart, "\n".join(rules).encode())) & set(files))


def by_helm(cases: Sequence[Sequence[str]]) -> list[object]:
    given = json.dumps({"rules": cases})
    command = [sys.executable, "-c", HELM, *FILES]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


PATTERN = st.builds(
    "".join,
    st.lists(
        st.sampled_from(
            ["templates", "/", "a", "b", ".", "*", "?", "deep", "er", ".yaml", "[a-b]"]
        ),
        min_size=1,
        max_size=6,
    ),
).filter(lambda text: "**" not in text and "//" not in text and text.strip("/"))
RULE = st.one_of(
    PATTERN, PATTERN.map("{}/".format), PATTERN.map("!{}".format), PATTERN.map("/{}".format)
)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(RULE, max_size=3), min_size=25, max_size=25))
def test_helm_ignores_the_same_templates(cases: list[list[str]]) -> None:
    paths = [f"templates/{file}" for file in FILES]
    for rules, theirs in zip(cases, by_helm(cases), strict=True):
        if "Chart.yaml" not in without_ignored(CHART, "\n".join(rules).encode()):
            continue
        ours = [path.removeprefix("templates/") for path in kept(rules, paths)]
        assert ours == theirs, rules


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["crds/kustomization.yaml"], ["crds/a.yaml", "docs/a.md"]),
        (["# crds/a.yaml", "", " docs/ "], ["crds/a.yaml", "crds/kustomization.yaml"]),
        (["/docs"], ["crds/a.yaml", "crds/kustomization.yaml"]),
        (["# docs/** as above", "#!", "docs"], ["crds/a.yaml", "crds/kustomization.yaml"]),
        (["a.yaml/"], ["crds/a.yaml", "crds/kustomization.yaml", "docs/a.md"]),
        (["docs", "a.yaml"], ["crds/kustomization.yaml"]),
        (["*/k*.yaml"], ["crds/a.yaml", "docs/a.md"]),
    ],
)
def test_rules_leave_out_files_and_folders(rules: list[str], expected: list[str]) -> None:
    assert kept(rules, ["crds/a.yaml", "crds/kustomization.yaml", "docs/a.md"]) == expected


def test_a_chart_without_rules_keeps_all_but_hidden_templates() -> None:
    chart = {**CHART, "templates/a.yaml": b""}
    assert without_ignored({**chart, "templates/.hidden.yaml": b""}, b"") == chart


@pytest.mark.parametrize("rule", ["docs/**", "!"])
def test_what_helm_refuses_is_refused(rule: str) -> None:
    with pytest.raises(Invalid, match=r"^\.helmignore: "):
        kept([rule], [])
