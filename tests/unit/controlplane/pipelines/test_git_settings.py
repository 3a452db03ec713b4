"""Git writes in the API."""

import json

from controlplane.pipelines.api.git import write_as_json
from controlplane.pipelines.model.git_writes import FileChange, FileKind, GitWrite


def test_the_settings_of_a_git_write_have_the_kind_of_each_change() -> None:
    """Without it, saving the settings again would be refused."""
    change = FileChange(FileKind.IMAGE, "deploy.yaml", "registry.example.org/shop")
    shown = json.loads(write_as_json(GitWrite((change,))) or "")
    assert shown == {
        "changes": [{"kind": "IMAGE", "path": "deploy.yaml", "image": "registry.example.org/shop"}]
    }
