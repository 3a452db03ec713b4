"""Services that a folder defines: kept, shown, and gone only when that is certain."""

import shutil
from pathlib import Path

import pytest
import yaml

from core.errors import Invalid, NotFound, TowlineError, Unavailable
from core.identity import is_local_id, local_id
from core.spec.bundle import make_bundle
from core.spec.desired import Desired
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.local_services import LocalServiceReport
from core.spec.source import HelmRelease
from core.spec.statements.attestation import TrustedKeys
from core.spec.status import Phase, StageTimes
from core.spec.sync import DriftPolicy, Removal
from syncagent.autonomy.admission import DesiredStateAdmission
from syncagent.autonomy.definition_sources import (
    LABEL,
    DefinitionConfigMaps,
    DefinitionFolder,
    DefinitionRepository,
)
from syncagent.autonomy.definitions import DefinitionReader
from syncagent.autonomy.folder_renders import FolderRenders
from syncagent.autonomy.inputs import InputVerifier
from syncagent.autonomy.policy import LocalPolicy
from syncagent.autonomy.services import LocalServicePorts, LocalServices
from syncagent.domain.local_services import Document, ServiceDefinition
from syncagent.ports import DefinitionSource, LocalRender, LocalRenders
from syncagent.state.bundles import BundleFiles
from syncagent.state.database import Database
from syncagent.state.store import SqliteStateStore
from tests.fakes.engine import Stand

CONFIG_KEY = ("", "ConfigMap", "shop", "a")
HOOK = """
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {towline.dev/hook: pre-sync}}
spec: {template: {spec: {containers: [{name: main, image: job}]}}}
"""
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"


def done(command_id: str, message: str) -> CommandAnswer:
    return CommandAnswer(command_id, CommandOutcome.SUCCEEDED, message)


async def place() -> str:
    return "uid-of-kube-system"


class World:
    """A folder, and what comes of it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "services"
        self.desired: list[Desired] = []
        self.shown: list[LocalServiceReport] = []
        self.database = Database(root / "agent.db")
        self.bundles = BundleFiles(root / "bundles")
        self.define("shop", "name: shop\nnamespace: shop\nfolder: manifests\n")
        self.manifest("a.yaml", CONFIG)
        self.services = self.make()

    def make(self, *more: DefinitionSource, renders: LocalRenders | None = None) -> LocalServices:
        memory = SqliteStateStore(self.database)
        return LocalServices(
            more or [DefinitionFolder(self.folder)],
            f"file://{self.folder}",
            place,
            LocalServicePorts(
                FolderRenders(self.folder, renders), self.desire, self.bundles, memory, self
            ),
        )

    def desire(self, desired: Desired) -> None:
        self.desired.append(desired)
        SqliteStateStore(self.database).save_desired_state(desired, StageTimes())

    def mirror(self, mirror: LocalServiceReport) -> None:
        self.shown.append(mirror)

    def define(self, name: str, text: str) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{name}.yaml").write_text(text)

    def manifest(self, name: str, text: str) -> None:
        (self.folder / "manifests").mkdir(exist_ok=True)
        (self.folder / "manifests" / name).write_text(text)


@pytest.fixture
def world(tmp_path: Path):
    one = World(tmp_path)
    yield one
    one.database.close()


async def test_a_definition_is_desired_once_and_shown(world: World) -> None:
    """Its bundle is on disk; unchanged files, also after a restart, mean no new sequence."""
    await world.services.read_and_render()
    await world.services.read_and_render()
    await world.make().read_and_render()
    (one,) = world.desired
    assert one.service_id == local_id("uid-of-kube-system", "shop") and is_local_id(one.service_id)
    assert one.sequence == 1 and one.spec is not None and one.spec.options.create_namespace
    assert world.bundles.has(one.spec.digest)
    assert world.shown[0].digest == one.spec.digest and world.shown[0].folder == "manifests"


async def test_a_changed_file_is_a_new_sequence(world: World) -> None:
    await world.services.read_and_render()
    world.manifest("a.yaml", CONFIG.replace("k: v", "k: w"))
    await world.services.read_and_render()
    assert [one.sequence for one in world.desired] == [1, 2]
    assert [one.sequence for one in world.shown] == [1, 2]


async def test_unreadable_definitions_remove_nothing(world: World) -> None:
    """A missing folder, a broken file, a broken manifest: the service stays, with the reason."""
    await world.services.read_and_render()
    world.define("shop", "name: [")
    await world.services.read_and_render()
    assert "kept unchanged: shop.yaml: is not YAML" in world.shown[-1].error
    world.define("shop", "name: shop\nnamespace: shop\nfolder: manifests\n")
    world.manifest("b.yaml", "{")
    await world.services.read_and_render()
    assert "b.yaml cannot be read" in world.shown[-1].error
    shutil.rmtree(world.folder)
    await world.services.read_and_render()
    assert len(world.desired) == 1


async def test_unreadable_definitions_are_listed_in_the_complaint(
    world: World,
) -> None:
    """No service shows it: the first file that was ever mounted may be the broken one."""
    await world.services.read_and_render()
    world.define("new", "name: [")
    await world.services.read_and_render()
    assert world.services.problem.startswith("services cannot be read: new.yaml: is not YAML")
    assert world.shown[-1].error == ""
    for number in range(9):
        world.define(f"odd{number}", "- x")
    await world.services.read_and_render()
    assert world.services.problem.endswith(" and 5 more")
    for one in world.folder.glob("*.yaml"):
        one.write_text("# none")
    await world.services.read_and_render()
    assert world.services.problem == ""


async def test_a_sync_of_the_clusters_own_is_stopped_on_request(tmp_path: Path) -> None:
    """Its hook goes, no look at the same files takes it up, a restart neither; a change does."""
    stand = Stand(tmp_path)
    await stand.start()
    place, key = World(tmp_path), ("batch", "Job", "shop", "migrate")
    place.manifest("job.yaml", HOOK)
    place.services._desire = lambda one: stand.engine.desire(one)
    read_and_render, refresh = place.services.read_and_render, place.services.refresh
    await read_and_render()
    admission = DesiredStateAdmission(
        stand.engine, InputVerifier(TrustedKeys(()), defines=True), stand.hub, refresh
    )
    (service_id,) = place.services._stored
    await stand.until(lambda: key in stand.cluster.objects)
    admission.terminate("c1", service_id)
    await stand.until(lambda: stand.hub.answers == [done("c1", "stopped")])
    assert stand.last(service_id)[0] == Phase.FAILED and key not in stand.cluster.objects
    await read_and_render()
    await stand.restart()
    await read_and_render()
    await stand.clock.advance(60)
    assert not stand.cluster.objects.keys() & {key, CONFIG_KEY}
    place.manifest("job.yaml", "# none\n")
    await read_and_render()
    await stand.until(lambda: stand.last(service_id) == (Phase.HEALTHY, ""))
    assert CONFIG_KEY in stand.cluster.objects
    await stand.stop()
    place.database.close()


async def test_a_definition_that_has_gone_removes_its_objects(world: World) -> None:
    await world.services.read_and_render()
    (world.folder / "shop.yaml").write_text("# none")
    await world.services.read_and_render()
    await world.services.read_and_render()
    assert [one.removal for one in world.desired] == [None, Removal.CASCADE]
    assert world.shown[-1].removed and len(world.shown) == 2


async def test_services_stay_when_their_place_is_empty_all_at_once(world: World) -> None:
    """An empty mount removes nothing, also after a restart; its error is shown until it is well."""
    await world.services.read_and_render()
    (world.folder / "shop.yaml").unlink()
    await world.services.read_and_render()
    await world.services.read_and_render()
    await world.make().read_and_render()
    assert [one.removal for one in world.desired] == [None]
    assert [("empty document" in one.error) for one in world.shown] == [False, True, True]
    assert world.shown[-1].digest == world.shown[0].digest and not world.shown[-1].removed
    world.define("shop", "name: shop\nnamespace: shop\nfolder: manifests\n")
    await world.services.read_and_render()
    assert len(world.desired) == 1 and not world.shown[-1].error


ALIASES = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 40)
)
MERGES = "a: &a0 {x: y}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n"
    for level in range(1, 40)
)


@pytest.mark.parametrize(
    "bomb", [ALIASES, MERGES, "a: &a [*a, *a]"], ids=["aliases", "merges", "itself"]
)
async def test_aliases_do_not_multiply(world: World, bomb: str) -> None:
    """A small file that stands for a huge object is refused before it is written out."""
    world.manifest("b.yaml", bomb)
    await world.services.read_and_render()
    assert world.desired == []
    assert any(word in world.shown[-1].error for word in ("grows beyond", "an alias"))


def test_a_definition_whose_maps_multiply_is_a_named_problem() -> None:
    read = DefinitionReader().read([Document("odd.yaml", MERGES)])
    assert "grows beyond" in read.problems[0]


async def test_anchors_are_ordinary_yaml(world: World) -> None:
    text = CONFIG.replace("name: a", "name: b").replace("{k: v}", "&d {k: v}") + "more: *d\n"
    world.manifest("b.yaml", text)
    await world.services.read_and_render()
    assert len(world.desired) == 1 and not world.shown[-1].error


async def test_one_of_several_definitions_goes_without_ado(world: World) -> None:
    world.define("other", "name: other\nnamespace: shop\nfolder: manifests\n")
    await world.services.read_and_render()
    (world.folder / "shop.yaml").unlink()
    await world.services.read_and_render()
    assert [one.removal for one in world.desired] == [None, None, Removal.CASCADE]


async def test_a_repository_without_a_git_part_is_said(world: World) -> None:
    text = "name: shop\nnamespace: shop\nfolder: x\nrepository: https://git.example/x.git\n"
    world.define("shop", text)
    await world.services.read_and_render()
    assert "without git support" in world.shown[-1].error and world.desired == []
    assert world.shown[-1].reason == "INVALID"


@pytest.mark.parametrize(
    "text",
    [
        "- a",
        "name: x",
        "name: x\nnamespace: y\nfolder: /etc",
        "name: x\nnamespace: y\nfolder: ../../etc",
        "name: x\nnamespace: y\nfolder: z\nsecret: w",
        "name: 3\nnamespace: y\nfolder: z",
        "name: x\nnamespace: y\nfolder: z\noptions: {drift: never}",
        "name: x\nnamespace: y\nfolder: z\noptions: {paused: 1}",
        "name: x\nnamespace: y\nfolder: z\n---\nname: x\nnamespace: y\nfolder: z",
        "name: !!python/object:os.system x",
        "name: x" + " " * 300_000,
        "name: 2026-13-45",
        "\0",
        "name: !!int ''",
        "name: !!bool x",
        "name: x\nnamespace: y\nfolder: z\noptions: {drift: [heal]}",
    ],
)
def test_odd_definitions_are_named_problems(text: str) -> None:
    read = DefinitionReader().read([Document("odd.yaml", text)])
    assert len(read.problems) == 1 and read.problems[0].startswith("odd.yaml: ")


def test_helm_settings_of_a_definition_are_read() -> None:
    """The release is called as the service; values are a map or a text."""
    head = "{name: shop, namespace: web, folder: c, repository: 'https://git.example.org/c.git', "
    texts = (
        head + "helm: {}}",
        head + "helm: {values: {a: [1, {b: x}]}, valuesFiles: [prod.yaml], ignoreCrds: true}}",
        head + "helm: {release: r, chart: web, version: 1.x, url: 'oci://r.example.org/c', "
        'values: "a: 1"}}',
    )
    read = [DefinitionReader().read([Document("x", text)]) for text in texts]
    assert [one.problems for one in read] == [(), (), ()]
    assert [one.services[0].helm for one in read] == [
        HelmRelease("shop", "web"),
        HelmRelease("shop", "web", values='{"a":[1,{"b":"x"}]}', values_files=("prod.yaml",),
                    ignore_crds=True),
        HelmRelease("r", "web", chart="web", version="1.x",
                    url="oci://r.example.org/c", values="a: 1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("helm", "reason"),
    [
        ("[]", "unknown fields"),
        ("{set: {a: 1}}", "unknown fields"),
        ("{release: 1}", "helm.release is a text"),
        (f"{{chart: {'x' * 300}}}", "at most 256"),
        ("{ignoreHooks: please}", "true or false"),
        ("{url: 'file:///etc', chart: c}", "without credentials"),
        ("{url: 'https://a:b@charts.example.org', chart: c}", "without credentials"),
        ("{url: 'https://charts.example.org'}", "helm.chart is missing"),
        ("{values: [1]}", "a map or a text"),
        ("{values: {1: !!python/none , a: !!binary aGVsbG8=}}", "is not YAML"),
        ("{values: {a: !!binary aGVsbG8=}}", "written as JSON"),
        (f"{{values: {{a: {'[' * 900}{']' * 900}}}}}", "nested too deeply"),
        ("{valuesFiles: prod.yaml}", "a list of at most"),
        ("{valuesFiles: ['']}", "a list of at most"),
    ],
)
def test_odd_words_on_a_chart_are_named_problems(helm: str, reason: str) -> None:
    text = (
        f"{{name: a, namespace: b, folder: c, repository: 'https://g.example.org/c', helm: {helm}}}"
    )
    (problem,) = DefinitionReader().read([Document("x", text)]).problems
    assert reason in problem


def test_values_of_a_chart_do_not_multiply_by_aliases() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n    " for n in range(1, 9))
    text = (
        "name: a\nnamespace: b\nfolder: c\nrepository: https://g.example.org/c\n"
        f"helm:\n  values:\n    l0: &l0 [{', '.join('x' * 9)}]\n    {levels}"
    )
    (problem,) = DefinitionReader().read([Document("x", text)]).problems
    assert "helm.values is a map or a text" in problem


def test_a_chart_beside_the_document_is_refused() -> None:
    text = "{name: a, namespace: b, folder: c, helm: {}}"
    (problem,) = DefinitionReader().read([Document("x", text)]).problems
    assert "needs a repository" in problem


def test_options_are_read() -> None:
    options = "options: {drift: report, keepOnPrune: true}"
    text = f"name: x\nnamespace: y\nfolder: z\n{options}\n"
    (one,) = DefinitionReader().read([Document("a.yml", text)]).services
    assert one.options.drift is DriftPolicy.REPORT and one.options.keep_on_prune


@pytest.mark.parametrize(
    "text",
    [
        "a: 2024-99-99",
        "a: 0b_",
        "a: !!int ''",
        "a: !!bool x",
        "a: !!timestamp x",
        "a: !!binary aGk=",
        "1: a",
        "a: 99999999999999999999",
        "&a {a: *a}",
        "a: !!set {b}",
        "metadata: [a]\nb: !!binary aGk=",
    ],
)
async def test_a_manifest_that_no_reader_can_make_sense_of_holds_up_its_service_only(
    world: World, text: str
) -> None:
    world.define("odd", "name: odd\nnamespace: odd\nfolder: odd\n")
    (world.folder / "odd").mkdir()
    (world.folder / "odd" / "b.yaml").write_text(text)
    await world.services.read_and_render()
    assert [one.spec and one.spec.name for one in world.desired] == ["shop"]
    assert next(one for one in world.shown if one.name == "odd").error


async def test_whatever_goes_wrong_with_one_service_the_others_are_kept(world: World) -> None:
    class Broken:
        async def render(self, definition: ServiceDefinition) -> LocalRender:
            raise AssertionError("a bug")

    text = "name: odd\nnamespace: odd\nfolder: x\nrepository: https://git.example/x.git\n"
    world.define("odd", text)
    await world.make(renders=Broken()).read_and_render()
    assert [one.spec and one.spec.name for one in world.desired] == ["shop"]
    assert next(one for one in world.shown if one.name == "odd").error.startswith("internal")


async def test_a_link_out_of_the_folder_is_not_followed(world: World, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    shutil.rmtree(world.folder / "manifests")
    (world.folder / "manifests").symlink_to(tmp_path / "outside")
    await world.services.read_and_render()
    assert "leads outside" in world.shown[-1].error


def test_a_folder_of_a_document_from_git_is_one_of_its_repository() -> None:
    """Unless the document names another repository, whose ref is `main` then."""
    texts = ["{name: a, namespace: n, folder: f}", "{name: b, namespace: n, folder: f, ref: v1}"]
    texts.append("{name: c, namespace: n, folder: f, repository: https://other/x}")
    documents = [Document("", one, "https://git/root", "live") for one in texts]
    read = DefinitionReader().read(documents).services
    places = [(one.repository, one.ref) for one in read]
    assert places == [
        ("https://git/root", "live"),
        ("https://git/root", "v1"),
        ("https://other/x", "main"),
    ]


class FakeConfigMaps:
    def __init__(self) -> None:
        self.items: list = []
        self.refusal: TowlineError | None = None

    async def labelled(self, namespace: str, label: str) -> list:
        assert (namespace, label) == ("operators", LABEL)
        if self.refusal is not None:
            raise self.refusal
        return self.items


class FakeRepositories:
    """One commit of one repository, whose folders are given as objects."""

    def __init__(self) -> None:
        self.commit = "c1"
        self.folders: dict[str, list] = {}

    async def render(self, definition: ServiceDefinition) -> LocalRender:
        if definition.folder not in self.folders:
            raise NotFound(f"no folder {definition.folder}")
        bundle = make_bundle(self.folders[definition.folder])

        async def load() -> bytes:
            return bundle.data

        return LocalRender(bundle.digest, len(bundle.data), load, self.commit)


def configmap(*texts: str, label: str = LABEL) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "services", "labels": {label: ""}},
        "data": {f"{number}.yaml": text for number, text in enumerate(texts)},
    }


async def test_configmaps_define_services_and_what_cannot_be_asked_removes_none(
    world: World,
) -> None:
    """A refusal of one source keeps the services of all; only a whole answer lets them go."""
    maps, git = FakeConfigMaps(), FakeRepositories()
    git.folders["web"] = [yaml.safe_load(CONFIG)]
    text = "{name: web, namespace: web, folder: web, repository: https://git/x}"
    maps.items = [configmap(text)]
    services = world.make(DefinitionConfigMaps(maps, "operators"), renders=git)
    await services.read_and_render()
    maps.refusal = Unavailable("the API server is away")
    await services.read_and_render()
    assert [one.removal for one in world.desired] == [None]
    assert world.shown[-1].repository == "https://git/x"
    maps.items, maps.refusal = [], None
    await services.read_and_render()
    assert [one.removal for one in world.desired] == [None]
    maps.items = [configmap("")]
    await services.read_and_render()
    assert [one.removal for one in world.desired] == [None, Removal.CASCADE]


async def test_a_folder_in_git_defines_services_of_the_same_repository(world: World) -> None:
    """Only marked ConfigMaps count; a newer commit without a difference is no new sequence."""
    git = FakeRepositories()
    git.folders["web"] = [yaml.safe_load(CONFIG)]
    ours = configmap("{name: web, namespace: web, folder: web}")
    git.folders["fleet"] = [ours, configmap("name: [", label="other")]
    source = DefinitionRepository(git, "https://git/root", "main", "fleet")
    services = world.make(source, renders=git)
    await services.read_and_render()
    git.commit = "c2"
    await services.read_and_render()
    (one,) = world.desired
    assert one.spec is not None and (one.spec.name, one.spec.commit) == ("web", "c1")
    assert (world.shown[0].repository, world.shown[0].ref) == ("https://git/root", "main")
    git.folders["web"].append(yaml.safe_load(CONFIG.replace("name: a", "name: b")))
    await services.read_and_render()
    assert world.desired[-1].sequence == 2
    del git.folders["fleet"]
    await services.read_and_render()
    assert len(world.desired) == 2


@pytest.mark.parametrize(
    ("kinds", "namespaces", "ref", "allowed"),
    [
        ((), (), "apps/Deployment/shop/web", True),
        (("Deployment.apps",), (), "apps/Deployment/shop/web", True),
        (("*.apps",), (), "apps/Deployment/shop/web", True),
        (("Deployment",), (), "apps/Deployment/shop/web", False),
        (("Secret",), (), "/ConfigMap/shop/web", False),
        ((), ("shop",), "/ConfigMap/shop/web", True),
        ((), ("shop",), "/ConfigMap/prod/web", False),
        ((), ("shop",), "/Namespace//shop", True),
        ((), ("shop",), "/Namespace//prod", False),
        ((), ("shop",), "rbac/ClusterRole//admin", False),
        (("ClusterRole.rbac",), ("shop",), "rbac/ClusterRole//admin", True),
        (("*.rbac",), ("shop",), "rbac/ClusterRole//admin", False),
    ],
)
def test_the_allow_list(kinds, namespaces, ref: str, allowed: bool) -> None:
    """Kinds and places that are not listed are refused; cluster-wide ones only pass by name."""
    group, kind, namespace, name = ref.split("/")
    policy = LocalPolicy.of(kinds, namespaces)
    try:
        policy.check(ObjectRef(group, "v1", kind, namespace, name))
    except Invalid as error:
        assert not allowed and "this agent's own settings" in error.message
    else:
        assert allowed
