"""Where did we say that? Everything that was said, called, answered and planned, in every session.

    search(index, 'retry "exponential backoff" tool:Bash since:7d', now=…, zone=…)

A hit is one text of one record, and names the log and the offset where the record stands. The best
come first: those that say most of what was asked, of a kind that people see, and recent; a hit's
worth halves every thirty days, but for a fifth that it keeps. Only the newest thousand matches are
weighed against each other; older ones follow, a thousand at a time. Sorted by time
alone nothing is weighed, and the search stops as soon as the page is full.

What tools answered is searched only if asked for. A text that is gone from its log is no hit; how
many there were is told in a note. Any text is a query.

The newest texts that a tree asks for, one after the other.

SQLite finds the newest text with a word at once. But before it knows the newest one with a word
that begins so, it puts together the lists of all such words, however few are asked for. If these
are long, most texts have such a word, and a glance at the newest texts themselves is many times as
fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import datetime, tzinfo
from heapq import merge
from itertools import islice
from typing import Any as Anything
from typing import Final

from msgspec import Struct, structs

from turnlog.errors import UsageError
from turnlog.formats.projects import expand_path
from turnlog.index.connection import Index
from turnlog.index.ids import SECOND_BITS
from turnlog.index.texts import WEIGHTS
from turnlog.search import patterns
from turnlog.search.budget import TOOK_TOO_LONG, TimeBudget
from turnlog.search.filters import Table, tables_for
from turnlog.search.hits import Hit, HitFacts, HitView, read_hit
from turnlog.search.language import (
    FieldFilter,
    Node,
    SearchQuery,
    filters_of,
    is_only_filters,
    parse,
)
from turnlog.search.match import (
    Tokenizer,
    conjuncts,
    joined,
    meets,
    names_session,
    positive_leaves,
    wants_answers,
    wordless,
)
from turnlog.search.patterns import ScanMatch
from turnlog.search.scan import ScanScope, scan
from turnlog.search.snippets import WIDTH, first_place
from turnlog.search.sql import Renderer, SearchStatement
from turnlog.search.suggestions import Nearness, begun, of_another_time, undated

Row = tuple[Anything, ...]

_MANY_PAGES: Final = 100
"""Lists as long as that take longer than a glance."""
_FEW_FILTERS: Final = 20
_MOST_TEXTS: Final = 200
_MOST_READ: Final = 100
# If so many texts were read in vain, and four more for each that was not, the others are no better.
_IN_VAIN: Final = 20
_DECIDED: Final = SearchStatement("", [], (), needs_check=False, is_ranked=False)


def newest_rows(
    known: HitFacts, renderer: Renderer, tokenizer: Tokenizer, tree: Node | None, table: Table
) -> Iterator[tuple[Row, SearchStatement]]:
    """Return the rows of *table* that *tree* asks for, newest first, and the plan of each."""
    last = None
    if renderer.pages(tree, table) >= _MANY_PAGES and len(filters_of(tree)) <= _FEW_FILTERS:
        last = yield from _seen(known, renderer, tokenizer, tree, table)
    yield from rows_of(known.index, renderer.plan(tree, table, ranked=False, last=last))


def rows_of(index: Index, plan: SearchStatement) -> Iterator[tuple[Row, SearchStatement]]:
    """Return the rows of *plan*, as SQLite finds them."""
    return ((row, plan) for row in index.db.execute(plan.sql, plan.values))


def merged(
    streams: list[Iterator[tuple[Row, SearchStatement]]],
) -> Iterator[tuple[Row, SearchStatement]]:
    """Return the rows of several tables in one order, newest first."""
    return streams[0] if len(streams) == 1 else merge(*streams, key=lambda each: -int(each[0][0]))


def _seen(
    known: HitFacts, renderer: Renderer, tokenizer: Tokenizer, tree: Node | None, table: Table
) -> Generator[tuple[Row, SearchStatement], None, int | None]:
    """Look through the newest texts; give the last id of which nothing is known yet."""
    plan = renderer.newest(tree, table, _MOST_TEXTS)
    last = None
    read = found = 0
    for row in known.index.db.execute(plan.sql, plan.values):
        if row[6]:
            text = known.text(row[1], row[2])
            if text is None:  # Whether it was one of those that are sought, the words tell.
                return int(row[0])
            read += 1
            truths = dict(zip(plan.filters, map(bool, row[7:]), strict=True))
            if meets(tree, text.text, truths, tokenizer):
                found += 1
                yield row[:6], _DECIDED
        last = int(row[0]) - 1
        if read >= min(_MOST_READ, _IN_VAIN + 5 * found):
            break
    return last


_ALL: Final = 1_000_000
RANKED_AT_ONCE: Final = 1_000
"""So many of the newest matches are weighed against each other."""
PER_SESSION: Final = 3
_HALF_LIFE_SECONDS: Final = 30 * 86_400
_KEPT: Final = 0.2
"""What age never takes away."""
_UNWEIGHED: Final = 0.5
_WEIGHTS: Final = {int(kind): weight for kind, weight in WEIGHTS.items()}


class SearchDocument(Struct, kw_only=True):
    """What `turnlog search --json` prints."""

    hits: list[Hit]
    next: int | None
    """The offset of the next page, or null."""
    notes: list[str]


class Wanted(Struct, frozen=True, kw_only=True):
    """Which of what was found is shown, and how."""

    newest: bool = False
    limit: int = 20
    offset: int = 0
    per_session: int = 0
    context: int = 0
    width: int = WIDTH
    mask: Callable[[str], str] | None = None


def search(
    index: Index,
    asked: str | SearchQuery,
    *,
    now: datetime,
    zone: tzinfo,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    session: str | None = None,
    with_results: bool = False,
    newest: bool = False,
    exact: bool = False,
    regex: bool = False,
    limit: int = 20,
    offset: int = 0,
    context: int = 0,
    per_session: int | None = None,
    width: int | None = None,
    mask: Callable[[str], str] | None = None,
) -> SearchDocument:
    """Search *index* for what is *asked* in the search language.

    With *exact* the whole text is a piece of text, with *regex* a regular expression, and
    neither has filters. *project* is a directory, *session* the beginning of an id; *per_session*
    bounds the hits of one session (0: not at all; unless told, three, but none where one session or
    the order of time was asked for). What is shown of a text goes through *mask* first.
    """
    if exact and regex:
        raise UsageError("exact and regex cannot both be", hint="a pattern may quote: \\. \\( \\[")
    if limit < 0 or offset < 0 or context < 0:
        raise UsageError("limit, offset and context are counts", hint="give 0 or more")
    bounds: list[Node] = []
    if project is not None:
        bounds.append(FieldFilter("project", expand_path(project)))
    if since is not None:
        bounds.append(FieldFilter("since", "", since))
    if until is not None:
        bounds.append(FieldFilter("before", "", until))
    if session is not None:
        bounds.append(FieldFilter("session", session))
    wanted = Wanted(
        limit=limit or _ALL,
        offset=offset,
        context=context,
        width=WIDTH if width is None else width,
        mask=mask,
    )
    searching = _Searching(index, now.astimezone(zone))
    if isinstance(asked, str) and (exact or regex):
        if not asked.strip():
            raise UsageError("there is nothing to look for", hint="give a piece of text")
        made = patterns.pattern(asked) if regex else patterns.piece(asked)
        wanted = structs.replace(wanted, newest=True, per_session=per_session or 0)
        return searching.matching(made, bounds, wanted, with_results=with_results)
    query = parse(asked, now=now, zone=zone) if isinstance(asked, str) else asked
    searching.notes += query.notes
    tree = joined([*conjuncts(query.tree), *bounds])
    by_time = newest or tree is None or is_only_filters(tree)
    if per_session is None:
        per_session = 0 if by_time or session or names_session(tree) else PER_SESSION
    wanted = structs.replace(wanted, newest=by_time, per_session=per_session)
    return searching.words(tree, wanted, with_results=with_results or wants_answers(tree))


class _Searching:
    """One search: what it knows, and what it has to say beside its hits."""

    def __init__(self, index: Index, now: datetime) -> None:
        self.notes: list[str] = []
        self._index = index
        self._known = HitFacts(index)
        self._now, self._zone = now.timestamp(), now.tzinfo
        self._patience = TimeBudget()
        self._tokenizer = Tokenizer()
        self._renderer = Renderer(index.db, self._tokenizer, is_masked=index.is_masked)
        self._totals: Counter[int | None] | None = None
        """How many hits each session has, where all of them were weighed together."""
        self._is_empty = True

    def words(self, tree: Node | None, wanted: Wanted, *, with_results: bool) -> SearchDocument:
        """Find what *tree* asks for; if nothing does, what comes near."""
        document = self._words(tree, wanted, with_results=with_results)
        if self._is_empty:
            nearness = Nearness(self._index.db, self._tokenizer, tables_for(results=with_results))
            # Which words others said must not be asked out by one who may not see all of it.
            is_open = wanted.mask is None
            for near in nearness.near_to(tree) if is_open else begun(tree):
                document = self._words(near.tree, wanted, with_results=with_results)
                if not self._is_empty:
                    self.notes.append(near.note)
                    return self._told(document)
            if is_open:
                self.notes += nearness.notes_on(tree)
                self.notes += self._renderer.filters.notes_on(conjuncts(tree))
                rest = undated(tree)
                self.notes += self._notes_on_time(rest, wanted, with_results=with_results)
        return self._told(document)

    def matching(
        self,
        pattern: patterns.ScanPattern,
        bounds: list[Node],
        wanted: Wanted,
        *,
        with_results: bool,
    ) -> SearchDocument:
        """Find what *pattern* describes, newest first."""

        def accepts(text: str) -> bool:
            return pattern.finds(text, self._patience)

        words = pattern.words
        if words:
            tree = joined([*words, *bounds])
            found = self._found(tree, wanted, with_results=with_results, accepts=accepts)
        else:
            within = ScanScope.between(
                bounds, self._renderer.filters.ids, with_results=with_results
            )
            found = scan(
                self._index,
                pattern.needles,
                accepts,
                within,
                self._patience,
                ignores_case=pattern.ignores_case,
            )

        def spans(text: str) -> list[tuple[int, int]]:
            return pattern.spans(text, self._patience)

        def near(text: str) -> int | None:
            return pattern.place(text, self._patience)

        look = HitView(spans, near, wanted.width, wanted.context, wanted.mask)
        return self._told(self._page(found, wanted, look))

    def _words(self, tree: Node | None, wanted: Wanted, *, with_results: bool) -> SearchDocument:
        leaves = list(positive_leaves(tree))
        needle = wordless(tree, self._tokenizer)
        if needle is None:
            found = self._found(tree, wanted, with_results=with_results)
        else:
            filters = [each for each in conjuncts(tree) if isinstance(each, FieldFilter)]
            texts = joined([each for each in conjuncts(tree) if not isinstance(each, FieldFilter)])
            found = scan(
                self._index,
                patterns.needles_of(needle, ignores_case=False) or patterns.EVERY_RECORD,
                lambda text: meets(texts, text, {}, self._tokenizer),
                ScanScope.between(filters, self._renderer.filters.ids, with_results=with_results),
                self._patience,
            )
        phrases = sorted(filter(None, {self._tokenizer.terms(leaf.text) for leaf in leaves}))
        look = HitView(
            self._tokenizer.marker(leaves),
            lambda text: first_place(text, phrases),
            wanted.width,
            wanted.context,
            wanted.mask,
        )
        return self._page(found, wanted, look)

    def _notes_on_time(
        self, tree: Node | None, wanted: Wanted, *, with_results: bool
    ) -> Iterator[str]:
        """Return whether texts of another time have what was asked; *tree* is bound to none."""
        if tree is None or wordless(tree, self._tokenizer) is not None:
            return
        first = structs.replace(wanted, newest=True, limit=1, offset=0, context=0, per_session=0)
        here, self._patience = self._patience, TimeBudget()  # What it leaves out is not missed.
        found = self._words(tree, first, with_results=with_results).hits
        self._patience = here
        if found:
            yield of_another_time(found[0].at, self._zone)

    def _found(
        self,
        tree: Node | None,
        wanted: Wanted,
        *,
        with_results: bool,
        accepts: Callable[[str], bool] | None = None,
    ) -> Iterator[ScanMatch]:
        """Return what *tree* asks for, in the order that is *wanted*."""
        tables = tables_for(results=with_results)
        self._totals = None
        if wanted.newest:
            asked = self._known, self._renderer, self._tokenizer, tree
            rows = merged([newest_rows(*asked, table) for table in tables])
            yield from self._checked(((self._worth(*each), *each) for each in rows), tree, accepts)
            return
        plans = [self._renderer.plan(tree, table, ranked=True) for table in tables]
        rows = merged([rows_of(self._index, plan) for plan in plans])
        is_checked = accepts is not None or any(plan.needs_check for plan in plans)
        is_first = True
        while batch := list(islice(rows, RANKED_AT_ONCE)):
            if is_first and not is_checked and len(batch) < RANKED_AT_ONCE:
                self._totals = Counter(row[4] for row, _ in batch)
            is_first = False
            yield from self._checked(self._weighed(batch), tree, accepts)
            if self._patience.ends():  # Where one session has it all, nothing else is left to find.
                return

    def _weighed(
        self, batch: list[tuple[Row, SearchStatement]]
    ) -> list[tuple[float, Row, SearchStatement]]:
        best = min((row[5] for row, plan in batch if plan.is_ranked), default=0.0)
        weighed = []
        for row, plan in batch:
            says = row[5] / best if plan.is_ranked and best < 0 else _UNWEIGHED
            weighed.append((self._worth(row, plan) * (0.25 + 0.75 * says), row, plan))
        weighed.sort(key=lambda each: (each[0], each[1][0]), reverse=True)
        return weighed

    def _worth(self, row: Row, _plan: SearchStatement) -> float:
        """Weigh a text by its kind and its age."""
        age = max(0.0, self._now - (row[0] >> SECOND_BITS))
        recent = _KEPT + (1 - _KEPT) * 0.5 ** (age / _HALF_LIFE_SECONDS)
        return float(_WEIGHTS[row[3]] * recent)

    def _checked(
        self,
        rows: Iterable[tuple[float, Row, SearchStatement]],
        tree: Node | None,
        accepts: Callable[[str], bool] | None,
    ) -> Iterator[ScanMatch]:
        """Leave out what the index could not decide and the text decides against."""
        for score, row, plan in rows:
            found = ScanMatch(row[1], row[2], row[3], row[4], score)
            if accepts is None and not plan.needs_check:
                yield found
                continue
            if self._patience.ends():
                return
            text = self._known.text(found.record, found.part)
            if text is None:
                self._patience.lost.add(found.record)
                continue
            truths = {each: bool(truth) for each, truth in zip(plan.filters, row[6:], strict=True)}
            if plan.needs_check and not meets(tree, text.text, truths, self._tokenizer):
                continue
            if accepts is None or accepts(text.text):
                yield found

    def _page(self, found: Iterable[ScanMatch], wanted: Wanted, look: HitView) -> SearchDocument:
        """Cut out the page that is *wanted*, and read its texts."""
        hits: list[Hit] = []
        taken: Counter[int | None] = Counter()
        shown: list[int | None] = []
        following = None
        number = 0
        self._is_empty = True
        for each in self._looked_up(iter(found), wanted, hits):
            self._is_empty = False
            if wanted.per_session and taken[each.session] >= wanted.per_session:
                continue
            if number >= wanted.offset:
                if len(hits) >= wanted.limit:
                    following = number
                    break
                hit = read_hit(self._known, each, look)
                if hit is None:
                    self._patience.lost.add(each.record)
                    number += 1
                    continue
                hits.append(hit)
                shown.append(each.session)
            number += 1
            taken[each.session] += 1
        if self._totals is not None:
            here = Counter(shown)
            for hit, session in zip(hits, shown, strict=True):
                hit.more = max(0, self._totals[session] - here[session])
        return SearchDocument(hits=hits, next=following, notes=[])

    def _looked_up(
        self, found: Iterator[ScanMatch], wanted: Wanted, hits: list[Hit]
    ) -> Iterator[ScanMatch]:
        """Give what was found, and know what is shown of it: together of what *hits* still lack."""
        yield from islice(found, wanted.offset)  # Of those nothing is shown.
        while batch := list(islice(found, wanted.limit - len(hits) + 1)):
            self._known.learn(batch)
            yield from batch

    def _told(self, document: SearchDocument) -> SearchDocument:
        """Add what has to be said beside the hits, and leave the logs."""
        self._index.let_go()
        patience = self._patience
        if patience.lost:
            count = len(patience.lost)
            what = "1 record, which" if count == 1 else f"{count:,} records, which"
            self.notes.append(f"left out: {what} cannot be read from the log any more")
        if patience.stopped:
            self.notes.append(TOOK_TOO_LONG)
        elif patience.is_over or patience.is_short:
            self.notes.append(
                "stopped after 5 seconds; narrow it by project, by time or to a whole word"
            )
        if patience.has_cut:
            self.notes.append("of texts longer than 1,000,000 characters only so much was matched")
        document.notes = list(self.notes)
        return document
