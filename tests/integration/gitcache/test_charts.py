"""Helm charts from git, from a chart repository and from an OCI registry, in real workers."""

import gzip
import io
import shutil
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core.errors import Invalid, TowlineError
from core.runtime.clock import SystemClock
from core.spec.image_signatures import SignatureRules
from core.spec.renderers import HELM, HelmRelease
from core.spec.source import GitCredentials, RenderedBundle, RenderRequest, SourceFolder
from core.spec.source_signatures import SignatureRule, SignerSet, check_signatures, decode_evidence
from core.spec.statements.attestation import AttestationStatement, decode_statement
from gitcache.sync.cache import GitCache
from tests.integration.gitcache.chartserver import ChartServer, archive, chart, serving
from tests.integration.gitcache.manifests import config_map
from tests.integration.gitcache.stand import REPOSITORY, Stand, at_commit, spec
from towline.demo.git_server import GitServer, ServedRepository

pytestmark = pytest.mark.skipif(
    find_spec("helm_python") is None and shutil.which("helm") is None,
    reason="no Helm on this machine: make charts",
)

CANARY = "root:"


@pytest.fixture
def repository(git_server: GitServer) -> ServedRepository:
    """An empty repository."""
    return git_server.create_repository("shop")


@pytest.fixture
async def charts() -> AsyncIterator[ChartServer]:
    """A chart repository and registry without charts."""
    async with serving() as server:
        yield server


class Room:
    """Renders charts of commits."""

    def __init__(self, cache: GitCache, repository: ServedRepository) -> None:
        self.cache = cache
        self.repository = repository

    async def rendered(
        self, sha: str, parameters: dict[str, Any] | None = None, **helm: Any
    ) -> RenderedBundle:
        self.cache.follow(spec(self.repository.url))
        await at_commit(self.cache, sha)
        return await self.cache.render(
            RenderRequest(
                REPOSITORY,
                sha,
                "web",
                HELM,
                templated=parameters is not None,
                parameters=parameters or {},
                helm=HelmRelease("rel", "ns", **helm),
            )
        )

    async def objects(self, sha: str, **more: Any) -> list[dict[str, Any]]:
        rendered = await self.rendered(sha, **more)
        data = await self.cache.bundle(rendered.digest)
        return [orjson.loads(line) for line in data.splitlines()]

    async def values(self, sha: str, **more: Any) -> dict[str, str]:
        """The one value of each ConfigMap by its name."""
        found = await self.objects(sha, **more)
        return {one["metadata"]["name"]: one["data"]["v"] for one in found if "data" in one}

    async def refusal(self, sha: str, **more: Any) -> str:
        with pytest.raises(TowlineError) as caught:
            await self.rendered(sha, **more)
        assert CANARY not in caught.value.message
        return caught.value.message


@pytest.fixture
def room(cache: GitCache, repository: ServedRepository) -> Room:
    return Room(cache, repository)


def below(folder: str, files: dict[str, str]) -> dict[str, str | bytes | None]:
    return {f"{folder}/{path}": text for path, text in files.items()}


async def test_values_files_and_inline_values_win_in_their_order(room: Room) -> None:
    sha = room.repository.commit(
        {
            **below("web", chart()),
            "web/one.yaml": "v: one\n",
            "shared/two.yaml.liquid": "v: two-{{ cluster.handle }}\n",
        }
    )
    parameters = {"cluster": {"handle": "eu", "name": "unread"}}
    assert await room.values(sha) == {"rel-web": "default"}
    assert await room.values(sha, values_files=("one.yaml",)) == {"rel-web": "one"}
    both = {"values_files": ("one.yaml", "../shared/two.yaml.liquid")}
    assert await room.values(sha, parameters=parameters, **both) == {"rel-web": "two-eu"}
    inline = {**both, "values": "v: '{{ cluster.handle }}'"}
    assert await room.values(sha, parameters=parameters, **inline) == {"rel-web": "eu"}
    rendered = await room.rendered(sha, parameters, **both)
    assert rendered.reads == ("web", "shared/two.yaml.liquid")


async def test_clusters_that_differ_in_nothing_that_is_read_share_a_render(room: Room) -> None:
    sha = room.repository.commit(below("web", chart()))
    first = await room.rendered(sha, {"cluster": {"handle": "a", "currentVersion": "1.35.0"}})
    second = await room.rendered(sha, {"cluster": {"handle": "b", "currentVersion": "1.36.0"}})
    assert second.cached and first.source == second.source


async def test_a_chart_that_asks_for_the_version_of_its_cluster_gets_it(room: Room) -> None:
    asking = chart()["templates/map.yaml"].replace(".Values.v", ".Capabilities.KubeVersion.Version")
    sha = room.repository.commit(below("web", {**chart(), "templates/map.yaml": asking}))
    for version in ("v1.29.3", "v1.36.0"):
        parameters = {"cluster": {"currentVersion": version}}
        assert await room.values(sha, parameters=parameters) == {"rel-web": version}


async def test_separators_with_a_comment_are_those_of_helm(room: Room) -> None:
    """cert-manager begins its documents so."""
    text = (
        f"---# first\n{config_map('a')}\n---# second\n{config_map('b')}"
        f"\n---\n{config_map('c', '---# text')}"
    )
    sha = room.repository.commit(below("web", chart() | {"templates/map.yaml": text}))
    assert await room.values(sha) == {"a": "1", "b": "1", "c": "---# text"}


async def test_the_last_line_of_a_template_ends_as_helm_ends_it(room: Room) -> None:
    """The template of prometheus-adapter trims its last line break, and Helm writes one."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  v: |\n    last"
    sha = room.repository.commit(below("web", chart() | {"templates/map.yaml": text}))
    assert await room.values(sha) == {"a": "last\n"}


async def test_a_block_that_keeps_its_line_breaks_has_as_many_as_with_helm(room: Room) -> None:
    """In MetalLB's chart and in Flagger's for Grafana, Helm's own line break counts."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata:\n  v: |+\n    last\n"
    maps = text.format("a") + "---\n" + text.format("b")
    sha = room.repository.commit(below("web", chart() | {"templates/map.yaml": maps}))
    assert await room.values(sha) == {"a": "last\n\n", "b": "last\n\n"}


async def test_a_chart_finds_the_kinds_of_its_cluster(room: Room) -> None:
    monitor = '{{ .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor" }}'
    sha = room.repository.commit(
        below("web", chart() | {"templates/map.yaml": config_map("a", monitor)})
    )
    for versions, seen in (([], "false"), (["monitoring.coreos.com/v1/ServiceMonitor"], "true")):
        parameters = {"cluster": {"apiVersions": ["v1", *versions]}}
        assert await room.values(sha, parameters=parameters) == {"a": seen}


async def test_crds_come_hooks_stay_and_tests_go(room: Room) -> None:
    def hook(name: str, event: str) -> str:
        annotations = f"annotations: {{helm.sh/hook: {event}}}"
        return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {annotations}}}\n"

    crd = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: a.b}\n"
    )
    files = {
        **chart(),
        "crds/a.yaml": crd,
        ".helmignore": "crds/kustomization.yaml\n",
        "crds/kustomization.yaml": "kind: Kustomization\nresources: [a.yaml]\n",
        "templates/hook.yaml": hook("before", "pre-install,pre-upgrade"),
        "templates/tests/t.yaml": hook("test", "test"),
        "templates/NOTES.txt": "Thanks",
    }
    sha = room.repository.commit(below("web", files))
    names = [one["metadata"]["name"] for one in await room.objects(sha)]
    assert names == ["a.b", "before", "rel-web"]
    found = await room.objects(sha, ignore_hooks=True, ignore_crds=True)
    assert [one["metadata"]["name"] for one in found] == ["rel-web"]


async def test_crds_of_a_chart_that_is_switched_off_do_not_come(room: Room) -> None:
    crd = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: a.b}\n"
    )
    top = chart("top")
    needs = "dependencies: [{name: db, version: 1.0.0, condition: db.enabled}]\n"
    inner = {
        f"charts/db/{path}": text for path, text in chart("db", **{"crds/a.yaml": crd}).items()
    }
    files = {**top, **inner, "Chart.yaml": top["Chart.yaml"] + needs}
    sha = room.repository.commit(below("web", files))
    for value, names in (("true", ["a.b", "rel-db", "rel-top"]), ("false", ["rel-top"])):
        found = await room.objects(sha, values=f"db: {{enabled: {value}}}")
        assert [one["metadata"]["name"] for one in found] == names


async def test_errors_name_the_template_and_its_line(room: Room) -> None:
    cases = {
        "a: 1\nb: {{ .Values.x.y }}\n": "web/templates/bad.yaml:2",
        'a: {{ fail "not like this" }}\n': "not like this",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n": "web/templates/bad.yaml, line 1",
        "a: b: c\n": "web/templates/bad.yaml, line 1",
    }
    for text, reason in cases.items():
        sha = room.repository.commit(below("web", {**chart(), "templates/bad.yaml": text}))
        assert reason in await room.refusal(sha)
    sha = room.repository.commit({"web/templates/bad.yaml": None, "web/x.yaml": "a: [\n"})
    assert "web/x.yaml, line" in await room.refusal(sha, values_files=("x.yaml",))
    assert "gone.yaml" in await room.refusal(sha, values_files=("gone.yaml",))
    assert "folder 'web/gone'" in await room.refusal(sha, chart="gone")
    schema = '{"properties": {"v": {"type": "integer"}}}'
    sha = room.repository.commit({"web/x.yaml": None, "web/values.schema.json": schema})
    assert "'/v'" in await room.refusal(sha)


async def test_a_chart_beside_the_folder_and_a_dependency_in_the_repository(room: Room) -> None:
    needs = "dependencies: [{name: common, version: 1.0.0, repository: 'file://../common'}]\n"
    top = chart("top")
    sha = room.repository.commit(
        {
            **below("charts/top", {**top, "Chart.yaml": top["Chart.yaml"] + needs}),
            **below("charts/common", chart("common")),
            "web/prod.yaml": "v: prod\ncommon: {v: below}\n",
        }
    )
    more: dict[str, Any] = {"chart": "../charts/top", "values_files": ("prod.yaml",)}
    assert await room.values(sha, **more) == {"rel-top": "prod", "rel-common": "below"}
    rendered = await room.rendered(sha, **more)
    assert set(rendered.reads) == {"web", "charts/top", "charts/common"}
    changed = room.repository.commit({"charts/common/values.yaml": "v: other\n"})
    assert (await room.rendered(changed, **more)).source != rendered.source


@pytest.mark.skipif(
    not (shutil.which("kustomize") or shutil.which("kubectl")), reason="no kustomize"
)
async def test_charts_of_a_kustomization(room: Room, charts: ChartServer) -> None:
    """One from a chart repository, one from the commit, in a base of the service."""
    charts.publish("web", "1.2.0", archive("web", chart("web", "1.2.0")))
    text = f"""
helmCharts:
- {{name: web, repo: {charts.http}, version: 1.2.0, releaseName: far, namespace: shop,
   valuesFile: values.yaml, valuesInline: {{v: inline}}}}
- {{name: near, releaseName: near, namespace: infra, valuesFile: values.yaml,
   valuesInline: {{v: inline}}, valuesMerge: merge}}
"""
    sha = room.repository.commit(
        {
            "web/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\n",
            "base/kustomization.yaml": text,
            "base/values.yaml": "v: file\n",
            **below("base/charts/near", chart("near")),
        }
    )

    async def objects(sha: str) -> dict[str, Any]:
        room.cache.follow(spec(room.repository.url))
        await at_commit(room.cache, sha)
        rendered = await room.cache.render(RenderRequest(REPOSITORY, sha, "web"))
        found = map(orjson.loads, (await room.cache.bundle(rendered.digest)).splitlines())
        return {one["metadata"].pop("name"): (one["metadata"], one["data"]["v"]) for one in found}

    assert await objects(sha) == {
        "prod-far-web": ({"namespace": "shop"}, "inline"),
        "prod-near-near": ({"namespace": "infra"}, "file"),
    }
    evil = room.repository.commit({"base/kustomization.yaml": "helmCharts: [{name: ../../../x}]\n"})
    with pytest.raises(TowlineError, match="leaves the repository"):
        await objects(evil)
    gone = room.repository.commit({"base/kustomization.yaml": "helmCharts: [{name: gone}]\n"})
    with pytest.raises(TowlineError, match="'base/charts/gone' is not a Helm chart"):
        await objects(gone)


@pytest.mark.parametrize("kind", ["http", "oci"])
async def test_charts_come_from_repositories_and_registries_and_are_fetched_once(
    room: Room, charts: ChartServer, kind: str
) -> None:
    url = getattr(charts, kind)
    for version in ("1.0.0", "1.2.0", "2.0.0", "1.3.0-rc.1"):
        charts.publish(
            "db", version, archive("db", {**chart("db"), "values.yaml": f"v: {version}"})
        )
    sha = room.repository.commit({"web/prod.yaml": "other: 1\n"})
    wanted: dict[str, Any] = {"url": url, "chart": "db", "values_files": ("prod.yaml",)}
    assert await room.values(sha, **wanted, version="1.0.0") == {"rel-db": "1.0.0"}
    assert await room.values(sha, **wanted, version="^1.0") == {"rel-db": "1.2.0"}
    assert await room.values(sha, **wanted) == {"rel-db": "2.0.0"}
    asked = len(charts.asked)
    again = await room.rendered(sha, **wanted, version="1.0.0")
    assert again.cached and len(charts.asked) == asked
    assert "3.x" in await room.refusal(sha, **wanted, version="3.x")
    assert "no_such" in await room.refusal(sha, url=url, chart="no_such", version="1.0.0")


@pytest.mark.parametrize("kind", ["http", "oci"])
async def test_private_charts_need_the_credentials_of_their_place(
    room: Room, charts: ChartServer, kind: str
) -> None:
    """A repository of the same project that has them; what was fetched so is nobody else's."""
    charts.password = "canary-5up3r"
    charts.publish("db", "1.0.0", archive("db", chart("db")))
    sha = room.repository.commit({"web/prod.yaml": "v: mine\n"})
    wanted: dict[str, Any] = {
        "url": getattr(charts, kind),
        "chart": "db",
        "values_files": ("prod.yaml",),
    }
    refusal = await room.refusal(sha, **wanted, version="1.0.0")
    assert "canary" not in refusal
    place = spec(charts.http, repository_id="charts")
    wrong = GitCredentials(username="bot", password="wrong")
    right = GitCredentials(username="bot", password="canary-5up3r")
    for foreign in (
        replace(place, credentials=wrong),
        replace(place, credentials=right, project="another"),
        replace(place, credentials=right, url=f"{charts.http}/deeper"),
    ):
        room.cache.follow(foreign)
        await room.refusal(sha, **wanted, version="1.0.0")
    asked = [one for one in charts.asked if "git" in one]
    room.cache.follow(replace(place, refs=frozenset(), credentials=right))
    assert await room.values(sha, **wanted, version="1.0.0") == {"rel-db": "mine"}
    assert [one for one in charts.asked if "git" in one] == asked
    room.cache.forget(place.id)
    other = room.repository.commit({"web/prod.yaml": "v: theirs\n"})
    await room.refusal(other, **wanted, version="1.0.0")


async def test_a_chart_comes_from_here_and_its_values_from_there(
    room: Room, git_server: GitServer
) -> None:
    """A new commit of either gives another result; the same trees give the same."""
    charts = git_server.create_repository("charts")
    here = charts.commit(below("stable/web", chart()))
    there = room.repository.commit({"web/prod.yaml": "v: mine\n"})
    library = spec(charts.url, repository_id="charts")
    room.cache.follow(library)

    async def rendered(own: str, other: str) -> RenderedBundle:
        room.cache.follow(spec(room.repository.url))
        await at_commit(room.cache, own)
        source = SourceFolder(library.id, other, "stable/web", "chart")
        helm = HelmRelease("rel", "ns", chart="chart", values_files=("prod.yaml",))
        return await room.cache.render(
            RenderRequest(REPOSITORY, own, "web", HELM, helm=helm, sources=(source,))
        )

    first = await rendered(there, here)
    assert b'"v":"mine"' in await room.cache.bundle(first.digest)
    again = await rendered(there, charts.commit({"README.md": "Hello"}))
    assert again.cached and again.source == first.source
    changed = {"stable/web/templates/more.yaml": config_map("more")}
    assert (await rendered(there, charts.commit(changed))).count == 2


async def test_a_statement_names_fetched_charts_and_inline_values(
    room: Room, charts: ChartServer
) -> None:
    """A release name, a namespace and the version of the cluster are no values of the API."""
    charts.publish("db", "1.0.0", archive("db", chart("db")))
    sha = room.repository.commit({"web/prod.yaml": "other: 1\n"})
    wanted: dict[str, Any] = {"url": charts.http, "chart": "db", "values_files": ("prod.yaml",)}

    async def statement(**more: Any) -> AttestationStatement:
        attestation = (await room.rendered(sha, **wanted, **more)).attestation
        assert attestation is not None
        return decode_statement(attestation.statement)

    plain = await statement()
    (_, fetched) = plain.sources
    assert (fetched.url, fetched.path, fetched.revision) == (charts.http, "db", "1.0.0")
    assert fetched.digest.startswith("sha256:") and plain.tool and plain.values == ""
    one, other = await statement(values="v: 1"), await statement(values="v: 2")
    assert one.values.startswith("sha256:") and one.values != other.values
    assert (await statement(parameters={"cluster": {"currentVersion": "v1.36.0"}})).values == ""


async def test_dependencies_are_fetched_as_the_lock_says(room: Room, charts: ChartServer) -> None:
    for version in ("1.0.0", "1.9.0"):
        charts.publish(
            "db", version, archive("db", {**chart("db"), "values.yaml": f"v: {version}"})
        )
    top = chart("top")
    needs = f"dependencies: [{{name: db, version: ^1.0.0, repository: '{charts.http}'}}]\n"
    files = {**top, "Chart.yaml": top["Chart.yaml"] + needs}
    sha = room.repository.commit(below("web", files))
    assert await room.values(sha) == {"rel-top": "default", "rel-db": "1.9.0"}
    lock = f"dependencies: [{{name: db, version: 1.0.0, repository: '{charts.http}'}}]\n"
    sha = room.repository.commit({"web/Chart.lock": lock})
    assert await room.values(sha) == {"rel-top": "default", "rel-db": "1.0.0"}


async def test_a_version_that_is_published_anew_is_refused(
    room: Room, charts: ChartServer, stand: Stand
) -> None:
    charts.publish("db", "1.0.0", archive("db", chart("db")))
    sha = room.repository.commit({"web/x.txt": ""})
    wanted: dict[str, Any] = {"url": charts.http, "chart": "db", "version": "1.0.0"}
    await room.rendered(sha, **wanted)
    await stand.stop(room.cache)
    shutil.rmtree(stand.folder / "bundles")
    charts.publish("db", "1.0.0", archive("db", {**chart("db"), "values.yaml": "v: evil"}))
    again = Room(await stand.start(), room.repository)
    assert "republished" in await again.refusal(sha, **wanted)


async def test_a_server_that_is_away_leaves_what_was_fetched(
    room: Room, charts: ChartServer
) -> None:
    charts.publish("db", "1.0.0", archive("db", chart("db")))
    sha = room.repository.commit({"web/x.yaml": "v: 2\n"})
    wanted: dict[str, Any] = {"url": charts.http, "chart": "db", "version": "1.0.0"}
    await room.rendered(sha, **wanted)
    charts.archives.clear()
    charts.index = b"gone"
    assert await room.values(sha, **wanted, values_files=("x.yaml",)) == {"rel-db": "2"}
    with pytest.raises(TowlineError):
        wanted["version"] = "1.1.0"
        await room.rendered(sha, **wanted)


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "file:///etc/passwd", "git://x/"],
)
async def test_redirects_into_forbidden_places_are_refused(
    room: Room, charts: ChartServer, target: str
) -> None:
    charts.moved["/charts/index.yaml"] = target
    sha = room.repository.commit({"web/x.txt": ""})
    message = await room.refusal(sha, url=charts.http, chart="db")
    assert "not allowed" in message or "not an http or https URL" in message


@pytest.mark.parametrize("kind", ["http", "oci"])
@pytest.mark.parametrize("detour", ["/x/..", "/x/%2e%2e", "/x%2F.."])
async def test_a_chart_comes_from_the_folder_that_its_url_names(
    room: Room, charts: ChartServer, kind: str, detour: str
) -> None:
    """A fence compares URLs as text, also those of dependencies."""
    charts.publish("db", "1.0.0", archive("db", chart("db")))
    scheme, _, rest = getattr(charts, kind).partition("://")
    host, _, path = rest.partition("/")
    url = f"{scheme}://{host}{detour}/{path}"
    top = chart("top")
    needs = f"dependencies: [{{name: db, version: 1.0.0, repository: '{url}'}}]\n"
    files = {**top, "Chart.yaml": top["Chart.yaml"] + needs}
    sha = room.repository.commit(below("web", files))
    before = len(charts.asked)
    assert "its path is missing or invalid" in await room.refusal(sha)
    refusal = await room.refusal(sha, url=url, chart="db", version="1.0.0")
    assert "its path is missing or invalid" in refusal
    assert len(charts.asked) == before


def evil_archives() -> dict[str, bytes]:
    """Archives that no honest tool makes."""
    found = {}
    for name, entry in {
        "traversal": tarfile.TarInfo("db/../../../etc/cron.d/x"),
        "absolute": tarfile.TarInfo("/etc/cron.d/x"),
        "dots": tarfile.TarInfo("db/./x"),
        "link": _special("db/templates/x.yaml", tarfile.SYMTYPE, "/etc/passwd"),
        "hardlink": _special("db/templates/x.yaml", tarfile.LNKTYPE, "/etc/passwd"),
        "device": _special("db/templates/x.yaml", tarfile.CHRTYPE, ""),
    }.items():
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            tar.addfile(entry, io.BytesIO() if entry.isreg() else None)
        found[name] = buffer.getvalue()
    bomb = {"Chart.yaml": chart()["Chart.yaml"], "templates/x.yaml": b"#" * (80 << 20)}
    many = {f"templates/{number}.yaml": b"" for number in range(20_000)}
    return {
        **found,
        "bomb": archive("db", bomb),
        "many": archive("db", {**chart("db"), **many}),
        "nested": gzip.compress(archive("db", chart("db"))),
        "no archive": b"\x1f\x8b" + b"x" * 100,
    }


def _special(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


async def test_evil_archives_harm_only_their_own_service(room: Room, charts: ChartServer) -> None:
    sha = room.repository.commit({"web/x.txt": "", "api/a.yaml": config_map("a")})
    for number, (name, data) in enumerate(evil_archives().items()):
        version = f"1.0.{number}"
        charts.publish("db", version, data)
        message = await room.refusal(sha, url=charts.http, chart="db", version=version)
        assert "archive" in message, name
        plain = await room.cache.render(RenderRequest(REPOSITORY, sha, "api"))
        assert plain.count == 1


async def test_an_index_beyond_bounds_is_refused(room: Room, charts: ChartServer) -> None:
    sha = room.repository.commit({"web/x.txt": ""})
    charts.index = b"a: " + b"x" * (40 << 20)
    assert "more than" in await room.refusal(sha, url=charts.http, chart="db")
    laughs = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    laughs += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    charts.index = "\n".join(laughs).encode()
    assert "values in one document" in await room.refusal(sha, url=charts.http, chart="db")


@pytest.mark.parametrize(
    "text",
    [
        "{{ range until 2000000000 }}{{ end }}",
        '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}',
        '{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range until 40 }}{{ $x = printf "%s%s" $x $x }}{{ end }}',
    ],
)
async def test_templates_that_never_end_are_stopped_and_others_go_on(
    repository: ServedRepository, stand: Stand, text: str
) -> None:
    room = Room(await stand.start(render_seconds=1.0), repository)
    files = {**below("web", chart()), "web/templates/evil.yaml": text}
    sha = repository.commit({**files, "api/a.yaml": config_map("a")})
    await room.refusal(sha)
    assert (await room.cache.render(RenderRequest(REPOSITORY, sha, "api"))).count == 1


async def test_a_chart_reads_no_file_no_variable_and_no_host(room: Room) -> None:
    for text in (
        '{{ .Files.Get "/etc/passwd" }}',
        '{{ .Files.Get "../../../../../../etc/passwd" }}',
        '{{ (.Files.Glob "../**").AsConfig }}',
        '{{ getHostByName "localhost" }}',
        '{{ tpl (.Files.Get "/etc/passwd") . }}',
        '{{ lookup "v1" "Secret" "" "" | toYaml }}',
    ):
        shown = chart()["templates/map.yaml"].replace(
            "{{ .Values.v }}", "x" + text.replace('"', "`")
        )
        sha = room.repository.commit(below("web", {**chart(), "templates/map.yaml": shown}))
        assert (await room.values(sha))["rel-web"].strip() in ("x", "x{}"), text
    sha = room.repository.commit({"web/templates/map.yaml": 'a: {{ env "HOME" }}'})
    assert "env" in await room.refusal(sha)


async def test_names_of_files_that_leave_the_repository_are_refused(room: Room) -> None:
    sha = room.repository.commit(below("web", chart()))
    for odd in ("../../etc/passwd", "/etc/passwd"):
        assert "leaves the repository" in await room.refusal(sha, values_files=(odd,))
        assert "leaves the repository" in await room.refusal(sha, chart=odd)
    top = chart()
    needs = "dependencies: [{name: x, version: 1.0.0, repository: 'file://../../../etc'}]\n"
    sha = room.repository.commit({"web/Chart.yaml": top["Chart.yaml"] + needs})
    assert "leaves the repository" in await room.refusal(sha)


async def test_only_charts_of_the_fence_s_signers_are_rendered(
    room: Room, repository: ServedRepository, charts: ChartServer
) -> None:
    """Signed as cosign signs: by a payload and a signature beside the chart in its registry."""
    ours, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    pem = ours.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    keys = SignerSet("shop-cosign", pem.decode())
    rules = (
        SignatureRule(repository.url),
        SignatureRule("oci://127.0.0.1:*/charts", ("web",), (keys,)),
    )
    charts.publish("web", "1.0.0", archive("web", chart()))
    sha = repository.commit({"web/values.yaml": "v: mine\n"})
    room.cache.follow(spec(repository.url))
    await at_commit(room.cache, sha)
    release = HelmRelease("rel", "ns", url=charts.oci, chart="web", version="1.0.0")
    signatures = SignatureRules(rules)
    request = RenderRequest(REPOSITORY, sha, "web", HELM, helm=release, signatures=signatures)
    for sign, reason in ((None, "it is not signed"), (theirs, "the signer is not allowed")):
        if sign is not None:
            charts.sign("web", "1.0.0", sign)
        with pytest.raises(Invalid, match=reason) as refused:
            await room.cache.render(request)
        assert "shop-cosign (cosign key sha256:" in refused.value.message
    charts.sign("web", "1.0.0", ours)
    attestation = (await room.cache.render(request)).attestation
    assert attestation is not None
    statement = decode_statement(attestation.statement)
    evidence = decode_evidence(attestation.evidence)
    found = check_signatures(rules, statement.sources, evidence, SystemClock().now())
    assert [signer.method for signer in found.values()] == ["cosign"]
