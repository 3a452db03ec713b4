"""Services generated from clusters, folders, lists and open requests."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.model.cluster import Cluster
from controlplane.generators.model import service_set as sets
from controlplane.generators.model.service_set import (
    Generator,
    GeneratorResults,
    GitFolderGenerator,
    PullRequestGenerator,
    ServiceSet,
    generate_services,
    select_requests,
)
from controlplane.services.model.service import ServiceSpec
from controlplane.services.model.templates import ServiceTemplate
from core.errors import Invalid
from core.identity import ClusterId
from core.spec.edits import OpenMergeRequest
from core.spec.renderers import chart_ref

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def cluster(name: str, **tags: str) -> Cluster:
    return Cluster(ClusterId(f"id-{name}"), name, name, NOW, NOW, tags=tags)


def service_set(generator: Generator, **template: Any) -> ServiceSet:
    made = ServiceTemplate("web", "shop", "repository").changed(**{"folder": "x"} | template)
    return ServiceSet("set", "apps", NOW, NOW, generator=generator, template=made)


def request(number: int, branch: str = "feature", **more: Any) -> OpenMergeRequest:
    return replace(OpenMergeRequest(number, branch, "a" * 40, NOW), **more)


def test_clusters_times_folders_times_a_list() -> None:
    one = service_set(
        Generator(items=({"tier": "a"}, {"tier": "b"})),
        name="${folder.name}-${item.tier}",
        namespace="${cluster.tags.team}",
        folder="${folder.path}",
    )
    clusters = [cluster("eu", team="red"), cluster("us", team="blue")]
    found = generate_services(one, clusters, GeneratorResults(folders=("apps/web", "apps/api")))
    assert found.problems == ()
    assert len({wanted.place for wanted in found.services}) == 8
    first = found.services[0].template
    assert (first.name, first.namespace, first.spec.folder) == ("web-a", "red", "apps/web")


def test_an_unknown_placeholder_makes_it_incomplete_and_says_which() -> None:
    one = service_set(Generator(), name="${cluster.tags.nope}")
    found = generate_services(one, [cluster("eu")], GeneratorResults())
    assert found.services == () and found.problems == (
        "eu: unknown placeholder ${cluster.tags.nope}",
    )


def test_other_texts_in_braces_are_left_to_shells_and_secrets() -> None:
    template = ServiceTemplate(
        "web",
        "shop",
        "r",
        ServiceSpec(configuration={"a": "${HOME} ${towline.secret:x} ${cluster.handle}"}),
    )
    one = ServiceSet("set", "apps", NOW, NOW, template=template)
    (wanted,) = generate_services(one, [cluster("eu")], GeneratorResults()).services
    assert wanted.template.spec.configuration == {"a": "${HOME} ${towline.secret:x} eu"}


def test_a_preview_follows_the_branch_of_its_request() -> None:
    sources = Generator(requests=PullRequestGenerator("repository"))
    template = ServiceTemplate(
        "web-${request.number}", "pr-${request.slug}", spec=ServiceSpec(folder="web")
    )
    one = ServiceSet("set", "previews", NOW, NOW, generator=sources, template=template)
    (wanted,) = generate_services(
        one, [cluster("eu")], GeneratorResults(requests=(request(7, "Feat/One_x"),))
    ).services
    made = wanted.template
    assert (made.name, made.namespace) == ("web-7", "pr-feat-one-x")
    assert (made.spec.ref, made.repository_id) == ("Feat/One_x", "repository")


def test_a_template_without_a_repository_takes_that_of_the_folders() -> None:
    folders = GitFolderGenerator("apps", ref="stable", pattern="apps/*")
    template = ServiceTemplate("${folder.name}", "apps")
    made = ServiceSet("s", "apps", NOW, NOW, generator=Generator(folders), template=template)
    results = GeneratorResults(folders=("apps/web",))
    (generated,) = generate_services(made, [cluster("eu")], results).services
    found = generated.template
    assert (found.repository_id, found.spec.ref) == ("apps", "stable")
    assert (found.name, found.spec.folder) == ("web", "apps/web")


def test_a_long_branch_has_a_short_slug() -> None:
    sources = Generator(requests=PullRequestGenerator("repository"))
    made = service_set(sources, name="${request.slug}")
    results = GeneratorResults(requests=(request(1, "a" * 39 + "/" + "b" * 30),))
    (generated,) = generate_services(made, [cluster("eu")], results).services
    assert generated.template.name == "a" * 39


def test_forks_others_labels_and_stale_requests_do_not_count() -> None:
    source = PullRequestGenerator(
        "repository", labels=("preview",), ttl_hours=24, limit=2, base="main"
    )

    def good(number: int, **more: Any) -> OpenMergeRequest:
        return replace(request(number, labels=("preview", "x"), base="main"), **more)

    found = [
        good(9),
        good(1, forked=True),
        good(2, labels=("x",)),
        good(3, updated_at=NOW - timedelta(hours=24)),
        good(4, base="release"),
        good(5, updated_at=NOW - timedelta(hours=23, minutes=59)),
        good(6),
    ]
    assert [one.number for one in select_requests(source, found, NOW)] == [5, 6]


@given(st.sets(st.integers(1, 50), max_size=20), st.integers(51, 99), st.integers(1, 10))
def test_a_new_request_takes_no_ones_place(there: set[int], new: int, most: int) -> None:
    source = PullRequestGenerator("repository", limit=most)
    before = {one.number for one in select_requests(source, [request(n) for n in there], NOW)}
    after = {
        one.number for one in select_requests(source, [request(n) for n in {*there, new}], NOW)
    }
    assert before <= after and len(after) <= most


@pytest.mark.parametrize(
    ("pattern", "base", "depth", "fits", "not_fits"),
    [
        ("apps/*", "apps", 1, "apps/web", "apps/web/deep"),
        ("*", "", 1, "apps", "apps/web"),
        ("a/*/deploy", "a", 2, "a/x/deploy", "a/x/other"),
        ("teams/t-?/apps/*", "teams", 3, "teams/t-1/apps/x", "teams/t-12/apps/x"),
        ("one", "", 1, "one", "two"),
    ],
)
def test_patterns_of_folders(pattern: str, base: str, depth: int, fits: str, not_fits: str) -> None:
    source = GitFolderGenerator("repository", pattern=pattern, excluded=("apps/secret",))
    assert (source.base, source.depth) == (base, depth)
    assert source.matches(fits) and not source.matches(not_fits)
    assert not source.matches("apps/secret")


def test_more_than_fits_is_a_problem_and_nothing_else() -> None:
    one = service_set(Generator(items=tuple({"n": str(n)} for n in range(1000))))
    clusters = [cluster(f"c{n}") for n in range(21)]
    found = generate_services(one, clusters, GeneratorResults())
    assert found.services == () and "20,000 at most" in found.problems[0]


@pytest.mark.parametrize(
    "generator",
    [
        Generator(items=({"bad name": "x"},)),
        Generator(requests=PullRequestGenerator("r", limit=0)),
        Generator(requests=PullRequestGenerator("r", limit=201)),
        Generator(requests=PullRequestGenerator("r", ttl_hours=-1)),
        Generator(requests=PullRequestGenerator("r", ttl_hours=24 * 365 + 1)),
        Generator(items=({"name": "v" * 1_025},)),
        Generator(folders=GitFolderGenerator("r", ref="--upload-pack")),
        Generator(folders=GitFolderGenerator("r", pattern="../*")),
        Generator(folders=GitFolderGenerator("r", pattern="/".join("a" * 17))),
        Generator(items=tuple({} for _ in range(1001))),
    ],
)
def test_generators_out_of_bounds_are_refused(generator: Generator) -> None:
    with pytest.raises(Invalid):
        generator.checked()


@pytest.mark.parametrize(
    ("template", "item", "problem"),
    [
        ({"configuration": {"a": "${item.x}" * 65}}, "y" * 1_024, "at most 65,536 characters"),
        ({"configuration": {"a": "${item.x}" * 5_000}}, "y" * 1_024, "is too long with its"),
        ({"helm": {"chart": "c", "values": "a: ${item.x}"}}, "[", "helm.values: is not YAML"),
        (
            {"helm": {"chart": "c", "url": "https://${item.x}/charts"}},
            "user:password@example.org",
            "helm.url: must be https://… or oci://…, without credentials",
        ),
        ({"folder": "${item.x}"}, "../secrets", "leaves the repository"),
        ({"ref": "${item.x}"}, "--upload-pack", "is not a branch"),
    ],
)
def test_a_filled_in_template_has_the_limits_of_a_service(
    template: dict[str, Any], item: str, problem: str
) -> None:
    """What no user may write into a service, a list brings into none."""
    made = service_set(Generator(items=({"x": "main"}, {"x": item})), **template)
    found = generate_services(made, [cluster("eu")], GeneratorResults())
    assert len(found.services) == 1
    assert len(found.problems) == 1 and problem in found.problems[0]


@pytest.mark.parametrize(
    ("generator", "field"),
    [
        (Generator(folders=GitFolderGenerator("r", excluded=("x",) * 101)), "folders.excluded"),
        (Generator(folders=GitFolderGenerator("r", excluded=("/".join("x" * 17),))), "folders."),
        (Generator(folders=GitFolderGenerator("r", excluded=("x/../y",))), "git.folder"),
        (Generator(requests=PullRequestGenerator("r", ("x",) * 51)), "requests.labels"),
        (Generator(requests=PullRequestGenerator("r", ("x" * 256,))), "requests.labels"),
        (Generator(requests=PullRequestGenerator("r", base="x" * 256)), "requests.base"),
        (Generator(items=({f"n{number}": "" for number in range(101)},)), "list"),
    ],
)
def test_every_list_and_text_of_a_generator_has_a_limit(generator: Generator, field: str) -> None:
    """Each pattern is compared with each folder of a repository, again and again."""
    with pytest.raises(Invalid) as error:
        generator.checked()
    assert error.value.field is not None and error.value.field.startswith(field)


def test_a_generator_at_its_limits_is_taken() -> None:
    folders = GitFolderGenerator("r", pattern="/".join("x" * 16), excluded=("y/*",) * 100)
    requests = PullRequestGenerator(
        "r", ("x" * 255,) * 50, limit=200, ttl_hours=8_760, base="x" * 255
    )
    items = ({f"n{number}": "v" * 1_024 for number in range(100)},)
    generator = Generator(folders, items, requests)
    assert generator.checked() is generator


def test_a_chart_follows_the_version_of_an_item_and_has_no_folder() -> None:
    """The folders give the names alone: a chart is not in one of them."""
    helm = {"chart": "redis", "version": "${item.version}"}
    made = service_set(
        Generator(GitFolderGenerator("r"), ({"version": "1.2.3"},)),
        name="${folder.name}",
        folder="",
        helm=helm,
        ref=chart_ref("redis", "${item.version}"),
    )
    found = generate_services(made, [cluster("eu")], GeneratorResults(folders=("web",)))
    assert found.problems == ()
    (service,) = found.services
    assert service.template.spec.ref == chart_ref("redis", "1.2.3")
    assert service.template.spec.helm == {"chart": "redis", "version": "1.2.3"}
    assert service.template.spec.folder == ""


def test_settings_of_helm_do_not_change_the_ref_of_a_git_repository() -> None:
    made = service_set(
        Generator(items=({"ref": "next"},)),
        ref="${item.ref}",
        helm={"chart": "redis", "url": "https://charts.example.org", "version": "1.2.3"},
    )
    found = generate_services(made, [cluster("eu")], GeneratorResults())
    assert [service.template.spec.ref for service in found.services] == ["next"]


def test_a_template_keeps_its_repository_and_ref_beside_requests() -> None:
    made = service_set(Generator(requests=PullRequestGenerator("other")), ref="main")
    found = generate_services(made, [cluster("eu")], GeneratorResults(requests=(request(1),)))
    (service,) = found.services
    assert (service.template.repository_id, service.template.spec.ref) == ("repository", "main")


def test_a_template_without_any_repository_has_none() -> None:
    """The evaluation says so later, with the name of what is missing."""
    made = service_set(Generator(items=({"tier": "a"},)), repository_id=None)
    found = generate_services(made, [cluster("eu")], GeneratorResults())
    assert [service.template.repository_id for service in found.services] == [None]


def test_exactly_the_limit_of_services_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "MAX_SERVICES", 6)
    made = service_set(Generator(items=({"tier": "a"},) * 3), name="${cluster.handle}")
    clusters = [cluster("eu"), cluster("us")]
    assert len(generate_services(made, clusters, GeneratorResults()).services) == 6
