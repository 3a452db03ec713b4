"""Hostile tenants: folders of project shop that reach out of their fence, and what refuses them.

Shop may use the namespace shop of the cluster prod, as the account shop-deployer with the
ClusterRole admin there. The namespace and the folder bank belong to somebody else.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from core.spec.bundle import KubeObject
from core.spec.renderers import AUTO

SHOP, BANK, ACCOUNT = "shop", "bank", "shop-deployer"
CHARTS = "http://charts.invalid"
"""Stands for the URL of a chart repository that no source rule lists."""
_RBAC, _HOOK = "rbac.authorization.k8s.io/v1", "argocd.argoproj.io/hook"
_BY_KIND, _BY_NAMESPACE = "are not allowed", "the namespace bank is not allowed"


class Second(StrEnum):
    """The refusal that is left if the control plane checks nothing."""

    SERVER = "API server: 403"
    AGENT = "agent: not an object of the API"
    SOURCES = "agent: `autonomy.sources`"


@dataclass(frozen=True, slots=True)
class Escape:
    """One attempt. `first`: reason of the control plane; empty: it sees nothing wrong.

    `links`: symbolic links of the folder. `objects`: what a hostile control plane sends, if no
    renderer would make it from `files`.
    """

    name: str
    files: Mapping[str, str]
    first: str
    second: Second = Second.SERVER
    objects: tuple[KubeObject, ...] = ()
    renderer: str = AUTO
    note: str = ""
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is no escape by Kubernetes' own model, and what limits it."""

    name: str
    object: KubeObject
    limit: str


def escapes() -> list[Escape]:
    """All attempts; names are unique."""
    groups = (
        _namespaces(),
        _lists(),
        _hooks(),
        _cluster_wide(),
        _roles(),
        _denied(),
        _types(),
        _names(),
        _syntax(),
        _helm(),
        _kustomize(),
        _other_renderers(),
        _pods(),
    )
    return [escape for group in groups for escape in group]


def made(api: str, kind: str, name: str, namespace: str = "", **rest: Any) -> KubeObject:
    """An object."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}


def text(*objects: KubeObject) -> str:
    """A manifest file."""
    return yaml.safe_dump_all(objects)


def plain(name: str, obj: KubeObject, first: str, **rest: Any) -> Escape:
    """An attempt with one manifest."""
    return Escape(name, {"a.yaml": text(obj)}, first, **rest)


def pod(**spec: Any) -> KubeObject:
    """The spec of a pod."""
    return {"containers": [{"name": "main", "image": "nginx:1.25"}], **spec}


def _template() -> KubeObject:
    return {"metadata": {"labels": {"app": "x"}}, "spec": pod()}


def _job() -> KubeObject:
    return {"template": {"spec": pod(restartPolicy="Never")}}


def _namespaces() -> Iterator[Escape]:
    selector = {"selector": {"matchLabels": {"app": "x"}}, "template": _template()}
    host = {"host": "shop.example.org", "http": {"paths": [_path()]}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    objects: dict[str, KubeObject] = {
        "ConfigMap": made("v1", "ConfigMap", "x", BANK, data={}),
        "Secret": made("v1", "Secret", "x", BANK),
        "ServiceAccount": made("v1", "ServiceAccount", "default", BANK),
        "Service": made("v1", "Service", "x", BANK, spec={"ports": [{"port": 80}]}),
        "Pod": made("v1", "Pod", "x", BANK, spec=pod()),
        "Deployment": made("apps/v1", "Deployment", "x", BANK, spec=selector),
        "Job": made("batch/v1", "Job", "x", BANK, spec=_job()),
        "CronJob": made(
            "batch/v1",
            "CronJob",
            "x",
            BANK,
            spec={"schedule": "@hourly", "jobTemplate": {"spec": _job()}},
        ),
        "Ingress": made("networking.k8s.io/v1", "Ingress", "x", BANK, spec={"rules": [host]}),
        "NetworkPolicy": made(
            "networking.k8s.io/v1", "NetworkPolicy", "x", BANK, spec={"podSelector": {}}
        ),
        "PersistentVolumeClaim": made("v1", "PersistentVolumeClaim", "x", BANK, spec=claim),
        "RoleBinding to their own account": made(
            _RBAC,
            "RoleBinding",
            "x",
            BANK,
            roleRef=role,
            subjects=[{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SHOP}],
        ),
    }
    for kind, obj in objects.items():
        refused = "are denied" if kind.startswith("Role") else _BY_NAMESPACE
        yield plain(f"{kind} in another namespace", obj, refused)
    system = "the namespace kube-system is not allowed"
    lease = made("coordination.k8s.io/v1", "Lease", "kube-controller-manager", "kube-system")
    yield plain("Lease of the controllers, in kube-system", lease, system)
    settings = made("v1", "ConfigMap", "cluster-info", "kube-public", data={})
    yield plain("ConfigMap in kube-public", settings, "the namespace kube-public is not allowed")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True}
    owned = made("v1", "ConfigMap", "owned", BANK, data={})
    owned["metadata"]["ownerReferences"] = [owner]
    yield plain("owner reference of their own on an object of others", owned, _BY_NAMESPACE)


def _path() -> KubeObject:
    backend = {"service": {"name": "x", "port": {"number": 80}}}
    return {"path": "/", "pathType": "Prefix", "backend": backend}


def _lists() -> Iterator[Escape]:
    own = made("v1", "ConfigMap", "a")

    def theirs(name: str) -> KubeObject:
        return made("v1", "ConfigMap", name, BANK)

    def listed(*items: KubeObject, kind: str = "List") -> KubeObject:
        return {"apiVersion": "v1", "kind": kind, "items": list(items)}

    def folder(name: str, obj: KubeObject, files: Mapping[str, str]) -> Escape:
        return Escape(name, files, _BY_NAMESPACE, objects=(obj,))

    first, second, third = theirs("listed"), theirs("nested"), theirs("typed")
    yield folder("List", first, {"a.yaml": text(listed(own, first))})
    yield folder("List in a List", second, {"a.yaml": text(listed(listed(own, second)))})
    yield folder("typed list", third, {"a.yaml": text(listed(third, kind="ConfigMapList"))})
    last = theirs("last")
    yield folder("second document of a file", last, {"a.yaml": text(own, last)})
    deep = theirs("deep")
    files = {"a.yaml": text(own), "b/c/d.json": json.dumps(deep)}
    yield folder("JSON file in a subfolder", deep, files)


def _hooks() -> Iterator[Escape]:
    def hook(mark: str, moment: str, name: str, **meta: Any) -> KubeObject:
        job = made("batch/v1", "Job", name, BANK, spec=_job())
        job["metadata"] |= {"annotations": {mark: moment}, **meta}
        return job

    yield plain("hook before the sync", hook(_HOOK, "PreSync", "pre"), _BY_NAMESPACE)
    yield plain("Helm hook", hook("helm.sh/hook", "post-install", "post"), _BY_NAMESPACE)
    generated = hook(_HOOK, "PreSync", "x", generateName="generated-")
    del generated["metadata"]["name"]
    yield plain("hook with generateName", generated, _BY_NAMESPACE)
    binding = _binding("ClusterRoleBinding", "hook-binding")
    binding["metadata"]["annotations"] = {_HOOK: "PreSync"}
    yield plain("hook that is a ClusterRoleBinding", binding, "are denied")


def _binding(kind: str, name: str, namespace: str = "") -> KubeObject:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SHOP}
    return made(_RBAC, kind, name, namespace, roleRef=role, subjects=[subject])


def _cluster_wide() -> Iterator[Escape]:
    for name, obj in (_kinds_of_the_api() | _kinds_that_extend_the_api()).items():
        yield plain(name, obj, _BY_KIND)
    aggregated = made(_RBAC, "ClusterRole", "shop-aggregated", rules=[])
    aggregated["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    yield plain("ClusterRole that is aggregated into view", aggregated, "are denied")
    well = made("example.org/v1", "Well", "deep")
    yield plain(
        "cluster-scoped custom resource",
        well,
        "",
        note="passes: only the cluster knows the scope; its agent refuses it by the fence",
    )


def _kinds_of_the_api() -> dict[str, KubeObject]:
    labelled = made("v1", "Namespace", SHOP)
    labelled["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "privileged"}
    finalized = made("v1", "Namespace", "shop-eternal", spec={"finalizers": ["kubernetes"]})
    request = {"signerName": "kubernetes.io/kube-apiserver-client", "request": "eA==", "usages": []}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/etc/kubernetes"},
        "claimRef": {"namespace": BANK, "name": "ledger"},
    }
    attachment = {"attacher": "x", "nodeName": "n", "source": {"persistentVolumeName": "ledger"}}
    flow = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1}
    access = {"user": "ada", "resourceAttributes": {"verb": "get", "resource": "secrets"}}
    return {
        "Namespace of others": made("v1", "Namespace", BANK),
        "new Namespace": made("v1", "Namespace", "shop-more"),
        "Namespace with finalizers": finalized,
        "labels of the Pod Security admission on their own Namespace": labelled,
        "Node": made("v1", "Node", "shop-node", spec={"taints": []}),
        "PersistentVolume for the claim of others": made(
            "v1", "PersistentVolume", "shop-volume", spec=volume
        ),
        "PriorityClass": made("scheduling.k8s.io/v1", "PriorityClass", "shop-first", value=10**9),
        "RuntimeClass": made("node.k8s.io/v1", "RuntimeClass", "shop-runtime", handler="runc"),
        "StorageClass": made("storage.k8s.io/v1", "StorageClass", "shop-disk", provisioner="x"),
        "CSIDriver": made("storage.k8s.io/v1", "CSIDriver", "shop.example.org", spec={}),
        "VolumeAttachment": made(
            "storage.k8s.io/v1", "VolumeAttachment", "shop-a", spec=attachment
        ),
        "IngressClass": made("networking.k8s.io/v1", "IngressClass", "shop-in", spec={}),
        "CertificateSigningRequest": made(
            "certificates.k8s.io/v1", "CertificateSigningRequest", "shop-csr", spec=request
        ),
        "FlowSchema before all others": made(
            "flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "shop-flow", spec=flow
        ),
        "TokenReview": made(
            "authentication.k8s.io/v1", "TokenReview", "shop-t", spec={"token": "x"}
        ),
        "SubjectAccessReview": made(
            "authorization.k8s.io/v1", "SubjectAccessReview", "shop-s", spec=access
        ),
    }


def _kinds_that_extend_the_api() -> dict[str, KubeObject]:
    admission, rules = "admissionregistration.k8s.io/v1", {"matchConstraints": {}}
    policy = {"policyName": "x", "validationActions": ["Deny"]}
    api = {
        "group": "shop.example.org",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "service": {"name": "x", "namespace": SHOP},
    }
    client = {"service": {"name": "x", "namespace": SHOP, "path": "/"}}
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    return {
        "CustomResourceDefinition": definition("Namespaced", "pails"),
        "conversion webhook in the definition of others": {
            **definition("Cluster", "wells"),
            "spec": {**definition("Cluster", "wells")["spec"], "conversion": conversion},
        },
        "ValidatingWebhookConfiguration": made(
            admission, "ValidatingWebhookConfiguration", "shop-validates", webhooks=[]
        ),
        "MutatingWebhookConfiguration": made(
            admission, "MutatingWebhookConfiguration", "shop-mutates", webhooks=[]
        ),
        "ValidatingAdmissionPolicy": made(
            admission, "ValidatingAdmissionPolicy", "shop-policy", spec=rules
        ),
        "ValidatingAdmissionPolicyBinding": made(
            admission, "ValidatingAdmissionPolicyBinding", "shop-bound", spec=policy
        ),
        "aggregated API": made(
            "apiregistration.k8s.io/v1", "APIService", "v1.shop.example.org", spec=api
        ),
        "aggregated API instead of the server's own": made(
            "apiregistration.k8s.io/v1",
            "APIService",
            "v1.apps",
            spec={**api, "group": "apps"},
        ),
    }


def definition(scope: str, plural: str) -> KubeObject:
    """The definition of a custom resource."""
    kind = plural[:-1].capitalize()
    names = {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.org", "names": names, "scope": scope, "versions": [version]}
    return made(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.example.org", spec=spec
    )


def _roles() -> Iterator[Escape]:
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    verbs = [
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles"],
            "verbs": ["escalate", "bind"],
        }
    ]
    acting = [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]
    objects = {
        "ClusterRole": made(_RBAC, "ClusterRole", "shop-all", rules=everything),
        "ClusterRoleBinding to cluster-admin": _binding("ClusterRoleBinding", "shop-admin"),
        "RoleBinding to cluster-admin": _binding("RoleBinding", "all", SHOP),
        "Role with every right": made(_RBAC, "Role", "everything", SHOP, rules=everything),
        "Role with escalate and bind": made(_RBAC, "Role", "escalate", SHOP, rules=verbs),
        "Role with impersonate": made(_RBAC, "Role", "impersonate", SHOP, rules=acting),
    }
    for name, obj in objects.items():
        yield plain(name, obj, "are denied")


def _denied() -> Iterator[Escape]:
    place = [{"addresses": ["10.0.0.1"]}]
    objects = {
        "ResourceQuota": made("v1", "ResourceQuota", "quota", SHOP, spec={"hard": {}}),
        "LimitRange": made("v1", "LimitRange", "range", SHOP, spec={"limits": []}),
        "Endpoints of others' pods": made(
            "v1", "Endpoints", "x", SHOP, subsets=[{"addresses": [{"ip": "10.0.0.1"}]}]
        ),
        "EndpointSlice of others' pods": made(
            "discovery.k8s.io/v1", "EndpointSlice", "x", SHOP, addressType="IPv4", endpoints=place
        ),
        "Binding of a pod to a node": made(
            "v1", "Binding", "x", SHOP, target={"kind": "Node", "name": "n"}
        ),
    }
    for name, obj in objects.items():
        yield plain(name, obj, "are denied")


def _types() -> Iterator[Escape]:
    binding = _binding("ClusterRoleBinding", "shop-trick")
    old = {**binding, "apiVersion": "rbac.authorization.k8s.io/v1beta1"}
    yield plain("removed version of an API", old, "are denied", second=Second.AGENT)
    ingress = made("extensions/v1beta1", "Ingress", "x", BANK)
    yield plain("removed group of an API", ingress, _BY_NAMESPACE, second=Second.AGENT)
    unseen = "passes: no such kind in the API"
    subresources = {
        "TokenRequest": "authentication.k8s.io/v1",
        "Eviction": "policy/v1",
        "Scale": "autoscaling/v1",
        "PodExecOptions": "v1",
    }
    for kind, api in subresources.items():
        obj = made(api, kind, "x", SHOP)
        yield plain(f"subresource {kind}", obj, "", second=Second.AGENT, note=unseen)
    small = {**binding, "kind": "clusterrolebinding", "apiVersion": "v1"}
    yield plain("kind in lower case", small, "", second=Second.AGENT, note=unseen)
    for name, change in {
        "kind with a space": {"kind": "ClusterRoleBinding "},
        "group in capitals": {"apiVersion": "RBAC.authorization.k8s.io/v1"},
        "path in the version of an API": {"apiVersion": "../api/v1/namespaces/bank/secrets?a=/v1"},
        "path in the kind": {"kind": "../../bank/Secret"},
    }.items():
        yield plain(name, {**binding, **change}, "is not a kind", second=Second.AGENT)


def _names() -> Iterator[Escape]:
    names = {
        "namespace in capitals": "SHOP",
        "namespace with a space": "shop ",
        "namespace with a line break": "shop\n",
        "namespace in Cyrillic letters": "ѕhop",
        "namespace with a zero-width space": "shop\u200b",
        "path in the namespace": "shop-/../bank",
        "encoded path in the namespace": "shop-%2f..%2fbank",
    }
    for name, namespace in names.items():
        obj = made("v1", "ConfigMap", "x", namespace, data={})
        yield plain(name, obj, "is not the name of a namespace", second=Second.AGENT)
    path = made("v1", "ConfigMap", "../../bank/configmaps/x", SHOP, data={})
    unseen = "passes: the name breaks no rule; the agent refuses it"
    yield plain("path in the name", path, "", second=Second.AGENT, note=unseen)
    number = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, namespace: 7}\n"
    sent = (made("v1", "ConfigMap", "x", data={}),)
    sent[0]["metadata"]["namespace"] = 7
    yield Escape("number as namespace", {"a.yaml": number}, "must be text", Second.AGENT, sent)
    nameless: KubeObject = {"apiVersion": "v1", "kind": "ConfigMap"}
    nameless["metadata"] = {"generateName": "x-", "namespace": BANK}
    yield plain(
        "generateName", nameless, "uses `generateName`", second=Second.AGENT, objects=(nameless,)
    )


def _syntax() -> Iterator[Escape]:
    head = "apiVersion: v1\nkind: ConfigMap\n"
    twice = (
        head
        + "metadata: {name: twice, namespace: shop}\nmetadata: {name: twice, namespace: bank}\n"
    )
    metadata = '"metadata":{"name":"json","namespace":"shop","namespace":"bank"}'
    anchored = head + "metadata: &m {name: anchored, namespace: bank}\n"
    tag = "!!python/object/apply:str [bank]"
    own = text(made("v1", "ConfigMap", "own"))
    attempts = {
        "key twice in YAML": ("twice", "a.yaml", twice, "duplicate key"),
        "key twice in JSON": (
            "json",
            "a.json",
            f'{{"apiVersion":"v1","kind":"ConfigMap",{metadata}}}',
            "duplicate key",
        ),
        "anchor": ("anchored", "a.yaml", anchored, _BY_NAMESPACE),
        "tag of a language": (
            "tagged",
            "a.yaml",
            head + f"metadata: {{name: tagged, namespace: {tag}}}\n",
            "unknown tag",
        ),
        "document after an end mark": (
            "ended",
            "a.yaml",
            own + "...\n---\n" + text(made("v1", "ConfigMap", "ended", BANK)),
            _BY_NAMESPACE,
        ),
    }
    for name, (object_name, path, content, first) in attempts.items():
        theirs = made("v1", "ConfigMap", object_name, BANK)
        yield Escape(name, {path: content}, first, objects=(theirs,))


def _chart(template: str, **more: str) -> dict[str, str]:
    head = "apiVersion: v2\nname: web\nversion: 1.0.0\n" + more.pop("head", "")
    return {"Chart.yaml": head, "templates/a.yaml": template, **more}


def _helm() -> Iterator[Escape]:
    theirs = made("v1", "Secret", "from-helm", BANK)
    computed = text(theirs).replace("bank", '{{ printf "ba%s" "nk" }}')
    yield Escape("namespace that a Helm template computes", _chart(computed), _BY_NAMESPACE)
    own = text(made("v1", "ConfigMap", "own"))
    crds = _chart(own, **{"crds/c.yaml": text(definition("Cluster", "buckets"))})
    sent = (definition("Cluster", "buckets"),)
    yield Escape("definition in the folder crds of a chart", crds, _BY_KIND, objects=sent)
    nested = _chart(
        own,
        **{
            "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
            "charts/sub/templates/b.yaml": text(_binding("ClusterRoleBinding", "from-subchart")),
        },
    )
    binding = (_binding("ClusterRoleBinding", "from-subchart"),)
    yield Escape("subchart", nested, "are denied", objects=binding)
    remote = _chart(own, head=_dependency("evil", CHARTS))
    yield Escape(
        "dependency of a chart from a foreign repository",
        remote,
        "no source rule allows chart evil",
        Second.SOURCES,
    )
    local = _chart(own, head=_dependency("web", "file://../../bank/chart"))
    yield Escape(
        "dependency of a chart from another folder",
        local,
        "folder bank/chart at main",
        Second.SOURCES,
    )


def _dependency(name: str, url: str) -> str:
    return f"dependencies: [{{name: {name}, version: 1.0.0, repository: '{url}'}}]\n"


def _kustomize() -> Iterator[Escape]:
    own = made("v1", "ConfigMap", "own")
    file = {"own.yaml": text(own), "other.yaml": text(made("v1", "ConfigMap", "other"))}

    def build(**fields: Any) -> dict[str, str]:
        return {"kustomization.yaml": yaml.safe_dump({"resources": ["own.yaml"], **fields}), **file}

    yield Escape("namespace of a kustomization", build(namespace=BANK), _BY_NAMESPACE)
    patch = [
        {
            "target": {"kind": "ConfigMap"},
            "options": {"allowNameChange": True},
            "patch": "- {op: add, path: /metadata/namespace, value: bank}",
        }
    ]
    yield Escape(
        "patch of a kustomization", build(resources=["other.yaml"], patches=patch), _BY_NAMESPACE
    )
    base = build(resources=["../../bank/base"])
    yield Escape("base in another folder", base, "folder bank/base at main", Second.SOURCES)
    stolen = build(secretGenerator=[{"name": "own", "files": ["../../bank/token"]}])
    yield Escape(
        "generator with a file of another folder",
        stolen,
        "security; file 'bank/token'",
        Second.SOURCES,
    )
    nowhere = "does not lead to a file"
    for what, target, first in (
        ("a file of another folder", "../../bank/base/a.yaml", "folder bank/base/a.yaml at main"),
        ("a folder of others", "../../bank/base", nowhere),
        ("a file of the server", "/etc/hostname", nowhere),
        ("a file outside of the repository", "../../../../etc/hostname", nowhere),
    ):
        link = {"linked.yaml": target}
        yield Escape(
            f"symbolic link to {what}", {"own.yaml": text(own)}, first, Second.SOURCES, links=link
        )
    chart = [{"name": "evil", "version": "1.0.0", "repo": CHARTS, "releaseName": "x"}]
    yield Escape(
        "chart of a kustomization from a foreign repository",
        build(helmCharts=chart),
        "no source rule allows chart evil",
        Second.SOURCES,
    )
    for url in ("https://git.example.org/bank/base?ref=main", "github.com/bank/base"):
        yield Escape(
            f"remote base {url}",
            build(resources=[url]),
            "is not a repository of this project",
            Second.SOURCES,
        )


def _other_renderers() -> Iterator[Escape]:
    program = (
        "local o(n) = {apiVersion: 'v1', kind: 'ConfigMap', "
        "metadata: {name: 'made', namespace: n}};["
        "o('ba' + 'nk')]"
    )
    yield Escape("Jsonnet", {"main.jsonnet": program}, _BY_NAMESPACE)
    secret = "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'made'}, data: {v: importstr "
    imported = {"main.jsonnet": secret + "'../../bank/token'}}"}
    yield Escape(
        "Jsonnet with a file of another folder",
        imported,
        "folder bank/token at main",
        Second.SOURCES,
    )
    values = {
        "a parameter": "{{ configuration.place }}",
        "a value of a context": "{{ contexts.places.theirs }}",
        "parts of a context's values": "{{ contexts.places.first }}{{ contexts.places.second }}",
    }
    for number, (what, value) in enumerate(values.items()):
        template = text(made("v1", "ConfigMap", f"liquid-{number}", BANK)).replace(BANK, value)
        yield Escape(f"namespace from {what}", {"a.yaml.liquid": template}, _BY_NAMESPACE)


def _pods() -> Iterator[Escape]:
    volume = {"name": "v", "hostPath": {"path": "/var/lib/kubelet"}}
    privileged = {"privileged": True}
    specs = {
        "Pod with a hostPath": pod(volumes=[volume]),
        "privileged Pod": pod(
            containers=[{"name": "main", "image": "x", "securityContext": privileged}]
        ),
        "Pod in the network of its node": pod(hostNetwork=True),
        "Pod that sees the processes of its node": pod(hostPID=True),
    }
    for number, (name, spec) in enumerate(specs.items()):
        yield plain(
            name,
            made("v1", "Pod", f"host-{number}", SHOP, spec=spec),
            "",
            note="passes: fields of pods belong to the Pod Security admission of the namespace",
        )


def allowed() -> list[Allowed]:
    """What a tenant may do in its own namespace, although it looks like an escape."""
    secret = {"name": "v", "secret": {"secretName": "of-a-colleague"}}
    token = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "f0000000-0000-0000"}
    owned = made("v1", "ConfigMap", "orphan", SHOP, data={})
    owned["metadata"]["ownerReferences"] = [owner]
    external = {"type": "ExternalName", "externalName": "ledger.bank.svc"}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "volumeName": "ledger",
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    host = {"host": "bank.example.org", "http": {"paths": [_path()]}}
    return [
        Allowed(
            "Pod that mounts a Secret of its own namespace",
            made("v1", "Pod", "reads", SHOP, spec=pod(volumes=[secret])),
            "one namespace a tenant",
        ),
        Allowed(
            "Pod with another service account of its own namespace",
            made("v1", "Pod", "acts", SHOP, spec=pod(serviceAccountName=ACCOUNT)),
            "one namespace a tenant; keep `shop-deployer` in another namespace",
        ),
        Allowed(
            "projected token for another audience",
            made(
                "v1",
                "Pod",
                "projects",
                SHOP,
                spec=pod(volumes=[{"name": "v", "projected": {"sources": [token]}}]),
            ),
            "the token names its own namespace and account",
        ),
        Allowed(
            "Service of type ExternalName",
            made("v1", "Service", "ledger", SHOP, spec=external),
            "NetworkPolicy of the target",
        ),
        Allowed(
            "Ingress of the host of others",
            made("networking.k8s.io/v1", "Ingress", "host", SHOP, spec={"rules": [host]}),
            "the ingress controller; or deny the kind",
        ),
        Allowed(
            "claim of a volume by its name",
            made("v1", "PersistentVolumeClaim", "claim", SHOP, spec=claim),
            "`claimRef` of the volume",
        ),
        Allowed(
            "owner reference to an object of another namespace",
            owned,
            "the garbage collector deletes the tenant's own object",
        ),
        Allowed(
            "fields of another manager in the same namespace",
            made("v1", "ConfigMap", "shared", SHOP, data={"a": "shop"}),
            "`failOnConflict`; objects of another service are refused",
        ),
    ]
