"""Objects that describe clusters, as Cluster API and the Cluster Inventory API define them.

`Cluster` of cluster.x-k8s.io/v1beta1 and v1beta2, and `ClusterProfile` of
multicluster.x-k8s.io/v1alpha1 (KEP-4322). Their credential providers are not read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from controlplane.cluster_sources.model.source import ClusterSourceSettings, InventoryKind
from controlplane.platform.labels import LabelOperator, LabelRequirement, parse_selector
from controlplane.platform.limits import check_count, check_length
from controlplane.platform.names import check_label
from core.errors import Invalid, NotFound
from core.json_object import JsonMapping, JsonObject

PAGE = 100
"""Objects of one request. Cluster API objects with large topologies have up to 40 KiB."""
MAX_PROPERTIES = 64
_MAX_PROPERTY_NAME, _MAX_PROPERTY_VALUE = 253, 1024
_MAX_VERSION = 64
_MAX_TEMPLATE = 200
_MAX_TAG_LABELS = 64
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class InventoryApi:
    """The API of a kind of objects."""

    group: str
    versions: tuple[str, ...]
    """Supported versions, the preferred one first."""
    plural: str
    kind: str


CLUSTERS: Final = InventoryApi("cluster.x-k8s.io", ("v1beta2", "v1beta1"), "clusters", "Cluster")
PROFILES: Final = InventoryApi(
    "multicluster.x-k8s.io", ("v1alpha1",), "clusterprofiles", "ClusterProfile"
)
APIS: Final[Mapping[InventoryKind, InventoryApi]] = {
    InventoryKind.CLUSTER_API: CLUSTERS,
    InventoryKind.CLUSTER_PROFILE: PROFILES,
}


@dataclass(frozen=True, slots=True)
class ClusterProperty:
    """A property in the status of a ClusterProfile."""

    name: str
    """Name of the property."""
    value: str
    """Value of the property."""


@dataclass(frozen=True, slots=True)
class InventoryObject:
    """An object that describes a cluster."""

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    api_version: str
    """Group and version in which it was read."""
    version: str = ""
    """Kubernetes version. Empty: unknown."""
    properties: tuple[ClusterProperty, ...] = ()
    is_ready: bool = False
    """True if the control plane of the cluster is initialized."""
    is_ending: bool = False
    """True while the object is being deleted."""


def served_version(api: InventoryApi, group: JsonMapping) -> str:
    """Returns the preferred of the versions that an `APIGroup` lists. NotFound: there is none."""
    served = {str(item.get("version")) for item in _mappings(group.get("versions"))}
    for version in api.versions:
        if version in served:
            return version
    supported = " or ".join(api.versions)
    raise NotFound(f"the management cluster serves {api.group} not in {supported}")


def list_path(
    api: InventoryApi, version: str, settings: ClusterSourceSettings, after: str = ""
) -> str:
    """Returns the path of one page of objects; `after` is the `continue` of the page before."""
    query = {"limit": str(PAGE), "labelSelector": settings.selector, "continue": after}
    scope = f"/namespaces/{settings.namespace}" if settings.namespace else ""
    parameters = urlencode({name: value for name, value in query.items() if value})
    return f"/apis/{api.group}/{version}{scope}/{api.plural}?{parameters}"


def inventory_objects(
    kind: InventoryKind, version: str, page: JsonMapping
) -> list[InventoryObject]:
    """Parses a list of objects. Objects without name or UID are left out."""
    api_version = f"{APIS[kind].group}/{version}"
    parsed = (_inventory_object(kind, api_version, item) for item in _mappings(page.get("items")))
    return [item for item in parsed if item.uid and item.name]


def _inventory_object(kind: InventoryKind, api_version: str, item: JsonMapping) -> InventoryObject:
    metadata, spec, status = (_mapping(item.get(name)) for name in ("metadata", "spec", "status"))
    is_profile = kind is InventoryKind.CLUSTER_PROFILE
    version_fields, name = (_mapping(status.get("version")), "kubernetes")
    if not is_profile:
        version_fields, name = (_mapping(spec.get("topology")), "version")
    return InventoryObject(
        uid=_text(metadata.get("uid"), 64),
        namespace=_text(metadata.get("namespace"), 63),
        name=_text(metadata.get("name"), 253),
        labels={str(k): str(v) for k, v in _mapping(metadata.get("labels")).items()},
        api_version=api_version,
        version=_text(version_fields.get(name), _MAX_VERSION),
        properties=_properties(status) if is_profile else (),
        is_ready=_is_initialized(status),
        is_ending=bool(metadata.get("deletionTimestamp")),
    )


def _is_initialized(status: JsonMapping) -> bool:
    """True once the API server of the cluster answers, as v1beta2 or v1beta1 tells it."""
    if _mapping(status.get("initialization")).get("controlPlaneInitialized") is True:
        return True
    return any(
        condition.get("type") == "ControlPlaneInitialized" and condition.get("status") == "True"
        for condition in _mappings(status.get("conditions"))
    )


def _properties(status: JsonMapping) -> tuple[ClusterProperty, ...]:
    properties = _mappings(status.get("properties"))[:MAX_PROPERTIES]
    return tuple(
        ClusterProperty(
            _text(item.get("name"), _MAX_PROPERTY_NAME),
            _text(item.get("value"), _MAX_PROPERTY_VALUE),
        )
        for item in properties
    )


def check_settings(settings: ClusterSourceSettings) -> None:
    """Raises Invalid unless namespace, selector, template and labels are valid."""
    if settings.namespace:
        check_label(settings.namespace, "namespace")
    parse_selector(settings.selector, "selector")
    _check_template(settings.name_template)
    check_count(len(settings.tag_labels), "tagLabels", _MAX_TAG_LABELS)
    names: dict[str, str] = {}
    for label in settings.tag_labels:
        LabelRequirement(label, LabelOperator.Exists).check("tagLabels")
        name = tag_name(label)
        other = names.setdefault(name, label)
        if other != label:
            raise Invalid(
                f"{other!r} and {label!r} both become the tag {name!r}", field="tagLabels"
            )


def _check_template(template: str) -> None:
    field = "nameTemplate"
    check_length(template, field, _MAX_TEMPLATE)
    names = _PLACEHOLDER.findall(template)
    if unknown := [name for name in names if name not in ("name", "namespace")]:
        raise Invalid(
            f"{{{unknown[0][:40]}}} is unknown: use {{name}} and {{namespace}}", field=field
        )
    if "name" not in names:
        raise Invalid("must contain {name}: each object needs a name of its own", field=field)
    check_label(_PLACEHOLDER.sub("x", template), field)


def cluster_name(template: str, item: InventoryObject) -> str:
    """Returns the name of an object's cluster. Invalid: it is no valid name."""
    values = {"name": item.name, "namespace": item.namespace}
    return check_label(_PLACEHOLDER.sub(lambda match: values[match[1]], template), "nameTemplate")


def tag_name(label: str) -> str:
    """Returns the name of the tag that a label becomes."""
    return label.rpartition("/")[2]


def cluster_tags(settings: ClusterSourceSettings, labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the tags of an object's cluster. Fixed tags take precedence over labels."""
    chosen = {tag_name(name): labels[name] for name in settings.tag_labels if labels.get(name)}
    return chosen | dict(settings.tags)


def retagged(
    present: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """Returns the tags of a cluster after the source has other tags for it; the rest stays."""
    unmanaged = {name: value for name, value in present.items() if before.get(name) != value}
    return unmanaged | dict(after)


def sorted_objects(objects: Iterable[InventoryObject]) -> list[InventoryObject]:
    """Returns objects by namespace and name, so that limits and conflicts favor the same ones."""
    return sorted(objects, key=lambda item: (item.namespace, item.name))


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Sequence[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object, limit: int) -> str:
    return str(value)[:limit] if isinstance(value, str) else ""
