"""Request attributes, read from the path exactly as the API server reads it.
Each segment is decoded once, like Go's `URL.Path`. The proxy refuses every path that a second
reader could take differently, so that the authorized request is the one that is sent.
"""

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from urllib.parse import parse_qsl, unquote_to_bytes

from core.errors import Invalid

CACHED_LENGTH = 256
READS = frozenset({"get", "list", "watch"})
WRITING_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy", "ephemeralcontainers"})
LONG_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy", "log"})
OTHER_VERB = "other"
PROXIED = frozenset({"pods", "services", "nodes"})
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update"}
_VERBS |= {"PATCH": "patch", "DELETE": "delete"}
_DISPLAYED_VERBS = frozenset({
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy",
    "exec", "attach", "portforward", "log", "head", "options",
})  # fmt: skip
_DISPLAYED_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "log", "proxy"})
_DOT_SEGMENT = re.compile(r"(?i)(^|/|\\|%2f|%5c)(\.|%2e){1,2}(/|\\|%2f|%5c|$)")
_AMBIGUOUS = re.compile(r"[%/\\]")
_DROPPED = re.compile(r"(?i);|%(?![0-9a-f]{2})")
_DOUBTFUL = re.compile(r"[^!-~]|[%\\]|//|/\.|^[^/]")


@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """Attributes of a request, like Kubernetes' RequestInfo; `resource` is empty for other paths.
    `asks_to_watch`: the query asks for a watch, even if the API server treats it as a plain `get`.
    The constructor derives the rest. `writes`: the request may change something or open a
    connection into a workload. `watches`: the response may be a stream of events. `long_running`:
    the response may never end. `display_verb`: the verb as people know it (`exec`, not `create
    pods/exec`), or `other` for verbs that Kubernetes does not have. `text`: all attributes in
    readable form.
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
    display_verb: str = field(init=False, compare=False, repr=False)
    text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        verb, subresource = self.verb, self.subresource
        set_field = partial(object.__setattr__, self)
        watches = verb == "watch" or self.asks_to_watch
        display_verb = subresource if subresource in _DISPLAYED_SUBRESOURCES else verb
        set_field("writes", subresource in WRITING_SUBRESOURCES or verb not in READS | {"head"})
        set_field("watches", watches)
        set_field("long_running", watches or subresource in LONG_SUBRESOURCES)
        set_field("display_verb", display_verb if display_verb in _DISPLAYED_VERBS else OTHER_VERB)
        set_field("text", self._description())

    def __str__(self) -> str:
        return self.text

    def _description(self) -> str:
        if not self.resource:
            return f"{self.verb} {self.path}"
        resource = "/".join(part for part in (self.resource, self.subresource) if part)
        object_name = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {resource} {object_name}".rstrip()


def read_attributes(method: str, target: str) -> RequestAttributes:
    """Reads the attributes of a request from its method and its target below the cluster's prefix.
    Invalid: the path is ambiguous.
    """
    read = _read_cached if len(target) <= CACHED_LENGTH else _read
    return read(method, target)


def _read(method: str, target: str) -> RequestAttributes:
    path, _, query = target.partition("?")
    read = _read_doubtful if _DOUBTFUL.search(path) else _read_path
    attributes = read(method, path)
    if attributes.verb == "get" and attributes.resource:
        watch_asked = _asks_to_watch(query)
        verb = "get" if attributes.name else "watch" if watch_asked else "list"
        return replace(attributes, verb=verb, asks_to_watch=watch_asked)
    if attributes.verb == "delete" and attributes.resource and not attributes.name:
        return replace(attributes, verb="deletecollection")
    return attributes


_read_cached = lru_cache(maxsize=4096)(_read)


def _read_path(method: str, path: str) -> RequestAttributes:
    return _attributes(method, path, _segments(path))[0]


def _read_doubtful(method: str, path: str) -> RequestAttributes:
    """Decodes the path. The segments after `…/proxy/` belong to the workload and stay encoded."""
    if not path.isascii():
        raise Invalid("the path must be percent-encoded")
    if _DOT_SEGMENT.search(path):
        raise Invalid("dot segments in the path are refused")
    segments = _segments(path)
    decoded = [_decode(segment) for segment in segments]
    _, own_count = _attributes(method, path, decoded)
    if "" in decoded[:own_count] or not path.startswith("/"):
        raise Invalid("empty segments in the path are refused")
    for segment in decoded[:own_count]:
        if _AMBIGUOUS.search(segment) or not segment.isprintable():
            raise Invalid(
                "the path contains an encoded '/', '\\', '%' or control character, "
                "or a broken escape: no name of Kubernetes does"
            )
    tail = segments[own_count:] + [""] * path.endswith("/")
    return _attributes(method, "/".join(["", *decoded[:own_count], *tail]), decoded)[0]


def _segments(path: str) -> list[str]:
    segments = path.split("/")[1:]
    if segments and segments[-1] == "":
        segments.pop()
    return segments


def _decode(segment: str) -> str:
    """Decodes a segment once; bytes that are not UTF-8 become surrogates, which do not print."""
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")


def _attributes(method: str, path: str, parts: list[str]) -> tuple[RequestAttributes, int]:
    """Reads decoded segments, and counts those that do not belong to a proxied workload.
    Paths of discovery, health, version and metrics have no resource.
    """
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestAttributes(method.lower(), path), len(parts)
    verb = _VERBS.get(method, method.lower())
    if rest[0] in {"watch", "proxy"} and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest[:3], "", "")[:3]
    if verb == "proxy":
        subresource = ""
    attributes = RequestAttributes(
        verb, path, group, version, namespace, resource, subresource, name
    )
    proxied_count = len(rest) - 3 if subresource == "proxy" and resource in PROXIED else 0
    return attributes, len(parts) - proxied_count


def _asks_to_watch(query: str) -> bool:
    """Reports whether the first `watch` parameter is not false; an empty value counts as true.
    Like Go, it drops a pair that contains a semicolon or a broken escape.
    """
    if "watch" not in query and "%" not in query:
        return False
    valid_pairs = "&".join(pair for pair in query.split("&") if not _DROPPED.search(pair))
    values = [
        value for key, value in parse_qsl(valid_pairs, keep_blank_values=True) if key == "watch"
    ]
    return bool(values) and values[0].casefold() not in {"0", "false"}
