"""A clone of a service copies each setting, or leaves it out on purpose."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import pytest

from controlplane.access.operations.binding_subjects import Subjects
from controlplane.access.operations.projects import ProjectChange
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.authorization import BUILT_IN, INSTALLATION, UNRESTRICTED, Grant, Policy
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import ClusterChange
from controlplane.configuration.operations.contexts import ContextChange, ServiceContexts
from controlplane.platform.parts import column_values
from controlplane.secrets.operations.secrets import SecretChange, Secrets
from controlplane.services.model.service import Confirmation, OwnerKind, Phase, Service, SyncOptions
from controlplane.services.model.verification import Quarantine, Verification
from controlplane.services.operations.services import ServiceChange
from controlplane.services.operations.sources import SourceChange, sources_of
from controlplane.services.ports import ContextBindingStore, SecretUseStore, ServiceStore
from core.errors import Forbidden
from core.identity import ClusterId, ServiceId
from core.spec.bundle import Attestation
from core.spec.input_checks import InputVerdict
from core.spec.objects import ObjectRef
from core.spec.renderers import RenderOptions
from core.spec.status import Problem
from core.spec.sync import DriftPolicy, Removal
from tests.integration.controlplane.conftest import Role, World, person

OWN_SETTINGS = {
    "project_id": "the project of its own cluster",
    "name": "the caller gives it",
    "protect": "a copy can be deleted until somebody protects it",
    "paused": "the operation starts a new service",
    "promoted": "a pipeline that has the original does not have the clone",
    "dependencies": "names of services of the original's cluster",
    "subjects": "the creator's roles apply, not those of the original",
}
OWN_STATE = {
    "commits_behind": "counts from the pin of the original",
    "drifted": "reported by the agent of the original",
    **dict.fromkeys(("id", "cluster_id", "project_id"), "identity and place"),
    **dict.fromkeys(("inserted_at", "updated_at", "deleted_at", "removal"), "its own life"),
    **dict.fromkeys(("pinned_sha", "promoted", "stage_verification"), "decisions on the original"),
    **dict.fromkeys(("commit_sha", "author", "revision_id", "reads"), "result of a render"),
    **dict.fromkeys(
        ("input_digest", "digest", "bundle_bytes", "object_count"), "result of a render"
    ),
    **dict.fromkeys(("render_error", "render_reason"), "result of a render"),
    **dict.fromkeys(("attestation", "uses_secrets"), "result of a render"),
    **dict.fromkeys(
        ("generation", "observed_generation", "phase", "problems"), "report of the agent"
    ),
    **dict.fromkeys(
        ("observed_at", "message", "awaiting", "confirmed", "inputs"), "report of the agent"
    ),
    **dict.fromkeys(("mirrored", "origin", "reported_id"), "definition in the original's cluster"),
    **dict.fromkeys(("owner_kind", "owner_id"), "the definition owns only the original"),
    **dict.fromkeys(("waiting", "wait_skipped"), "dependencies are not copied"),
    **dict.fromkeys(("quarantined", "quarantine"), "quarantine of the original"),
}

NEW = Service(ServiceId(""), ClusterId(""), None, "", "", datetime.min, datetime.min)


@dataclass
class Original:
    """A service with a value other than the default in every field, and the clusters of both."""

    service: Service
    home: Cluster
    away: Cluster
    change: ServiceChange


@pytest.fixture
async def original(world: World) -> Original:
    project = await world.projects.create(
        world.admin, ProjectChange(name="shop", fence=UNRESTRICTED)
    )
    registered = ClusterChange(name="dev", project_id=project.id)
    home, _ = await world.clusters.create(world.admin, registered)
    away, repository = await world.cluster("away"), await world.repository()
    context = await ServiceContexts(world.deps).save(world.admin, "vpc", ContextChange({"a": 1}))
    secret = await Secrets(world.deps).save(world.admin, "db", SecretChange(b"x"))
    viewer = await world.people.upsert(world.admin, "eve@example.org")
    needed = await world.service(home, repository, "needed")
    change = ServiceChange(
        name="shop",
        namespace="shop",
        project_id=project.id,
        repository_id=repository.id,
        ref="stable",
        folder="apps/shop",
        kustomize_path="overlays",
        helm={"release": "shop"},
        configuration={"a": "1"},
        templated=True,
        protect=True,
        dry_run=True,
        paused=True,
        promoted=True,
        version="1.2.3",
        rendering=RenderOptions(recurse=False),
        options=SyncOptions(drift=DriftPolicy.REPORT),
        docs_path="docs",
        dependencies=[needed.name],
        context_ids=[context.id],
        sources=[SourceChange(repository.id, "main", "more", "place")],
        rendered_by=away.id,
        verification=Verification(60),
        uses={"password": (secret.id, 1)},
        subjects={"viewer": Subjects(frozenset({viewer.id}))},
    )
    service = await world.services.create(world.admin, home.id, None, change)
    return Original(service, home, away, change)


async def settings(world: World, service: Service) -> dict[str, Any]:
    """The settings of a service by the fields of ServiceChange."""
    async with world.deps.store.read() as tx:
        found = await tx[ServiceStore].get(service.id)
        bound = await tx[ContextBindingStore].of_services(service.id)
        used = await tx[SecretUseStore].of_services(service.id)
        sources = (await sources_of(tx, [service.id])).get(service.id, [])
    bindings = await RoleBindings(world.deps).all(world.admin, service.target.scope)
    kept: dict[str, Any] = {
        "context_ids": [binding.context_id for binding in bound],
        "uses": [(use.name, use.secret_id, use.version, use.pinned) for use in used],
        "sources": [(one.repository_id, one.ref, one.folder, one.path) for one in sources],
        "subjects": [view.row.subject_id for view in bindings],
    }
    names = {field.name for field in fields(ServiceChange)} - kept.keys()
    return kept | {name: column_values(found)[name] for name in names}


async def test_a_clone_copies_every_setting_that_is_not_left_out_on_purpose(
    world: World, original: Original
) -> None:
    empty = [f.name for f in fields(ServiceChange) if not getattr(original.change, f.name)]
    assert empty == [], "the original of this test needs a value for these"
    clone = await world.services.clone(
        world.admin, original.service.id, original.away.id, ServiceChange(name="copy")
    )
    was, found = await settings(world, original.service), await settings(world, clone)
    copied = {name for name in was if found[name] == was[name]}
    assert was.keys() - copied - OWN_SETTINGS.keys() == set(), "a clone forgets these settings"
    assert copied & OWN_SETTINGS.keys() == set(), "a clone copies these, but should not"


async def test_a_clone_has_its_own_state(world: World, original: Original) -> None:
    """Every field of the original has another value than that of a new service."""
    at, name = world.clock.now(), ObjectRef("", "v1", "ConfigMap", "x", "x")
    state = {
        **{
            "pinned_sha": "a" * 40,
            "stage_verification": Verification(90),
            "commit_sha": "a" * 40,
            "author": "ada",
        },
        **{
            "revision_id": "r1",
            "input_digest": "sha256:1",
            "reads": {"x": "1"},
            "digest": "sha256:2",
        },
        **{"bundle_bytes": 1, "object_count": 1, "render_error": "no", "uses_secrets": True},
        **{"render_reason": "INVALID"},
        **{"generation": 2, "observed_generation": 1, "phase": Phase.APPLIED, "message": "text"},
        **{"problems": (Problem("no", source="apply"),), "observed_at": at, "awaiting": (name,)},
        **{
            "confirmed": Confirmation(2, (name,)),
            "mirrored": True,
            "origin": "https://x",
            "reported_id": "x",
        },
        **{"attestation": Attestation("k", b"s", b"t"), "owner_kind": OwnerKind.SET},
        **{"owner_id": "o1", "waiting": True, "wait_skipped": True, "quarantined": "sha256:2"},
        **{"quarantine": Quarantine("sha256:2", "bad", at), "deleted_at": at},
        **{"removal": Removal.ORPHAN, "drifted": 1, "commits_behind": 2},
        **{"inputs": InputVerdict("sha256:2", at, ())},
    }
    async with world.deps.store.write() as tx:
        await tx[ServiceStore].change(original.service.id, **state)
    before = original.service.changed(**state)
    given, empty = column_values(before), column_values(NEW)
    unset = [name for name in given if given[name] == empty[name]]
    assert unset == [], "the original of this test needs a value for these"
    await world.clock.advance(1)
    clone = await world.services.clone(
        world.admin, original.service.id, original.away.id, ServiceChange(name="copy")
    )
    columns = column_values(clone)
    copied = {name for name in given if columns[name] == given[name]}
    own = OWN_STATE.keys() | OWN_SETTINGS.keys()
    forgotten = given.keys() - copied - own
    assert forgotten == set(), "a clone neither copies these nor leaves them out on purpose"
    assert copied & own == set(), "a clone copies these, but should not"


async def test_only_who_may_let_a_cluster_render_clones_a_service_that_it_renders(
    world: World,
) -> None:
    """That cluster's agent would render the clone, too."""
    home, away = await world.cluster("home"), await world.cluster("away")
    repository = await world.repository()
    plain = await world.service(home, repository, "plain")
    rendered = await world.service(home, repository, "rendered", rendered_by=away.id)
    grants = (
        Grant(BUILT_IN[Role.VIEWER], INSTALLATION),
        Grant(BUILT_IN[Role.EDITOR], home.target.scope),
    )
    local = replace(person(None, "eve"), policy=Policy(grants))
    await world.services.clone(local, plain.id, home.id, ServiceChange(name="copy"))
    with pytest.raises(Forbidden):
        await world.services.clone(local, rendered.id, home.id, ServiceChange(name="third"))
