"""Commits that the render tier signs: those of the branches and tags that its settings list."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from core.errors import Invalid
from core.runtime.clock import Clock
from core.runtime.single_flight import SingleFlight
from core.runtime.ttl_cache import TTLCache
from core.spec.source import RepositoryKind, RepositorySpec
from gitcache.domain import refs
from gitcache.ports import CommitHistory, RefLister
from gitcache.render.plan import PlanPart
from gitcache.render.provenance import source_url
from gitcache.render.signing import SigningSources

_RECENT_SECONDS = 600.0
_REFUSED_SECONDS = 30.0
_MAX_CACHED = 20_000
_MAX_TIPS = 64


class _Question(NamedTuple):
    """A commit, and the patterns of branches and tags of which it must be part."""

    url: str
    commit: str
    patterns: tuple[str, ...]


class SignedRefs:
    """Checks that commits are part of listed branches or tags of their server.

    Implements `RefLister` in front of another one, because the tips that it lists need no further
    request. A branch may move between the poll and the render, so tips of the last 10 minutes
    count too. For other commits, the server sends the history of the branches, without files.
    """

    def __init__(
        self, sources: SigningSources, lister: RefLister, history: CommitHistory, clock: Clock
    ) -> None:
        self._sources, self._lister, self._history = sources, lister, history
        self._clock = clock
        self._tips: OrderedDict[tuple[str, str], dict[str, float]] = OrderedDict()
        self._answers: TTLCache[_Question, bool] = TTLCache(clock, _RECENT_SECONDS, _MAX_CACHED)
        self._flights: SingleFlight[_Question, bool] = SingleFlight()

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`."""
        listed = await self._lister.list_refs(spec, prefixes)
        if self._sources.has_refs:
            now = self._clock.monotonic()
            for ref, commit in listed.items():
                self._tips.setdefault((spec.url, commit), {})[ref] = now
                self._tips.move_to_end((spec.url, commit))
            while len(self._tips) > _MAX_CACHED:
                self._tips.popitem(last=False)
        return listed

    async def check(self, parts: Iterable[PlanPart]) -> None:
        """Raises Invalid for a commit of no listed branch or tag, and for a repository whose
        settings name the keys of its server: they could be those of another server. Unavailable:
        the server does not tell.
        """
        questions = {
            _Question(part.spec.url, part.commit, patterns): part.spec
            for part in parts
            if part.spec.kind.has_folders
            and (patterns := self._sources.required_refs(source_url(part.spec), part.path))
        }
        for question, spec in questions.items():
            if spec.credentials and (spec.credentials.authority or spec.credentials.known_hosts):
                raise Invalid(
                    f"the render tier does not sign commits of {spec.url}: the repository names "
                    "the CA or the host keys of its server; set git.fetch.authority or "
                    "git.fetch.known_hosts of the render tier instead"
                )
            if not (self._was_tip(question) or await self._is_in_refs(question, spec)):
                raise Invalid(
                    f"the render tier does not sign commit {question.commit[:12]} of {spec.url}: "
                    f"it is not part of {', '.join(question.patterns)}, as its own settings "
                    "(git.signing.sources) require"
                )

    def _was_tip(self, question: _Question) -> bool:
        """True for a commit to which a listed branch or tag pointed recently."""
        tips = self._tips.get((question.url, question.commit), {})
        oldest = self._clock.monotonic() - _RECENT_SECONDS
        return any(
            listed_at >= oldest and refs.matches_any(question.patterns, ref)
            for ref, listed_at in tips.items()
        )

    async def _is_in_refs(self, question: _Question, spec: RepositorySpec) -> bool:
        if (answer := self._answers.get(question)) is not None:
            return answer
        return await self._flights.once(question, partial(self._query_server, question, spec))

    async def _query_server(self, question: _Question, spec: RepositorySpec) -> bool:
        prefixes = [
            argument
            for pattern in question.patterns
            for argument in refs.listing_arguments(pattern)
        ]
        listed = await self.list_refs(spec, prefixes)
        answer = self._was_tip(question)
        # A commit of an artifact has no history: only tips count.
        if not answer and spec.kind is RepositoryKind.GIT:
            matching = [
                sha for ref, sha in listed.items() if refs.matches_any(question.patterns, ref)
            ]
            tips = list(dict.fromkeys(matching))[:_MAX_TIPS]
            answer = bool(tips) and await self._history.contains(spec, question.commit, tips)
        refused_until = self._clock.monotonic() + _REFUSED_SECONDS
        self._answers.put(question, answer, inf if answer else refused_until)
        return answer
