"""Writes the operations into docs/how-to/plural-provider.md: `python -m tests.terraform.table`."""

import sys
from pathlib import Path

from graphql import FieldNode, OperationDefinitionNode, parse

from tests.terraform.provider import DOCUMENTS

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "plural-provider.md"
BEGIN, END = "<!-- operations -->\n", "<!-- end of operations -->\n"

_CRUD = ("create", "read", "update", "delete")
_ASKED_BY = {
    "plural_cluster": ("CreateCluster", "GetCluster", "UpdateCluster", "DeleteCluster"),
    "plural_git_repository": (
        "CreateGitRepository",
        "GetGitRepository",
        "UpdateGitRepository",
        "DeleteGitRepository",
    ),
    "plural_service_deployment": (
        "CreateServiceDeployment",
        "GetServiceDeployment",
        "UpdateServiceDeployment",
        "DeleteServiceDeployment",
    ),
    "plural_group": ("CreateGroup", "GetGroup", "UpdateGroup", "DeleteGroup"),
    "plural_user": ("UpsertUser", "GetUser", "UpdateUser"),
    "plural_project": ("CreateProject", "GetProject", "UpdateProject"),
}
_OTHERS = {
    "GetClusterByHandle": "data source `plural_cluster`, import by `@handle`",
    "GetClusterWithToken": "`plural_cluster`: install an agent",
    "DetachCluster": "`plural_cluster`: delete with `detach`, or after a failed delete",
    "GetDeploymentSettings": "`plural_cluster`: install an agent",
    "GetDeploymentSettingsMinimal": "fallback of the previous operation",
    "CreateServiceDeploymentWithHandle": "`plural_service_deployment`: create by cluster handle",
    "GetServiceDeploymentByHandle": "`plural_service_wait`",
    "SaveServiceContext": "`plural_service_context`: create, update",
    "GetServiceContext": "`plural_service_context`: read; data source",
    "DeleteServiceContext": "`plural_service_context`: delete",
    "CreateGlobalServiceDeployment": "`plural_global_service`: create",
    "UpdateGlobalService": "`plural_global_service`: update",
    "DeleteGlobalService": "`plural_global_service`: delete",
    "CreateServiceAccount": "`plural_service_account`: create",
    "UpdateServiceAccount": "`plural_service_account`: update",
    "AddGroupMember": "`plural_group_member`: create",
    "DeleteGroupMember": "`plural_group_member`: delete",
    "UpdateRbac": "`plural_rbac`: create, update",
}


def page() -> str:
    """The page with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def table() -> str:
    """Every operation, the field of the API that answers it, and what of Terraform asks it."""
    lines = ["| operation | API field | caller |", "|---|---|---|"]
    lines += [f"| `{name}` | `{root}` | {asked_by(name)} |" for name, root in operations()]
    return "\n".join(lines) + "\n"


def operations() -> list[tuple[str, str]]:
    """(operation, root field), in the order of the documents."""
    found = []
    for path in DOCUMENTS:
        for node in parse(path.read_text()).definitions:
            if isinstance(node, OperationDefinitionNode) and node.name:
                (root,) = node.selection_set.selections
                assert isinstance(root, FieldNode)
                found.append((node.name.value, root.name.value))
    return found


def asked_by(name: str) -> str:
    """The resource or data source, and for what."""
    for resource, names in _ASKED_BY.items():
        if name in names:
            return f"`{resource}`: {_CRUD[names.index(name)]}"
    return _OTHERS[name]


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
