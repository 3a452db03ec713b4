"""Manifests of all kinds, which refer to each other."""

from tests.fakes.manifest_world import document

REPOSITORY = "https://git.example.org/fleet.git"
SINK = {"settings": {"kind": "WEBHOOK", "webhook": {"url": "https://hooks.example.org/x"}}}
EVERYTHING = "".join(
    [
        document("User", "ada@example.org", {"displayName": "Ada"}),
        document("ServiceAccount", "ci@example.org", {"displayName": "CI"}),
        document("ServiceAccount", "robot@service-accounts", {"displayName": "The robot"}),
        document(
            "TrustedIssuer",
            "shop-main",
            {
                "serviceAccount": "ci@example.org",
                "issuer": "https://ci.example.org",
                "audience": "towline",
                "subject": "repo:shop/*",
                "claims": {"ref": "refs/heads/main"},
                "minutes": 30,
            },
        ),
        document(
            "Group",
            "devs",
            {"description": "Developers", "members": ["ada@example.org", "ci@example.org"]},
        ),
        document(
            "Role",
            "deployer",
            {
                "description": "Deploys",
                "rules": [{"verbs": ["READ", "WRITE"], "kinds": ["SERVICE"]}],
                "kubernetes": {"groups": ["deployers"]},
            },
        ),
        document(
            "Project",
            "shop",
            {
                "description": "The shop",
                "fence": {"unrestricted": True},
                "bindings": {
                    "deployer": {"groups": ["devs"]},
                    "viewer": {"users": ["ci@example.org"]},
                },
            },
        ),
        document("Cluster", "eu-1", {"tags": {"env": "prod"}, "protect": True}, project="shop"),
        document("Cluster", "us-1", {"displayName": "US One"}),
        document("ClusterGroup", "prod", {"tags": {"env": "prod"}, "clusters": ["us-1"]}),
        document(
            "ClusterGroup",
            "closed",
            {"clusters": ["us-1"], "frozen": True, "freezeReason": "black friday"},
        ),
        document(
            "AgentSettings",
            "global",
            {"agentValues": "replicas: {{ cluster.name }}\n", "agentValuesTemplated": True},
        ),
        document(
            "AgentSettings",
            "prod",
            {
                "selector": {"groups": ["prod"], "excluded": ["us-1"]},
                "priority": 10,
                "version": "1.2.0",
                "image": "registry.example.org/towline:1.2.0",
                "size": "LARGE",
            },
        ),
        document("GitRepository", REPOSITORY, {"submodules": True}),
        document("HelmRepository", "https://charts.example.org/stable", {"viaCluster": "eu-1"}),
        document(
            "OCIRepository",
            "oci://registry.example.org/team/shop",
            {"httpsPath": "https://git.example.org/shop"},
        ),
        document(
            "Secret",
            "database",
            {
                "source": {"kind": "ENVIRONMENT", "key": "TOWLINE_SECRET_DATABASE"},
                "rotation": {"batch": 2, "soakSeconds": 30},
            },
        ),
        document("Secret", "session-key", {"generate": {"length": 48, "alphabet": "HEX"}}),
        document(
            "Context",
            "common",
            {
                "values": {"domain": "example.org", "replicas": 3},
                "types": {"replicas": "NUMBER"},
                "overrides": [{"cluster": "eu-1", "values": {"replicas": 5}}],
            },
        ),
        document(
            "Service",
            "database",
            {
                "namespace": "shop",
                "repository": REPOSITORY,
                "folder": "database",
                "exports": [
                    {"name": "port", "type": "NUMBER", "value": 5432, "shared": True},
                    {"name": "host", "value": "database.shop"},
                ],
            },
            cluster="us-1",
        ),
        document(
            "Service",
            "web",
            {
                "namespace": "shop",
                "repository": REPOSITORY,
                "ref": "v2",
                "folder": "web",
                "configuration": {"color": "blue"},
                "options": {
                    "drift": "REPORT",
                    "ignored": [{"kind": "Deployment", "pointers": ["/spec/replicas"]}],
                },
                "verification": {"soakSeconds": 60},
                "dependencies": ["database"],
                "contexts": ["common"],
                "imports": [
                    {"alias": "db", "service": "us-1/database", "export": "host"},
                    {"alias": "cache", "service": "us-1/database", "export": "x", "default": {}},
                ],
                "sources": [{"repository": REPOSITORY, "folder": "base"}],
            },
            cluster="us-1",
        ),
        document(
            "Service",
            "redis",
            {
                "namespace": "shop",
                "helm": {
                    "repository": "https://charts.example.org/stable",
                    "chart": "redis",
                    "version": "1.2.3",
                    "values": "replicas: 2\n",
                },
            },
            cluster="us-1",
        ),
        document(
            "GlobalService",
            "agent",
            {
                "selector": {
                    "tags": {"env": "prod"},
                    "groups": ["prod"],
                    "excluded": ["us-1"],
                    "matchExpressions": [
                        {"key": "region", "operator": "NotIn", "values": ["ap", "us"]},
                        {"key": "old", "operator": "DoesNotExist"},
                    ],
                },
                "template": {
                    "name": "agent",
                    "namespace": "agents",
                    "repository": REPOSITORY,
                    "ref": "main",
                    "folder": "agent",
                },
                "onLeave": "DELETE",
                "deletionBudget": 3,
                "overrides": [
                    {
                        "cluster": "eu-1",
                        "ref": "canary",
                        "configuration": {"level": "debug"},
                        "without": ["zone"],
                        "options": {"drift": "REPORT"},
                    }
                ],
            },
        ),
        document(
            "ServiceSet",
            "apps",
            {
                "generator": {"folders": {"repository": REPOSITORY, "pattern": "apps/*"}},
                "template": {
                    "name": "${folder.name}",
                    "namespace": "apps",
                    "repository": REPOSITORY,
                    "folder": "${folder.path}",
                },
            },
        ),
        document(
            "ManagedNamespace",
            "teams",
            {"namespaceLabels": {"team": "shop"}, "quota": {"requests.cpu": "4"}},
            project="shop",
        ),
        document(
            "Pipeline",
            "web",
            {
                "paused": True,
                "stages": [
                    {"name": "staging", "services": ["us-1/database"]},
                    {
                        "name": "production",
                        "services": ["us-1/web"],
                        "verification": {"soakSeconds": 30},
                    },
                ],
                "edges": [
                    {
                        "source": "staging",
                        "target": "production",
                        "gates": [{"name": "wait", "rule": {"kind": "APPROVAL"}}],
                    }
                ],
            },
        ),
        document(
            "RoleBinding",
            "releases",
            {
                "role": "deployer",
                "subject": {"group": "devs"},
                "scope": {"service": "us-1/web"},
                "expiresAt": "2027-01-31T09:30:00Z",
                "reason": "Releases of the sale",
            },
        ),
        document("RoleBinding", "everything", {"role": "viewer", "subject": {"group": "devs"}}),
        document(
            "RoleBinding",
            "development",
            {"role": "editor", "subject": {"group": "devs"}, "clusterTags": "env in (dev,qa)"},
        ),
        document(
            "ConfigurationSource",
            "apps",
            {
                "repository": REPOSITORY,
                "folder": "configuration/apps",
                "serviceAccount": "ci@example.org",
                "mode": "APPROVAL",
                "prune": True,
                "deletionBudget": 3,
                "drift": "HEAL",
                "intervalSeconds": 600,
            },
            project="shop",
        ),
        document(
            "ClusterSource",
            "capi",
            {
                "cluster": "us-1",
                "serviceAccount": "ci@example.org",
                "inventory": "CLUSTER_API",
                "namespace": "fleet",
                "selector": "env in (prod,test)",
                "nameTemplate": "capi-{name}",
                "tags": {"from": "capi"},
                "tagLabels": ["env", "topology.kubernetes.io/region"],
                "gone": "DELETE",
                "maxClusters": 200,
                "maxDeletions": 2,
                "intervalSeconds": 300,
            },
            project="shop",
        ),
        document(
            "NotificationSink",
            "hook",
            SINK,
        ),
        document("NotificationRule", "failures", {"events": ["service.failed"], "sinks": ["hook"]}),
    ]
)


# The address of this sink is a secret, which no export contains.
WITHOUT_SECRETS = EVERYTHING.partition(document("NotificationSink", "hook", SINK))[0]
