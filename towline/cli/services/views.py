"""Filters of saved views of services."""

from towline.cli.clusters.find import find_cluster_id
from towline.cli.projects.find import find_project_id
from towline.cli.repositories.find import find_folder_repository
from towline.cli.shell.selectors import tags_of
from towline.cli.views.filters import conditions_of_view
from towline.operations import GraphQLApi

# States that the console shows under another name than the API.
_STATES = {
    "APPLIED_WAITING_FOR_HEALTH": "SYNCED",
    "PROGRESSING": "STALE",
    "SUSPENDED": "PAUSED",
}
_CONDITIONS = ("state", "status", "cluster", "project", "repository", "tag", "label")


def state_of(word: str) -> str:
    """Returns the state of the API for a word of the console's filter, such as `out-of-sync`."""
    name = word.upper().replace("-", "_")
    return _STATES.get(name, name)


def filter_of_view(api: GraphQLApi, name: str | None) -> dict[str, object]:
    """Returns the variables of a list of services for a saved view."""
    conditions, values = conditions_of_view(api, "services", name, _CONDITIONS)
    first = {condition: options[0] for condition, options in values.items() if options}
    repository = first.get("repository")
    states = values.get("status") or [state_of(word) for word in values.get("state", ())]
    return {
        "q": conditions or None,
        "clusterId": find_cluster_id(api, first.get("cluster")),
        "projectId": find_project_id(api, first.get("project")),
        "repositoryId": find_folder_repository(api, repository) if repository else None,
        "tags": tags_of(",".join(values["tag"])) if "tag" in values else None,
        "labels": ",".join(values.get("label", ())) or None,
        "status": states or None,
    }
