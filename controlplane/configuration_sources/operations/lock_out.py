"""Refuses commits after which their source could not repair the installation any more."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.access.model.users import User
from controlplane.access.operations.scopes import grants_of, scope_target
from controlplane.access.ports import UserStore
from controlplane.authorization import Grant, Policy
from controlplane.configuration_sources.model.drift import changes_of, plan_digest
from controlplane.configuration_sources.model.source import ConfigurationSource
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.manifests.model.documents import DocumentProblem
from controlplane.manifests.model.ownership import source_of
from controlplane.manifests.model.plan import ManifestAction, ManifestEffect
from controlplane.manifests.ports import DeclaredResourceStore
from controlplane.platform.ports import Transaction
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from core.errors import Code, NotFound

_KIND = "ConfigurationSource"
_OWN_SETTINGS = ("repository_id", "ref", "folder", "service_account_id")
_RIGHTS = frozenset({"Role", "Group", "Project", "Cluster", "Service", "Pipeline"})
_PATHS = ("spec.bindings", "spec.rules", "spec.members", "spec.kubernetes")


@dataclass(slots=True)
class LockOutGuard:
    """Implements `ApplyGuard` for one apply of a source.

    With `approved`, only the plan with this digest is carried out.
    """

    source: ConfigurationSource
    repository: Repository
    account: User
    now: datetime
    sha: str
    approved: str = ""
    _grants: Sequence[Grant] = field(default=(), init=False)

    async def begin(self, tx: Transaction) -> None:
        self._grants = await grants_of(tx, self.account, self.now)

    async def problems(
        self, tx: Transaction, items: Sequence[ManifestEffect], deleted: Collection[str]
    ) -> Sequence[DocumentProblem]:
        problems = [
            *await self._source_problems(tx, items),
            *await self._repository_problems(tx, items),
            *await self._account_problems(tx, items, deleted),
            *await self._loop_problems(tx, items),
        ]
        if self.approved and plan_digest(self.sha, changes_of(items)) != self.approved:
            text = "the plan changed since its approval: approve the present one"
            problems.append(DocumentProblem(text, document=self.source.title, code=Code.CONFLICT))
        return problems

    async def _source_problems(
        self, tx: Transaction, items: Sequence[ManifestEffect]
    ) -> list[DocumentProblem]:
        item = _first_matching(
            items, lambda item: (item.kind, item.name) == (_KIND, self.source.name)
        )
        after = await tx[ConfigurationSourceStore].get(self.source.id)
        if after is None:
            return [self._lock_out_problem("delete the configuration source itself", item)]
        if after.settings.suspended:
            return [self._lock_out_problem("suspend the configuration source itself", item)]
        return [
            self._lock_out_problem(
                f"change the field {name.removesuffix('_id')} of its own source", item
            )
            for name in _OWN_SETTINGS
            if getattr(after.settings, name) != getattr(self.source.settings, name)
        ]

    async def _repository_problems(
        self, tx: Transaction, items: Sequence[ManifestEffect]
    ) -> list[DocumentProblem]:
        before, after = self.repository, await tx[RepositoryStore].get(self.repository.id)
        item = _first_matching(items, lambda item: item.name == before.url)
        if after is None:
            return [self._lock_out_problem("delete its own repository", item)]
        if after.sealed != before.sealed:
            return [self._lock_out_problem("change the credentials of its own repository", item)]
        if (after.url, after.via) != (before.url, before.via):
            return [self._lock_out_problem("change the route to its own repository", item)]
        return []

    async def _account_problems(
        self, tx: Transaction, items: Sequence[ManifestEffect], deleted: Collection[str]
    ) -> list[DocumentProblem]:
        account = await tx[UserStore].get(self.account.id)
        item = _first_matching(items, lambda item: item.name == self.account.email)
        if account is None or account.disabled_at is not None:
            return [self._lock_out_problem("disable its own service account", item)]
        # A permanent role that gets an end is lost, too.
        after = Policy(await grants_of(tx, account, self.now)).lasting(None)
        for grant in self._grants:
            _, _, id = grant.scope.partition(":")
            if id in deleted or grant.expires_at is not None:
                continue
            try:
                target = await scope_target(tx, grant.scope)
            except NotFound:
                continue
            if not after.covers(grant.role, target):
                cause = _first_matching(items, _changes_rights)
                text = f"take role {grant.role.name} in {grant.scope} from its service account"
                return [self._lock_out_problem(text, cause)]
        return []

    async def _loop_problems(
        self, tx: Transaction, items: Iterable[ManifestEffect]
    ) -> list[DocumentProblem]:
        """Refuses to manage a source that manages this one, directly or through others."""
        ancestors = await _ancestors(tx, self.source)
        return [
            self._problem(f"configuration sources manage each other: {ancestors[item.name]}", item)
            for item in items
            if item.kind == _KIND and item.name in ancestors
        ]

    def _lock_out_problem(self, effect: str, item: ManifestEffect | None) -> DocumentProblem:
        text = (
            f"the commit would {effect}, and lock the source out of its own repair: change this "
            "with the command line or the console"
        )
        return self._problem(text, item)

    def _problem(self, text: str, item: ManifestEffect | None) -> DocumentProblem:
        title = self.source.title if item is None else f"{item.kind} {item.name}"
        file, line = (item.file, item.line) if item else ("", 0)
        return DocumentProblem(text, file, line, title, code=Code.CONFLICT.value)


async def _ancestors(tx: Transaction, source: ConfigurationSource) -> dict[str, str]:
    """Returns the sources that manage a source, each with the way to it; not the source itself."""
    paths: dict[str, str] = {}
    queue = [(source, source.name)]
    while queue:
        child, path = queue.pop()
        row = await tx[DeclaredResourceStore].get(child.id)
        names = {source_of(manager) for manager in row.managers} if row else set()
        for name in sorted(names - {"", source.name} - paths.keys()):
            paths[name] = f"{name} → {path} → {name}"
            if (parent := await tx[ConfigurationSourceStore].by_name(name)) is not None:
                queue.append((parent, f"{name} → {path}"))
    return paths


def _changes_rights(item: ManifestEffect) -> bool:
    if item.action is ManifestAction.UNCHANGED:
        return False
    if item.kind == "RoleBinding":
        return True
    is_changed = any(change.path.startswith(_PATHS) for change in item.changes)
    return item.kind in _RIGHTS and (item.action is ManifestAction.DELETE or is_changed)


def _first_matching(
    items: Iterable[ManifestEffect], matches: Callable[[ManifestEffect], bool]
) -> ManifestEffect | None:
    return next((item for item in items if matches(item)), None)
