"""Git, Helm and OCI repositories."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import orjson

from controlplane.access.operations.scopes import check_not_moved, project_for
from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.platform.batch import after_commit
from controlplane.platform.conflicts import name_conflict
from controlplane.platform.context import RENDER_SERVICES, OperationContext
from controlplane.platform.parts import Columns, part
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from controlplane.repositories.model.credentials import auth_method_of, merge_credentials
from controlplane.repositories.model.push import Push
from controlplane.repositories.model.repository import (
    LINKS,
    GitHealth,
    Repository,
    check_link,
    check_url,
    origin_of,
)
from controlplane.repositories.ports import (
    FollowedFiles,
    PushStore,
    RepositoryStore,
    RepositoryUsers,
)
from core.errors import Conflict, NotFound
from core.identity import ClusterId, RepositoryId
from core.outbound.credentials import RegistryAccount, account_of
from core.remotes import covering_repositories
from core.spec.source import GitCredentials, RepositoryKind, RepositorySpec, RepositoryState

_PUSH_RETENTION = timedelta(days=90)
_NAMES = {
    RepositoryKind.GIT: "GitRepository",
    RepositoryKind.HELM: "HelmRepository",
    RepositoryKind.OCI: "OciRepository",
}
_NOUNS = {
    RepositoryKind.GIT: "Git repository",
    RepositoryKind.HELM: "Helm repository",
    RepositoryKind.OCI: "repository of OCI artifacts",
}


@dataclass(frozen=True, slots=True, repr=False)
class RepositoryChange:
    """Changes to a repository. None leaves a field unchanged. Not printed, since it contains
    secrets.
    """

    url: str | None = None
    """URL: `https://…`, `ssh://…` or `user@host:path`."""
    credentials: GitCredentials = part(GitCredentials)
    webhook_secret: str | None = None
    """Secret that signs push webhooks."""
    project_id: str | None = None
    """ID of the project. Default: the default project."""
    via: str | None = None
    """ID of the cluster whose agent reaches the server. An empty string connects directly again."""
    submodules: bool | None = None
    """True fetches submodules, too. Default: false."""
    https_path: str | None = None
    """URL of the repository for browsers: `https://…` or `http://…`. Stored only."""
    url_format: str | None = None
    """Template of links to files for browsers: `https://…`, `http://…` or `{url}…`. Stored only."""

    def links(self) -> dict[str, str | None]:
        """The given settings for links to the repository's web pages; an empty text removes one."""
        links = {"https_path": self.https_path, "url_format": self.url_format}
        if self.https_path:
            check_link(self.https_path, "httpsPath")
        if self.url_format:
            check_link(self.url_format, "urlFormat", (*LINKS, "{url}"))
        return {name: text or None for name, text in links.items() if text is not None}


@retry_operations
class RepositoryOperations:
    """Operations on repositories; tells the git cache which refs to follow.

    Each call is for one kind; repositories of another kind are not found.
    """

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._followed: dict[str, frozenset[str]] = {}

    async def page(
        self, actor: Actor, query: PageQuery, kind: RepositoryKind = RepositoryKind.GIT
    ) -> Page[Repository]:
        async with self._context.read(actor) as tx:
            visible = actor.policy.visible(ResourceKind.REPOSITORY)
            query = replace(query, equals={**query.equals, "kind": kind}, visible=visible)
            page = await tx[RepositoryStore].page(query)
        items = (with_last_poll(self._context, repository) for repository in page.items)
        return replace(page, items=tuple(items))

    async def get(
        self,
        actor: Actor,
        id: str | None,
        url: str | None = None,
        kind: RepositoryKind = RepositoryKind.GIT,
    ) -> Repository:
        """Finds a repository by id, or else by URL. NotFound: it does not exist."""
        async with self._context.read(actor) as tx:
            repository = await tx[RepositoryStore].get(id) if id else None
            if repository is None and url:
                repository = await tx[RepositoryStore].by_url(url)
        if repository is None or repository.kind is not kind:
            raise NotFound(kind=ResourceKind.REPOSITORY)
        require(actor, Verb.READ, repository.target)
        return with_last_poll(self._context, repository)

    async def create(
        self, actor: Actor, change: RepositoryChange, kind: RepositoryKind = RepositoryKind.GIT
    ) -> Repository:
        now = self._context.clock.now()
        new = Repository(RepositoryId(self._context.new_id()), "", now, now, kind=kind)
        async with self._context.change(actor, f"create{_NAMES[kind]}") as tx:
            project = await project_for(tx, ResourceKind.REPOSITORY, change.project_id)
            await _check_via(tx, actor, change)
            repository = self._with_changes(replace(new, project_id=project), change)
            if (existing := await tx[RepositoryStore].by_url(repository.url)) is not None:
                raise _url_conflict(actor, existing)
            await tx[RepositoryStore].add(repository)
            tx.audit(repository.url, repository.id)
        after_commit(partial(self.follow, repository, FollowedFiles()))
        return repository

    async def update(
        self,
        actor: Actor,
        id: str,
        change: RepositoryChange,
        kind: RepositoryKind = RepositoryKind.GIT,
    ) -> Repository:
        async with self._context.change(actor, f"update{_NAMES[kind]}") as tx:
            before = await find_repository(tx, id, kind)
            tx.authorize(Verb.WRITE, before.target)
            check_not_moved(f"repository {before.url}", before.project_id, change.project_id)
            await _check_via(tx, actor, change)
            after = self._with_changes(before, change)
            if _origin_fields(after) != _origin_fields(before):
                now = self._context.clock.now()
                await tx[RepositoryUsers].check_change(actor, id, now)
            await tx[RepositoryStore].put(after)
            files = await tx[RepositoryUsers].followed(id)
            tx.audit(after.url, id)
        after_commit(partial(self.follow, after, files.get(id, FollowedFiles())))
        return after

    async def delete(
        self, actor: Actor, id: str, kind: RepositoryKind = RepositoryKind.GIT
    ) -> Repository:
        """Deletes a repository. Conflict: services or configuration sources still use it."""
        async with self._context.change(actor, f"delete{_NAMES[kind]}") as tx:
            repository = await find_repository(tx, id, kind)
            tx.authorize(Verb.WRITE, repository.target)
            if users := await tx[RepositoryUsers].service_names(id):
                names = ", ".join(sorted(users)[:5])
                use, are = ("service uses", "is") if len(users) == 1 else ("services use", "are")
                raise Conflict(
                    f"{len(users)} {use} this repository or {are} still being deleted: {names}"
                )
            if sources := await tx[RepositoryUsers].followers(id):
                names = ", ".join(sorted(sources)[:5])
                raise Conflict(f"configuration sources follow this repository: {names}")
            await tx[RepositoryStore].remove(id)
            tx.audit(repository.url, id)
        after_commit(partial(self._context.manifests.forget, repository.id))
        return repository

    async def sync(
        self, actor: Actor, id: str, kind: RepositoryKind = RepositoryKind.GIT
    ) -> Repository:
        """Fetches new commits, chart versions or artifacts now."""
        async with self._context.change(actor, f"sync{_NAMES[kind]}") as tx:
            repository = await find_repository(tx, id, kind)
            tx.authorize(Verb.WRITE, repository.target)
            tx.audit(repository.url, id)
        await self._context.manifests.request_poll(repository.id)
        self._context.bus.publish(RENDER_SERVICES, f"{id}/")
        return repository

    def secrets_of(self, repository: Repository) -> Columns:
        """Returns the plain secrets of a repository: the caller must drop them."""
        secret = self._webhook_secret(repository)
        return {**self._stored_credentials(repository), "webhook_secret": secret}

    async def webhook_secret(self, id: str) -> str | None:
        """The signing secret of this repository's webhooks; None if it has none."""
        async with self._context.store.read() as tx:
            repository = await tx[RepositoryStore].get(id)
        return None if repository is None else self._webhook_secret(repository)

    async def record_push(
        self, repository_id: str, name: str, email: str, commits: Collection[str]
    ) -> None:
        """Records the account that pushed commits, after its webhook's signature was verified."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            if (repository := await tx[RepositoryStore].get(repository_id)) is None:
                return
            store = tx[PushStore]
            await store.remove_before("inserted_at", now - _PUSH_RETENTION)
            pushes = [Push.of(repository.id, commit, name, email, now) for commit in commits]
            stored_ids = {push.id for push in await store.by_ids([push.id for push in pushes])}
            await store.add_each(push for push in pushes if push.id not in stored_ids)

    async def account_for(self, project_id: str, image: str) -> RegistryAccount | None:
        """Credentials for a container registry, from the project's repository whose URL matches the
        image.

        A registry is added like any repository, by its https URL. Of those with a password, the
        longest matching URL wins, as in the git cache.
        """
        async with self._context.store.read() as tx:
            rows = {row.id: row for row in await tx[RepositoryStore].of_project(project_id)}
        urls = {row.id: row.url for row in rows.values()}
        matching = covering_repositories(f"oci://{image}", urls)
        accounts = (account_of(self._decrypted_credentials(rows[id])) for id in matching)
        return next((account for account in accounts if account is not None), None)

    async def check_key(self) -> None:
        """Decrypts every secret once, so that a wrong key is detected at start.

        TowlineError: a secret was encrypted with another key.
        """
        async with self._context.store.read() as tx:
            repositories = await tx[RepositoryStore].all()
        for repository in repositories:
            self._decrypted_credentials(repository)
            self._webhook_secret(repository)

    async def follow_all(self) -> None:
        """Tells the git cache at start about all repositories and the refs in use."""
        async with self._context.store.read() as tx:
            repositories = await tx[RepositoryStore].all()
            files = await tx[RepositoryUsers].followed()
        for repository in repositories:
            self.follow(repository, files.get(repository.id, FollowedFiles()))

    async def ensure_followed(self, repository_id: str, service_id: str) -> None:
        """Ensures that the git cache follows the ref of a service."""
        async with self._context.store.read() as tx:
            ref = await tx[RepositoryUsers].followed_ref(service_id)
        if ref not in self._followed.get(repository_id, ()):
            await self.update_followed_refs(repository_id)

    async def update_followed_refs(self, repository_id: str) -> None:
        """Tells the git cache about the refs of a repository that are in use now."""
        async with self._context.store.read() as tx:
            repository = await tx[RepositoryStore].get(repository_id)
            files = await tx[RepositoryUsers].followed(repository_id)
        if repository is not None:
            self.follow(repository, files.get(repository_id, FollowedFiles()))

    def follow(self, repository: Repository, files: FollowedFiles) -> None:
        """Tells the git cache about a repository, with the refs and folders that services use."""
        self._followed[repository.id] = files.refs
        self._context.manifests.follow(
            RepositorySpec(
                repository.id,
                repository.url,
                files.refs,
                self._decrypted_credentials(repository),
                via=repository.via,
                submodules=repository.submodules,
                project=repository.project_id,
                folders=files.folders,
                kind=repository.kind,
            )
        )

    async def store_state(self, state: RepositoryState) -> None:
        """Stores the git cache's state of a repository."""
        async with self._context.store.write() as tx:
            await tx[RepositoryStore].change(
                state.repository_id,
                health=_git_health(state),
                error=state.error,
                commits=dict(state.commits),
                polled_at=state.polled_at if _is_polled(state) else None,
                fetched_at=state.fetched_at,
                size=state.size,
                owner=state.owner,
            )

    async def store_polls(self) -> None:
        """Stores the last poll of each repository; writes nothing if it did not change."""
        async with self._context.store.read() as tx:
            stored = await tx[RepositoryStore].all()
        polled = [
            latest
            for repository in stored
            if (latest := with_last_poll(self._context, repository)) != repository
        ]
        if polled:
            async with self._context.store.write() as tx:
                for repository in polled:
                    await tx[RepositoryStore].set_polled(repository.id, repository.polled_at)

    def _with_changes(self, before: Repository, change: RepositoryChange) -> Repository:
        after = replace(before, **change.links(), updated_at=self._context.clock.now())
        if change.url is not None or not before.url:
            url = check_url(change.url or "", before.kind)
            after = replace(after, url=url)
            if before.url and origin_of(before.url, before.kind) != origin_of(url, before.kind):
                # Credentials for one server must not be sent to another.
                after = replace(after, sealed=None, auth_method=None)
        if change.submodules is not None:
            after = replace(after, submodules=change.submodules)
        if change.via is not None:
            after = replace(after, via=ClusterId(change.via) if change.via else None)
        after = self._with_credentials(
            after, change.credentials, other_route=after.via != before.via
        )
        if change.webhook_secret:
            sealed = self._context.sealer.seal(
                change.webhook_secret.encode(), f"webhook:{after.id}"
            )
            after = replace(after, sealed_webhook=sealed)
        return after

    def _with_credentials(
        self, repository: Repository, change: GitCredentials, *, other_route: bool
    ) -> Repository:
        before = self._stored_credentials(repository)
        after = merge_credentials(before, change, other_route=other_route)
        if after == before:
            return repository
        sealed = self._context.sealer.seal(orjson.dumps(after), f"repository:{repository.id}")
        return replace(
            repository, sealed=sealed if after else None, auth_method=auth_method_of(after)
        )

    def _webhook_secret(self, repository: Repository) -> str | None:
        sealed = repository.sealed_webhook
        if sealed is None:
            return None
        return self._context.sealer.open(sealed, f"webhook:{repository.id}").decode()

    def _decrypted_credentials(self, repository: Repository) -> GitCredentials | None:
        stored = self._stored_credentials(repository)
        return GitCredentials(**stored) if stored else None

    def _stored_credentials(self, repository: Repository) -> dict[str, str]:
        if repository.sealed is None:
            return {}
        plain = self._context.sealer.open(repository.sealed, f"repository:{repository.id}")
        return orjson.loads(plain)


def _url_conflict(actor: Actor, existing: Repository) -> Conflict:
    """A URL names one repository of any kind, because references have no kind."""
    is_readable = actor.may(Verb.READ, existing.target)
    noun = _NOUNS[existing.kind] if is_readable else "repository"
    return name_conflict(actor, existing, f"a {noun} with the URL {existing.url} already exists")


def with_last_poll(context: OperationContext, stored: Repository) -> Repository:
    """The repository with the last poll that this process knows, and the commits that it found."""
    state = context.manifests.state(stored.id)
    if state is None or not _is_polled(state):
        return stored
    if stored.polled_at is not None and state.polled_at <= stored.polled_at:
        return stored
    return replace(stored, polled_at=state.polled_at, commits=dict(state.commits))


def _git_health(state: RepositoryState) -> GitHealth | None:
    """Health of a repository; None before the first answer of its server."""
    if state.error:
        return GitHealth.FAILED
    return GitHealth.PULLABLE if _is_polled(state) else None


def _is_polled(state: RepositoryState) -> bool:
    """True if the git cache has asked the server."""
    return bool(state.error or state.reached or state.commits or state.missing)


def _origin_fields(repository: Repository) -> tuple[object, ...]:
    """Returns the fields that tell from which server files come."""
    return repository.url, repository.sealed, repository.via, repository.submodules


async def _check_via(tx: Transaction, actor: Actor, change: RepositoryChange) -> None:
    """NotFound: no such cluster. Forbidden: the actor may not use the cluster's network."""
    if change.via:
        with reference("viaClusterId", change.via):
            await tx[RepositoryUsers].check_network(actor, change.via)


async def find_repository(
    tx: Transaction, id: str, kind: RepositoryKind | None = None
) -> Repository:
    """The repository with this id. NotFound: it does not exist, or has another kind."""
    repository = await tx[RepositoryStore].get(id)
    if repository is None or kind not in (None, repository.kind):
        raise NotFound(kind=ResourceKind.REPOSITORY)
    return repository
