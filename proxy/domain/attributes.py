"""What a request is about, read from its path as the API server reads it.

The path is judged undecoded: whatever the API server could read in two ways is refused, so that
what is authorized is what is sent.
"""

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from urllib.parse import parse_qsl

from fleet.errors import Invalid

USUAL_LENGTH = 256
READS = frozenset({"get", "list", "watch"})
WRITING_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy", "ephemeralcontainers"})
LONG_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy", "log"})
ELSE = "other"
PROXIED = frozenset({"pods", "services", "nodes"})
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update"}
_VERBS |= {"PATCH": "patch", "DELETE": "delete"}
_SPOKEN = frozenset({
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy",
    "exec", "attach", "portforward", "log", "head", "options",
})  # fmt: skip
_SPOKEN_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "log", "proxy"})
_DOT_SEGMENT = re.compile(r"(?i)(^|/|\\|%2f|%5c)(\.|%2e){1,2}(/|\\|%2f|%5c|$)")
_AMBIGUOUS = re.compile(r"[%;\\]")
_DROPPED = re.compile(r"(?i);|%(?![0-9a-f]{2})")
_DOUBTFUL = re.compile(r"[%;\\]|//|/\.|^[^/]")


@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """As Kubernetes' RequestInfo. For paths that are no resource, `resource` is empty.

    `asks_to_watch`: the query says so, also where the API server reads it as a plain `get`.
    What follows from them is worked out once: `writes`, it may change something or open a
    connection into a workload; `watches`, its answer may be a stream of events; `long_running`,
    its answer may take for ever; `spoken`, the verb as people think of it, `exec`, not `create
    pods/exec`, and `other` for what Kubernetes does not have; `text`, all of it for people.
    """

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    asks_to_watch: bool = False
    writes: bool = field(init=False, compare=False, repr=False)
    watches: bool = field(init=False, compare=False, repr=False)
    long_running: bool = field(init=False, compare=False, repr=False)
    spoken: str = field(init=False, compare=False, repr=False)
    text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        verb, part, note = self.verb, self.subresource, partial(object.__setattr__, self)
        watches = verb == "watch" or self.asks_to_watch
        spoken = part if part in _SPOKEN_SUBRESOURCES else verb
        note("writes", part in WRITING_SUBRESOURCES or verb not in READS | {"head"})
        note("watches", watches)
        note("long_running", watches or part in LONG_SUBRESOURCES)
        note("spoken", spoken if spoken in _SPOKEN else ELSE)
        note("text", self._described())

    def __str__(self) -> str:
        return self.text

    def _described(self) -> str:
        if not self.resource:
            return f"{self.verb} {self.path}"
        what = "/".join(part for part in (self.resource, self.subresource) if part)
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {what} {where}".rstrip()


def read_attributes(method: str, target: str) -> RequestAttributes:
    """The attributes of a request with this method and target (below the cluster's prefix).

    Invalid: a path that could be read in more than one way.
    """
    read = _read_usual if len(target) <= USUAL_LENGTH else _read
    return read(method, target)


def _read(method: str, target: str) -> RequestAttributes:
    path, _, query = target.partition("?")
    parts = path.split("/")[1:]
    if parts and parts[-1] == "":
        parts.pop()
    attributes = _resource(method, path, parts) or RequestAttributes(method.lower(), path)
    if _DOUBTFUL.search(path):
        _refuse_ambiguous(attributes, parts)
    if attributes.verb == "get" and attributes.resource:
        asked = _asks_to_watch(query)
        verb = "get" if attributes.name else "watch" if asked else "list"
        return replace(attributes, verb=verb, asks_to_watch=asked)
    if attributes.verb == "delete" and not attributes.name:
        return replace(attributes, verb="deletecollection")
    return attributes


_read_usual = lru_cache(maxsize=4096)(_read)


def _resource(method: str, path: str, parts: list[str]) -> RequestAttributes | None:
    """None for paths that are no resource (discovery, health, version, metrics)."""
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    verb = _VERBS.get(method, method.lower())
    if rest[0] in {"watch", "proxy"} and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest[:3], "", "")[:3]
    return RequestAttributes(verb, path, group, version, namespace, resource, subresource, name)


def _refuse_ambiguous(attributes: RequestAttributes, parts: list[str]) -> None:
    """Behind `…/proxy/` the path is the workload's own affair; before it nothing is decoded."""
    if _DOT_SEGMENT.search(attributes.path):
        raise Invalid("dot segments in the path are refused")
    own = parts
    if attributes.subresource == "proxy" and attributes.resource in PROXIED:
        own = parts[: parts.index(attributes.resource, 2) + 3]
    if "" in own:
        raise Invalid("empty segments in the path are refused")
    if any(_AMBIGUOUS.search(part) for part in own):
        raise Invalid("encoded characters, ';' and '\\' in the path are refused")


def _asks_to_watch(query: str) -> bool:
    """Whether the first `watch` is anything but a no: nothing behind it is a yes.

    Go drops a pair that has a semicolon or a broken escape, and so does this.
    """
    if "watch" not in query and "%" not in query:
        return False
    sound = "&".join(pair for pair in query.split("&") if not _DROPPED.search(pair))
    values = [value for key, value in parse_qsl(sound, keep_blank_values=True) if key == "watch"]
    return bool(values) and values[0].casefold() not in {"0", "false"}
