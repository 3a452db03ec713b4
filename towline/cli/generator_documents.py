"""GraphQL documents for generators of services; a test checks them against the schema."""

from dataclasses import dataclass

_PAGE = "pageInfo { hasNextPage endCursor }"
_SELECTOR = """
    selector { tags { name value } distro projectId groupIds ignoredClusterIds }
    onLeave onDelete deletionBudget project { id name }
    state { waiting problem evaluatedAt deletedAt }
"""
_TEMPLATE = """
    template {
        name namespace version repositoryId git { ref folder } kustomizePath helm
        configuration { name value } templated protect dryRun secrets { name secretId }
        verification { soakSeconds maxRestarts metric { address query comparison threshold } }
    }
"""
GLOBAL = f"id name service {{ id name }} {_SELECTOR} {_TEMPLATE}"
SET = f"""
    id name {_SELECTOR} {_TEMPLATE} items
    folders {{ repositoryId ref pattern excluded }}
    requests {{ repositoryId labels base limit ttlHours provider }}
"""
NAMESPACE = f"id name namespace labels annotations quota {_SELECTOR} {_TEMPLATE}"
GROUP = """
    id name description tags { name value } clusterIds project { id name }
    frozen frozenReason frozenBy frozenAt maxChanging
"""


@dataclass(frozen=True, slots=True)
class Documents:
    """Queries and mutations for one type, built from the API's name of it."""

    root: str
    noun: str
    fields: str

    @property
    def every(self) -> str:
        return f"""query Every($first: Int, $after: String, $q: String) {{
            {self.root}s(first: $first, after: $after, q: $q) {{
                edges {{ node {{ {self.fields} }} }} {_PAGE}
            }}
        }}"""

    @property
    def one(self) -> str:
        return f"""query One($id: ID, $name: String) {{
            {self.root}(id: $id, name: $name) {{ {self.fields} }}
        }}"""

    @property
    def create(self) -> str:
        return f"""mutation Create($attributes: {self.noun}Attributes!) {{
            create{self.noun}(attributes: $attributes) {{ {self.fields} }}
        }}"""

    @property
    def update(self) -> str:
        return f"""mutation Update($id: ID!, $attributes: {self.noun}Attributes!) {{
            update{self.noun}(id: $id, attributes: $attributes) {{ {self.fields} }}
        }}"""

    @property
    def delete(self) -> str:
        return f"""mutation Delete($id: ID!) {{
            delete{self.noun}(id: $id) {{ {self.fields} }}
        }}"""

    @property
    def sync(self) -> str:
        return f"""mutation Sync($id: ID!, $confirm: Int!) {{
            sync{self.noun}(id: $id, confirm: $confirm) {{ {self.fields} }}
        }}"""

    @property
    def services(self) -> str:
        return f"""query Services($id: ID!) {{
            {self.root}Services(id: $id) {{ id name namespace status cluster {{ handle }} }}
        }}"""


GLOBALS = Documents("globalService", "GlobalService", GLOBAL)
SETS = Documents("serviceSet", "ServiceSet", SET)
NAMESPACES = Documents("managedNamespace", "ManagedNamespace", NAMESPACE)
GROUPS = Documents("clusterGroup", "ClusterGroup", GROUP)

CREATE_FROM_SERVICE = f"""mutation CreateGlobal(
    $serviceId: ID, $attributes: GlobalServiceAttributes!
) {{
    createGlobalService(serviceId: $serviceId, attributes: $attributes) {{ {GLOBAL} }}
}}"""
GLOBAL_CLUSTERS = """query GlobalClusters($id: ID!) {
    globalServiceClusters(id: $id) {
        id cluster { handle } overriddenBy overriddenAt delta { field inherited effective }
    }
}"""
OVERRIDE = """mutation Override(
    $id: ID!, $clusterId: ID!, $attributes: GlobalOverrideAttributes!
) {
    overrideGlobalService(id: $id, clusterId: $clusterId, attributes: $attributes) {
        id cluster { handle } overriddenBy overriddenAt delta { field inherited effective }
    }
}"""
PREVIEW_SET = """query PreviewSet($id: ID, $attributes: ServiceSetAttributes!) {
    previewServiceSet(id: $id, attributes: $attributes) {
        creates updates deletes frozen complete problem
        create { clusterId name namespace ref folder }
        update { clusterId name namespace ref folder }
        delete { clusterId name namespace ref folder }
        withheld { clusterId name namespace ref folder }
        collisions { clusterId name namespace ref folder }
    }
}"""
GROUP_CLUSTERS = """query GroupClusters($id: ID!) {
    clusterGroupClusters(id: $id) { id handle name pingedAt }
}"""
FREEZE = f"""mutation Freeze($id: ID!, $reason: String) {{
    freezeClusterGroup(id: $id, reason: $reason) {{ {GROUP} }}
}}"""
UNFREEZE = f"""mutation Unfreeze($id: ID!) {{
    unfreezeClusterGroup(id: $id) {{ {GROUP} }}
}}"""
UPGRADE_AGENTS = """mutation UpgradeAgents(
    $groupId: ID!, $version: String!, $image: String!, $without: [ID!]
) {
    upgradeAgents(groupId: $groupId, version: $version, image: $image, without: $without) {
        id handle agentVersion pingedAt
    }
}"""
