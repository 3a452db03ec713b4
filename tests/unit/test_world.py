"""What `make world` counts as a failure, and the page with its results."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest
import yaml

from core.errors import Unavailable
from core.json_object import JsonObject
from tests.world import compare
from tests.world.clients.k9s import steady
from tests.world.clients.screen import COLUMNS, ROWS, Picture, on_screen
from tests.world.compare import Comparison, Result
from tests.world.controllers.build import Build, Module
from tests.world.controllers.delivery import Target
from tests.world.corpus import Source, sources
from tests.world.first_hour import steps
from tests.world.installs import Application, Installation
from tests.world.page import PAGE, PARTS, replaced
from tests.world.specs import compare as compare_specs
from tests.world.specs.compare import SETUPS, Attempt, Run, Way
from tests.world.specs.results import Outcome, Results, run_rest
from tests.world.specs.suite import chosen


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_its_place_on_the_page(part: str) -> None:
    page = PAGE.read_text()
    written = replaced(page, part, "| a |")
    assert f"<!-- world: {part} -->\n\n| a |\n\n<!-- end -->" in written
    assert replaced(written, part, "| b |").count("| a |") == page.count("| a |")


def test_a_part_without_a_place_is_named() -> None:
    with pytest.raises(AssertionError, match="no place for other"):
        replaced(PAGE.read_text(), "other", "")


@pytest.mark.parametrize(
    ("status", "waits_for", "failed"),
    [("HEALTHY", "", False), ("SYNCED", "", True), ("SYNCED", "no storage", False)],
)
def test_an_application_that_can_be_healthy_must_be(
    status: str, waits_for: str, failed: bool
) -> None:
    """The installations never failed the run."""
    application = Application("shop", "package", "chart", "shop", waits_for=waits_for)
    assert Installation(application, status, 1, 1, "a Pod waits").failed is failed


def test_results_are_counted_by_package_and_renderer() -> None:
    chart, folder = Source("helm", "chart"), Source("kustomize", "base")
    found = {
        "a": [Comparison(chart, Result.SAME), Comparison(folder, Result.BOTH_REFUSE)],
        "b": [Comparison(chart, Result.SAME)],
    }
    assert compare.table(found).splitlines()[2:] == [
        "| a | helm | 1 | 0 | 0 | 0 | 0 |",
        "| a | kustomize | 0 | 0 | 0 | 0 | 1 |",
        "| b | helm | 1 | 0 | 0 | 0 | 0 |",
        "| all |  | 2 | 0 | 0 | 0 | 1 |",
    ]


def test_values_that_the_tool_draws_anew_are_not_compared() -> None:
    """Passwords in charts are random; all else of their objects counts."""
    first, second = ({"v1 Secret": {"data": {"p": drawn}, "type": "x"}} for drawn in "ab")
    ours = {"v1 Secret": {"data": {"p": "c"}, "type": "x"}}
    assert "/data/p" in compare.differences(ours, first, lambda: first)
    assert compare.differences(ours, first, lambda: second) == ""
    ours["v1 Secret"]["type"] = "y"
    assert "/type" in compare.differences(ours, first, lambda: second)


def test_sources_are_found_by_their_files_and_plain_folders_by_name(tmp_path: Path) -> None:
    for path in ("chart/Chart.yaml", "chart/charts/sub/Chart.yaml", "testdata/Chart.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert list(sources("deb:ceph-mgr-k8sevents", tmp_path)) == [
        Source("raw", "usr/share/ceph/mgr/k8sevents"),
        Source("helm", "chart"),
    ]


def test_the_readme_says_which_commands_stay() -> None:
    found = steps(0)
    assert [step.stays for step in found] == [False, True, False, True, False]
    assert not any("#" in step.command for step in found)


def test_only_documented_refusals_may_differ() -> None:
    node, kubectl = "[Feature:NodeAuthorizer] a secret", "[sig-cli] exec through kubectl proxy"
    default, allowed, _ = SETUPS
    assert default.forbids_system and not allowed.forbids_system
    assert not Run(default, differences={node: "timed out"}).failed
    assert Run(allowed, differences={node: "timed out"}).failed
    assert Run(default, differences={node: "timed out", kubectl: "not found"}).failed


def test_chosen_specs_have_their_whole_name() -> None:
    def spec(state: str, leaf: str, kind: str = "It") -> JsonObject:
        return {
            "ContainerHierarchyTexts": ["[sig-auth]", "Tokens"],
            "LeafNodeText": leaf,
            "LeafNodeType": kind,
            "State": state,
        }

    setup = spec("passed", "", "SynchronizedBeforeSuite")
    specs = [setup, spec("passed", "a"), spec("pending", "b"), spec("skipped", "c")]
    assert chosen([{"SpecReports": specs}]) == ["[sig-auth] Tokens a"]


def test_a_spec_that_ends_its_process_has_an_outcome_and_costs_no_other(tmp_path: Path) -> None:
    """The specs of that process run again: the one that had begun alone, the others together."""
    results = Results(tmp_path / "results.jsonl")
    ran: list[tuple[set[str], int]] = []

    def run_specs(specs: Collection[str], processes: int) -> str:
        ran.append((set(specs), processes))
        for name in sorted(specs):
            results.add("run", name, Outcome("begun"))
            if name == "b":
                return "panic: no pod"
            results.add("run", name, Outcome("passed"))
        return ""

    found = run_rest(run_specs, results, "run", ["a", "b", "c"], 6)
    assert ran == [({"a", "b", "c"}, 6), ({"c"}, 6), ({"b"}, 1)]
    assert {name: one.state for name, one in found.items()} == {
        "a": "passed",
        "b": "lost",
        "c": "passed",
    }
    assert "panic: no pod" in found["b"].reason


def test_a_stopped_run_continues_where_it_ended(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.add("run", "a", Outcome("failed", "not\n  found"))
    results.add("other run", "b", Outcome("passed"))
    results.add("run", "b", Outcome("interrupted"))
    ran: list[set[str]] = []

    def run_specs(specs: Collection[str], processes: int) -> str:
        ran.append(set(specs))
        for name in specs:
            results.add("run", name, Outcome("passed"))
        return ""

    found = run_rest(run_specs, results, "run", ["a", "b", "c"], 6)
    assert ran == [{"b", "c"}]
    assert found == {
        "a": Outcome("failed", "not found"),
        "b": Outcome("passed"),
        "c": Outcome("passed"),
    }
    assert run_rest(run_specs, results, "run", ["a", "b"], 6).keys() == {"a", "b"}
    assert len(ran) == 1


def test_a_suite_that_does_not_start_says_why(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    with pytest.raises(Unavailable, match="no such kubeconfig"):
        run_rest(lambda *_: "no such kubeconfig", results, "run", ["a"], 6)


def test_a_kubeconfig_becomes_one_without_files(tmp_path: Path) -> None:
    """Flux takes the access to a cluster from a Secret."""
    (tmp_path / "ca.crt").write_text("CA")
    user = {"name": "u", "user": {"token": "secret"}}
    cluster = {"server": "https://a", "certificate-authority": str(tmp_path / "ca.crt")}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    given = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [user],
        "contexts": [context],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(given))
    target = Target.read(tmp_path / "kubeconfig")
    assert target == Target("https://a", "Q0E=", "secret")
    (tmp_path / "other").write_text(target.kubeconfig())
    assert Target.read(tmp_path / "other") == target


def test_a_changed_program_names_its_file(tmp_path: Path) -> None:
    """The address of a server that has no setting: it must not listen on all."""
    build = Build(Module("m", "v1"), ".", "p", {}, ("a.go", '"0.0.0.0"', '"127.0.0.1"'))
    (tmp_path / "a.go").write_text('x = "0.0.0.0"')
    build.change(tmp_path)
    assert (tmp_path / "a.go").read_text() == 'x = "127.0.0.1"'
    with pytest.raises(Unavailable, match=r"a\.go of m@v1"):
        build.change(tmp_path)


def test_only_specs_that_pass_directly_can_differ() -> None:
    """A spec that fails through the proxy runs directly, then without others beside it.

    One that fails alone as well runs both ways twice more: chance decides some of them.
    """
    ran: list[tuple[Way, set[str], Attempt]] = []
    failed, passed = Outcome("failed", "not found"), Outcome("passed")
    skipped = Outcome("skipped", "needs two nodes")
    together = {"a": passed, "s": skipped} | dict.fromkeys("bcdef", failed)
    answers = {
        Way.THROUGH: [
            together,
            {"c": passed, "d": failed, "e": failed, "f": failed},
            {"d": failed, "f": passed},
            {"d": failed},
        ],
        Way.DIRECT: [
            {"b": failed} | dict.fromkeys("cdef", passed),
            {"d": passed, "e": failed, "f": passed},
            {"d": passed},
        ],
    }

    def run_specs(way: Way, specs: Collection[str], attempt: Attempt) -> dict[str, Outcome]:
        ran.append((way, set(specs), attempt))
        return answers[way].pop(0)

    result = Run(SETUPS[0])
    compare_specs.compare(run_specs, list("abcdefs"), result)
    assert ran == [
        (Way.THROUGH, set("abcdefs"), Attempt.TOGETHER),
        (Way.DIRECT, set("bcdef"), Attempt.PATIENT),
        (Way.THROUGH, set("cdef"), Attempt.ALONE),
        (Way.DIRECT, set("def"), Attempt.SECOND),
        (Way.THROUGH, set("df"), Attempt.SECOND),
        (Way.DIRECT, {"d"}, Attempt.THIRD),
        (Way.THROUGH, {"d"}, Attempt.THIRD),
    ]
    assert (result.passed, result.failed_directly) == (set("acf"), set("be"))
    assert result.differences == {"d": "not found"}


def test_a_screen_is_what_a_user_sees_of_it() -> None:
    """Full-screen programs draw changed cells only, and a sequence may come in parts."""
    picture = Picture()
    picture.feed("\x1b[?1049h\x1b[2;3Hpods\x1b[1;31m running\x1b[0m\x1b[2")
    picture.feed(";3HP\x1b[4;1Hgone\x1b[4;2H\x1b[K\x1b]0;title\x07")
    assert picture.lines[1:4] == ["  Pods running", "", "g"]
    picture.feed("\x1b[H\x1b[2J$ a\b\bb\r\n" + "x" * COLUMNS + "y")
    assert picture.lines[:3] == ["$ba", "x" * COLUMNS, "y"]
    picture.feed("\n" * ROWS)
    assert picture.lines == [""] * ROWS


def test_a_program_on_a_screen_reads_keys_and_says_what_it_shows() -> None:
    script = "stty size; read -r word; echo got $word"
    with on_screen(["sh", "-c", script], os.environ) as screen:
        screen.read_until(lambda lines: lines[0] == f"{ROWS} {COLUMNS}")
        screen.type("it\r")
        shown = screen.read_until(lambda lines: "got it" in lines)
        assert shown[:3] == [f"{ROWS} {COLUMNS}", "it", "got it"]
        with pytest.raises(Unavailable, match="shows .* / got it"):
            screen.read_until(lambda lines: "more" in lines)


def test_two_screens_differ_in_more_than_times_and_addresses() -> None:
    lines = ["  box  10.0.0.1  1/1   12s ", "  uid: a", "", "Start Time: Mon"]
    assert list(steady(lines)) == ["box ~ 1/1 ~"]
