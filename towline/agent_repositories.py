"""The agent's embedded git cache; implements `syncagent.ports.Repositories`."""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path

import yaml

from core.errors import Invalid, NotFound, Unavailable
from core.identity import RepositoryId, local_id
from core.remotes import Remote, parse_chart_remote, parse_remote
from core.runtime.clock import Clock
from core.spec.renderers import AUTO, HELM, HelmRelease
from core.spec.source import Commit, GitCredentials, RenderRequest, RepositorySpec, RepositoryState
from gitcache import compose
from gitcache.settings import GitCacheSettings, PollSettings, RenderSettings, StoreSettings
from gitcache.store.eviction import ReportedDigests
from gitcache.sync.cache import GitCache
from syncagent.autonomy.definitions import YAML_ERRORS
from syncagent.domain.local_services import ServiceDefinition
from syncagent.ports import LocalRender
from syncagent.settings import Settings

_FIRST_POLL_S = 20.0
_MAX_FILE_BYTES = 256 << 10
_MAX_CACHED_RENDERS = 5000
_FIELDS = {
    "username": "username",
    "password": "password",
    "privateKey": "private_key",
    "passphrase": "passphrase",
    "appId": "app_id",
    "installationId": "installation_id",
    "apiUrl": "api_url",
    "clientCertificate": "client_certificate",
    "clientKey": "client_key",
    "authority": "authority",
    "knownHosts": "known_hosts",
    "proxy": "proxy",
}


def build(settings: Settings, clock: Clock) -> "AgentRepositories":
    """Builds the repositories for `syncagent.compose`, with one render worker and little memory."""
    live = ReportedDigests()
    cache = compose.build_git_cache(
        GitCacheSettings(
            data_dir=settings.state.directory / "git",
            poll=PollSettings(seconds=settings.git.poll_seconds),
            render=RenderSettings(workers=1),
            store=StoreSettings(memory=4 << 20, keep_days=1),
        ),
        clock,
        live=live,
    )
    return AgentRepositories(cache, CredentialFiles(settings.git.credentials), live)


class CredentialFiles:
    """Credentials in files of a folder, such as a mounted Secret; reloaded on change."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._loaded_mtime = 0
        self._entries: list[tuple[Remote, GitCredentials]] = []

    def for_url(self, url: str) -> GitCredentials | None:
        """Finds the credentials with the longest matching `url`. Invalid: a malformed file."""
        remote = _parse_url(url)
        matching = [file for file in self._load_entries() if _covers(file[0], remote)]
        return max(matching, key=lambda entry: len(entry[0].path))[1] if matching else None

    def _load_entries(self) -> list[tuple[Remote, GitCredentials]]:
        if self._folder is None:
            return []
        try:
            stamp = self._folder.stat().st_mtime_ns
            if stamp != self._loaded_mtime:
                files = sorted(path for path in self._folder.iterdir() if path.is_file())
                self._entries = [_credentials(path) for path in files]
                self._loaded_mtime = stamp
        except OSError as error:
            raise Invalid(f"cannot read {error.filename}: {error.strerror}") from None
        return self._entries


class AgentRepositories:
    """Follows each repository and ref after its first render."""

    def __init__(
        self, cache: GitCache, credentials: CredentialFiles, live: ReportedDigests
    ) -> None:
        self._cache = cache
        self._live = live
        self._credentials = credentials
        self._specs: dict[str, RepositorySpec] = {}
        self._polled: dict[str, asyncio.Event] = {}
        self._rendered: dict[Hashable, LocalRender] = {}
        cache.on_state(self._on_state)
        self._on_change: Callable[[], None] = lambda: None

    async def start(self, changed: Callable[[], None]) -> None:
        """Starts polling. Raises Unavailable if the disk fails."""
        self._on_change = changed
        await self._cache.start()

    async def stop(self) -> None:
        """Stops polling and rendering."""
        await self._cache.stop()

    async def refresh(self) -> None:
        """Polls all servers now."""
        for spec in self._specs.values():
            await self._cache.request_poll(spec.id)

    async def render(self, definition: ServiceDefinition) -> LocalRender:
        """Implements the port; renders again only for a new commit."""
        spec = self._follow(definition)
        commit = await self._resolve_ref(spec, definition.ref)
        names = (definition.folder, definition.name, definition.namespace)
        cache_key = (spec.id, definition.ref, *names, definition.helm)
        cached = self._rendered.get(cache_key)
        if cached is not None and cached.commit == commit.sha:
            return cached
        stored_bundle = await self._cache.render(
            RenderRequest(
                repository_id=spec.id,
                commit=commit.sha,
                folder=definition.folder,
                renderer=HELM if definition.helm else AUTO,
                helm=definition.helm or HelmRelease(definition.name, definition.namespace),
            )
        )
        load = partial(self._cache.bundle, stored_bundle.digest)
        rendered = LocalRender(
            stored_bundle.digest, stored_bundle.size, load, commit.sha, commit.committed_at
        )
        if len(self._rendered) >= _MAX_CACHED_RENDERS:
            self._rendered.clear()
        self._rendered[cache_key] = rendered
        # The agent stores applied bundles itself: a bundle in this cache only saves a render.
        self._live.set_digests([bundle.digest for bundle in self._rendered.values()])
        return rendered

    def _follow(self, definition: ServiceDefinition) -> RepositorySpec:
        url = definition.repository
        previous = self._specs.get(url)
        refs = (previous.refs if previous else frozenset()) | {definition.ref}
        repository_id = RepositoryId(local_id("repository", url))
        spec = RepositorySpec(repository_id, url, refs, self._credentials.for_url(url))
        if spec != previous:
            self._specs[url] = spec
            self._polled[spec.id] = asyncio.Event()
            self._cache.follow(spec)
        return spec

    async def _resolve_ref(self, spec: RepositorySpec, ref: str) -> Commit:
        """Commit of a ref. NotFound: no such ref. Unavailable: the server is not reachable."""
        state = self._cache.state(spec.id)
        if state is None or ref not in {*state.commits, *state.missing}:
            state = await self._wait_first_poll(spec)
        if (commit := state.commits.get(ref)) is not None:
            return commit
        if ref in state.missing:
            raise NotFound(f"{spec.url} has no branch or tag {ref}")
        raise Unavailable(state.error or f"{spec.url} was not polled for {ref} yet")

    async def _wait_first_poll(self, spec: RepositorySpec) -> RepositoryState:
        try:
            async with asyncio.timeout(_FIRST_POLL_S):
                await self._polled[spec.id].wait()
        except TimeoutError:
            # Later renders do not wait: changes after this arrive as events.
            self._polled[spec.id].set()
        state = self._cache.state(spec.id)
        if state is None:
            raise Unavailable(f"{spec.url} was not reached yet")
        return state

    def _on_state(self, state: RepositoryState) -> None:
        if (polled := self._polled.get(state.repository_id)) is not None:
            polled.set()
        self._on_change()


def _covers(credentials_url: Remote, remote: Remote) -> bool:
    is_below = remote.path == credentials_url.path or remote.path.startswith(
        f"{credentials_url.path}/"
    )
    return credentials_url.origin == remote.origin and is_below


def _credentials(path: Path) -> tuple[Remote, GitCredentials]:
    """Parses a credentials file. The message of Invalid never contains its content."""
    try:
        raw: object = yaml.load(path.read_bytes()[:_MAX_FILE_BYTES], yaml.CSafeLoader)
    except YAML_ERRORS:
        raise Invalid(f"{path} is not YAML") from None
    if not isinstance(raw, Mapping) or not isinstance(raw.get("url"), str):
        raise Invalid(f"{path}: credentials require the field url")
    fields = {name: value for name, value in raw.items() if name != "url"}
    if not fields.keys() <= _FIELDS.keys() or not all(isinstance(v, str) for v in fields.values()):
        raise Invalid(f"{path}: all fields must be strings named url, {', '.join(_FIELDS)}")
    credentials = GitCredentials(**{_FIELDS[name]: value for name, value in fields.items()})
    return _parse_url(raw["url"]), credentials


def _parse_url(url: str) -> Remote:
    """Parses a URL; credentials of a registry have its `https` or `oci` URL."""
    return parse_chart_remote(url) if url.startswith("oci://") else parse_remote(url)
