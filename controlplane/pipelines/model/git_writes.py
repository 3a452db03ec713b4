"""Git changes of a stage or trigger: the files to change, and how the change is merged."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.platform.limits import check_count, check_length, check_range
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.json_object import JsonMapping
from core.spec.edits import CopyFolder, Edit, SetField, SetImage
from core.spec.images import images_in, split_image

MAX_CHANGES = 100
MAX_PATH = 1_024
MAX_TEXT = 2_000
MAX_KEYS = 32
AUTHOR = "Towline <towline@localhost>"
PROVIDERS = ("", "github", "gitlab", "gitea")

_PLACEHOLDER = re.compile(r"\$\{([\w.]+)\}")
_UNSAFE_IN_BRANCH = re.compile(r"[^A-Za-z0-9._-]+|\.{2,}|\.lock$")
_AUTHOR_FORMAT = re.compile(r"[^<>\x00-\x1f]{1,200} <[^<>\s\x00-\x1f]{1,200}>")

Images = Mapping[str, Collection[str]]
"""Tags of the used images, by image name."""


class WriteMode(StrEnum):
    """Way in which a change reaches the branch."""

    COMMIT = "COMMIT"
    """Push a commit to the branch itself."""
    REQUEST = "REQUEST"
    """Open a pull or merge request, which a user merges."""


class FileKind(StrEnum):
    """Kind of change to a file or folder."""

    IMAGE = "IMAGE"
    """Set the tag of an image wherever the file names it."""
    FIELD = "FIELD"
    """Set one field of a YAML or JSON document."""
    FOLDER = "FOLDER"
    """Replace a folder by a copy of another one."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """Change of one file or folder."""

    kind: FileKind
    """Kind of change."""
    path: str
    """Path of the file or folder in the repository. Limit: 1,024 characters."""
    image: str = ""
    """IMAGE: name of the image without a tag. FIELD: image for `${tag}`."""
    field: tuple[str, ...] = ()
    """FIELD: keys and indexes from the root of the document. Limit: 32."""
    value: str = "${tag}"
    """FIELD and IMAGE: new value or tag. Default: `${tag}`. Limit: 2,000 characters."""
    document: int = 0
    """FIELD: index of the document in the file, from 0. Default: 0."""
    source: str = ""
    """FOLDER: folder to copy."""

    def check(self, field: str) -> None:
        """Raises Invalid for a missing or oversized field."""
        check_text(self.path, f"{field}.path", MAX_PATH)
        check_text(self.value, f"{field}.value", MAX_TEXT)
        if self.kind is FileKind.IMAGE and not self.image:
            raise Invalid("IMAGE needs the name of an image", field=f"{field}.image")
        if self.kind is FileKind.FIELD:
            check_count(len(self.field), f"{field}.field", MAX_KEYS, least=1)
        if self.kind is FileKind.FOLDER and not self.source:
            raise Invalid("FOLDER needs the source folder", field=f"{field}.source")
        for text in (self.image, self.source, *self.field):
            check_length(text, field, MAX_PATH)
        check_range(self.document, f"{field}.document", 0, MAX_TEXT)


@dataclass(frozen=True, slots=True)
class GitWrite:
    """File changes that become one commit.

    `message` and `branch` may contain `${release}`, `${commit}`, `${stage}`, `${pipeline}`,
    `${version}`; those of a trigger `${trigger}`, `${tag}` and `${digest}`.
    """

    changes: tuple[FileChange, ...]
    """Changes to files. Limit: 100."""
    mode: WriteMode = WriteMode.COMMIT
    """Direct commit, or pull or merge request. Default: `COMMIT`."""
    message: str = "Promote ${pipeline} ${release} to ${stage}"
    """Commit message with placeholders such as `${release}`, `${stage}` and `${pipeline}`. Limit:
    2,000 characters."""
    branch: str = "towline/${pipeline}/${stage}/${release}"
    """Branch of the request, or of the preview, with the same placeholders. Default:
    `towline/${pipeline}/${stage}/${release}`."""
    author: str = AUTHOR
    """Author as `Name <email>`. Default: `Towline <towline@localhost>`."""
    provider: str = ""
    """`github`, `gitlab` or `gitea`. Default: derived from the host name."""

    def check(self, field: str) -> None:
        """Raises Invalid for a write that can never work."""
        check_count(len(self.changes), f"{field}.changes", MAX_CHANGES, least=1)
        for number, change in enumerate(self.changes):
            change.check(f"{field}.changes[{number}]")
        check_text(self.message.replace("\n", " "), f"{field}.message", MAX_TEXT)
        check_text(self.branch, f"{field}.branch", MAX_PATH)
        if not _AUTHOR_FORMAT.fullmatch(self.author):
            raise Invalid("must be `Name <email>`", field=f"{field}.author")
        if self.provider not in PROVIDERS:
            raise Invalid("must be github, gitlab or gitea", field=f"{field}.provider")

    def message_for(self, values: Mapping[str, str]) -> str:
        """Returns the commit message. Raises Invalid, naming a placeholder without a value."""
        return fill_text(self.message, values)

    def branch_for(self, values: Mapping[str, str]) -> str:
        """Returns the branch name; characters that git rejects become `-`."""
        plain = {
            name: _UNSAFE_IN_BRANCH.sub("-", text).strip("-.") or "_"
            for name, text in values.items()
        }
        return fill_text(self.branch, plain)[:200].rstrip("./")

    def edits(self, values: Mapping[str, str], images: Images) -> list[Edit]:
        """Returns the edits of the files. Raises Invalid if an image has no tag, or several."""
        return [_edit(change, values, images) for change in self.changes]


def tags_in(objects: Iterable[JsonMapping]) -> dict[str, set[str]]:
    """Returns the image tags used by the pods of these objects, by image name."""
    tags: dict[str, set[str]] = {}
    for kube_object in objects:
        for image in images_in(kube_object):
            name, tag = split_image(image)
            if tag:
                tags.setdefault(name, set()).add(tag)
    return tags


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Replaces all `${name}` in a text. Raises Invalid for a name without a value."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            names = ", ".join(sorted(values))
            raise Invalid(f"unknown placeholder ${{{match[1]}}}; available: {names}")
        return values[match[1]]

    return _PLACEHOLDER.sub(value, text)


def _edit(change: FileChange, values: Mapping[str, str], images: Images) -> Edit:
    if change.kind is FileKind.FOLDER:
        return CopyFolder(change.source, change.path)
    known_values = dict(values)
    if change.image and "tag" not in known_values and "${tag}" in change.value:
        known_values["tag"] = _only_tag(change.image, images)
    value = fill_text(change.value, known_values)
    if change.kind is FileKind.IMAGE:
        return SetImage(change.path, change.image, value)
    keys = [int(key) if key.isdecimal() else key for key in change.field]
    return SetField(change.path, keys, value, change.document)


def _only_tag(image: str, images: Images) -> str:
    tags = sorted(images.get(image, ()))
    if len(tags) != 1:
        usage = f"uses it with the tags {', '.join(tags[:5])}" if tags else "does not use it"
        raise Invalid(f"which tag of {image}? The release {usage}", field="image")
    return tags[0]
