"""Full-text search over everything that was said, called, answered and planned in the sessions.

    search(index, 'how did we fix the flaky retry? tool:Bash since:7d', now=…, zone=…)

A hit is one text of one record, with the log and offset of the record. Words may be missing: the
sessions that match best come first, each with its best texts (``ranking``). Words with a plus,
phrases, exclusions and filters must match. Sorted by time, all words must match, nothing is ranked,
and the search stops when the page is full.

Tool results are searched on request, and if nothing else matches. A text that is gone from its log
is not a hit; a note says how many there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import datetime, tzinfo
from functools import partial
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType, structs

from turnlog.errors import UsageError
from turnlog.formats.projects import expand_path
from turnlog.index.connection import Index
from turnlog.index.texts import ANSWERED, WEIGHTS, TextKind
from turnlog.search.facets import SearchFacets, count_hits
from turnlog.search.filters import Table
from turnlog.search.hits import (
    LONGEST_TEXT,
    WIDTH,
    Hit,
    HitReader,
    HitView,
    TextMatch,
    first_place,
    was_taken,
)
from turnlog.search.language import (
    FieldFilter,
    Node,
    Phrase,
    SearchQuery,
    Word,
    conjuncts,
    filters_of,
    is_only_filters,
    joined,
    leaves,
    parse,
    soft_words,
    word_leaves,
)
from turnlog.search.ranking import (
    Passage,
    Ranking,
    Row,
    Term,
    densest,
    finder,
    highlighter_of,
    terms_of,
    without_common,
    worth_showing,
)
from turnlog.search.regex import TOOK_TOO_LONG, TimeBudget
from turnlog.search.sql import (
    Renderer,
    SearchStatement,
    WordTable,
    count_of,
    expression_for,
    has_prefix,
)
from turnlog.search.suggestions import another_time_note, similar_word, unknown_notes, without_dates
from turnlog.search.tokenizer import highlighter, literal_of, matches, terms

if TYPE_CHECKING:
    from turnlog.search.scan import ScanPattern

PER_SESSION: Final = 3
"""How many hits of a session are returned, unless more are asked for."""

_ALL: Final = 1_000_000
RANKED_AT_ONCE: Final = 2_000
"""How many of the newest texts that match exactly are ranked together."""
_MOST_ROWS: Final = 6_000
"""How many texts are considered for the rarest words together."""
_LEAST_ROWS: Final = 2_000
"""How many are considered for a common word, and for all words together: the newest."""
_ENOUGH_ROWS: Final = 200
"""With so many, common words are not looked up."""
_COUNTED_TEXTS: Final = 10_000
"""How many of the newest texts are counted by kind."""
COUNTED: Final = 1_000
"""The most tool results that are counted without being searched for."""
_SHORTEST_PREFIX: Final = 3
_OF_PREFIX: Final = 0.5
_WEIGHTS: Final = {int(kind): weight for kind, weight in WEIGHTS.items()}
_KINDS_OF_RESULTS: Final = frozenset(kind.name.lower() for kind in ANSWERED)
_ABOUT_RESULTS: Final = (FieldFilter("is", "error"), FieldFilter("role", "tool"))

# SQLite finds the newest text with a word at once, but for a prefix it first merges the lists of
# all its words. If these are long, most texts have such a word, and reading the newest texts is
# faster.
_MANY_PAGES: Final = 100
_FEW_FILTERS: Final = 20
_MOST_TEXTS: Final = 200
_MOST_READ: Final = 100
# Reading stops after this many texts without a match, and five more for each match.
_IN_VAIN: Final = 20
_CHECKED: Final = SearchStatement("", [], (), needs_check=False)

Rows = Iterator[tuple[Row, SearchStatement]]


class SearchDocument(Struct, kw_only=True):
    """What `turnlog search --json` prints."""

    hits: list[Hit]
    next: int | None
    """The offset of the next page, or null."""
    notes: list[str]
    in_results: int | None = None
    """How many tool results match and were not searched for, up to 1,000; null if not counted."""
    facets: SearchFacets | UnsetType = UNSET
    """How many texts match in all, and of each kind; only if asked for."""


class HitPage(Struct, frozen=True, kw_only=True):
    """Which hits to return, and how to show them."""

    newest: bool = False
    flat: bool = False
    """Whether texts are in order, not sessions."""
    limit: int = 20
    offset: int = 0
    per_session: int = 0
    context: int = 0
    width: int = WIDTH
    mask: Callable[[str], str] | None = None


def search(
    index: Index,
    query: str | SearchQuery,
    *,
    now: datetime,
    zone: tzinfo,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    session: str | None = None,
    with_results: bool = False,
    newest: bool = False,
    all_words: bool = False,
    exact: bool = False,
    regex: bool = False,
    flat: bool = False,
    limit: int = 20,
    offset: int = 0,
    context: int = 0,
    per_session: int | None = None,
    width: int | None = None,
    facets: int | None = None,
    mask: Callable[[str], str] | None = None,
) -> SearchDocument:
    """Search *index* for *query*, which is in the search language.

    With *all_words* no word may be missing. With *exact* the query is literal text, with *regex* a
    regular expression, and neither has filters. *project* is a directory, *session* the beginning
    of an id. Hits are grouped by session unless *flat*. *per_session* limits the hits of one
    session (0: no limit; by default three, or no limit if flat, for one session or when sorted by
    time). With *facets*, all texts that match are counted by kind, tool, project and month, the
    most frequent so many. *mask* is applied to texts before they are shown.
    """
    if exact and regex:
        raise UsageError(
            "exact and regex cannot be combined", hint="escape literals in the pattern: \\. \\( \\["
        )
    if limit < 0 or offset < 0 or context < 0:
        raise UsageError("limit, offset and context must not be negative", hint="use 0 or more")
    bounds: list[Node] = []
    if project is not None:
        bounds.append(FieldFilter("project", expand_path(project)))
    if since is not None:
        bounds.append(FieldFilter("since", "", since))
    if until is not None:
        bounds.append(FieldFilter("before", "", until))
    if session is not None:
        bounds.append(FieldFilter("session", session))
    page = HitPage(
        limit=limit or _ALL,
        offset=offset,
        context=context,
        width=WIDTH if width is None else width,
        mask=mask,
    )
    run = _Search(index, now.astimezone(zone))
    if isinstance(query, str) and (exact or regex):
        if not query.strip():
            raise UsageError("the query is empty", hint="give the text to search for")
        from turnlog.search.scan import literal_pattern, regex_pattern  # noqa: PLC0415 - Rare.

        pattern = regex_pattern(query) if regex else literal_pattern(query)
        page = structs.replace(page, newest=True, per_session=per_session or 0)
        return run.pattern(pattern, bounds, page, _tables(with_results=with_results))
    parsed = parse(query, now=now, zone=zone) if isinstance(query, str) else query
    run.notes += parsed.notes
    nodes = [*conjuncts(parsed.tree), *bounds]
    tree = joined(nodes)
    by_time = newest or tree is None or is_only_filters(tree)
    if per_session is None:
        is_one_session = any(isinstance(n, FieldFilter) and n.field == "session" for n in nodes)
        per_session = 0 if by_time or flat or is_one_session else PER_SESSION
    page = structs.replace(page, newest=by_time, flat=flat, per_session=per_session)
    # Also if the query asks for results by name, or for what mostly tools report.
    with_results |= any(node in _ABOUT_RESULTS for node in nodes) or any(
        isinstance(leaf, FieldFilter)
        and leaf.field in ("is", "type")
        and leaf.value.lower() in _KINDS_OF_RESULTS
        for leaf in leaves(tree)
    )
    tables = _tables(with_results=with_results)
    document = run.exactly(tree, page, tables) if all_words else run.words(tree, page, tables)
    if facets is not None and not index.is_masked:
        document.facets = run.facets(facets)
    return document


def _tables(*, with_results: bool) -> list[Table]:
    return ["said", "answered"] if with_results else ["said"]


class _Search:
    """One search: its caches, its time budget and its notes."""

    def __init__(self, index: Index, now: datetime) -> None:
        self.notes: list[str] = []
        self._index = index
        self._reader = HitReader(index)
        self._now, self._zone = now.timestamp(), now.tzinfo
        self._budget = TimeBudget()
        self._renderer = Renderer(index.db, is_masked=index.is_masked)
        self._totals: Counter[int | None] | None = None
        """How many matches each session has, if all were ranked together."""
        self._found: list[Row] = []
        """All texts that match, if they were ranked."""
        self._is_whole = True
        self._by_time: tuple[Node | None, list[Table]] | None = None
        """What was searched for by time, in which tables."""
        self._is_empty = True
        self._statements: dict[bool, SearchStatement] = {}
        """How the last rows were found, those of tool results and all others."""

    def words(self, tree: Node | None, page: HitPage, tables: list[Table]) -> SearchDocument:
        """Search for *tree*; its words may be missing, unless texts are sorted by time."""
        soft = soft_words(tree)
        wanted = terms_of(soft)
        if not wanted:
            return self.exactly(tree, page, tables)
        if page.newest:
            document = self.find(tree, page, tables)
            if not self._is_empty:
                return self._finish(document)
        missable = frozenset(soft)  # A query may have thousands of words.
        hard = joined([node for node in conjuncts(tree) if node not in missable])
        # A user who may see only masked texts must not learn which words others contain.
        is_open = page.mask is None and not self._index.is_masked
        known, unknown = self._known(wanted, tables, is_open=is_open)
        document = self._soft(known, hard, page, tables)
        if "answered" not in tables:
            if self._is_empty:
                everywhere = _tables(with_results=True)
                known, unknown = self._known(wanted, everywhere, is_open=is_open)
                document = self._soft(known, hard, page, everywhere)
                if not self._is_empty:
                    self.notes.append("found only in tool output")
            elif is_open:
                document.in_results = self._count_results(wanted, hard)
        if not known and is_open:
            document = self._soft(self._corrected(unknown), hard, page, tables)
        if is_open:
            self._explain(tree, unknown, page, tables)
        return self._finish(document)

    def exactly(self, tree: Node | None, page: HitPage, tables: list[Table]) -> SearchDocument:
        """Search for texts that match all of *tree*."""
        document = self.find(tree, page, tables)
        if self._is_empty and page.mask is None and not self._index.is_masked:
            words = terms_of(leaf for leaf in word_leaves(tree) if not leaf.is_prefix)
            self._explain(tree, self._known(words, tables, is_open=False)[1], page, tables)
        return self._finish(document)

    def facets(self, most: int) -> SearchFacets:
        """Count all texts that match, or the newest of many."""
        if self._by_time is not None and not self._found and not self._is_empty:
            tree, tables = self._by_time
            for table in tables:
                statement = self._renderer.statement(tree, table, most=_COUNTED_TEXTS)
                rows = self._index.db.execute(statement.sql, statement.values).fetchall()
                self._found += rows
                self._is_whole &= len(rows) < _COUNTED_TEXTS and not statement.needs_check
        return count_hits(
            self._index, self._found, self._zone, most=most, is_complete=self._is_whole
        )

    def _explain(
        self, tree: Node | None, unknown: list[Term], page: HitPage, tables: list[Table]
    ) -> None:
        """Note which words no text has, and if nothing was found, which filters exclude all."""
        if unknown and len(conjuncts(tree)) > 1:
            self.notes += unknown_notes(self._index.db, [term.words[0] for term in unknown])
        if self._is_empty:
            self.notes += self._renderer.filters.notes_on(conjuncts(tree))
            self.notes += self._notes_on_time(without_dates(tree), page, tables)

    def _known(
        self, wanted: list[Term], tables: list[Table], *, is_open: bool
    ) -> tuple[list[Term], list[Term]]:
        """Return the terms that texts have, and the words that none has.

        With *is_open*, a word that none has may be the beginning of others.
        """
        db = self._index.db
        known: dict[str, Term] = {}
        unknown = []
        for term in wanted:
            if not term.is_stem:
                # If an identifier is found as a whole, its parts count less; a word in Chinese is
                # found by its characters only if it is not.
                is_needed = term.whole not in known and self._has_phrase(term, tables)
                known |= {term.key: term} if is_needed else {}
                continue
            term.count = count_of(db, "stems", term.key)
            if "answered" in tables:
                term.count += count_of(db, "answered", term.words[0])
            if term.count:
                known[term.key] = term
            elif (
                is_open and len(term.text) >= _SHORTEST_PREFIX and has_prefix(db, "said", term.text)
            ):
                prefix = structs.replace(term, is_stem=False, is_prefix=True, weight=_OF_PREFIX)
                known[prefix.key] = prefix
            else:
                unknown.append(term)
        return list(known.values()), unknown

    def _has_phrase(self, term: Term, tables: list[Table]) -> bool:
        expressions = {"said": term.expression}
        if "answered" in tables:
            expressions["answered"] = expression_for(Word(term.text), "answered")
        return any(
            self._index.db.execute(
                f"SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT 1",  # noqa: S608 - Ours.
                (expression,),
            ).fetchone()
            for table, expression in expressions.items()
        )

    def _corrected(self, unknown: list[Term]) -> list[Term]:
        """Return the terms of words that are spelled like *unknown*."""
        db = self._index.db
        close = {term.text: similar_word(db, term.words[0]) for term in unknown if term.is_stem}
        found = {text: word for text, word in close.items() if word is not None}
        if not found:
            return []
        self.notes.append(
            "; ".join(f'no text has "{text}": showing "{word}"' for text, word in found.items())
        )
        wanted = terms_of(map(Word, found.values()))
        unknown[:] = [term for term in unknown if term.text not in found]
        return self._known(wanted, ["said"], is_open=False)[0]

    def _soft(
        self, wanted: list[Term], hard: Node | None, page: HitPage, tables: list[Table]
    ) -> SearchDocument:
        """Return the hits for *wanted* among the texts that match *hard*."""
        ranking = Ranking(self._index, wanted, self._now)
        left = _MOST_ROWS
        is_cut = False
        order = sorted(range(len(wanted)), key=lambda n: (wanted[n].is_stem, wanted[n].count))
        for number in order:
            term = wanted[number]
            # Common words decide little: they count when the best texts are read.
            is_skipped = term.count > left and len(ranking.rows) >= _ENOUGH_ROWS
            most = max(left, _LEAST_ROWS)
            rows = [] if is_skipped else self._having(term, hard, tables, most)
            is_cut |= is_skipped or len(rows) >= most
            left -= len(rows)
            ranking.add(number, rows, max(term.count, len(rows)))
        if is_cut:  # Other texts may have all of the words.
            stems = {number: wanted[number] for number in order if wanted[number].is_stem}
            every = " AND ".join(term.expression for term in stems.values())
            rows = self._fetch(hard, "said", ("stems", every), _LEAST_ROWS)
            for number, term in stems.items():
                ranking.add(number, rows, term.count)
        self._is_whole &= not is_cut
        find = finder(without_common(wanted))
        found = self._in_order(ranking, page)
        if page.newest:
            found = sorted(found, key=lambda each: -each[1][0])
        self._totals = None if is_cut else Counter(row[4] for row in ranking.rows.values())
        accepts = (lambda text: bool(find(text))) if self._index.is_masked else None
        view = HitView(
            highlighter_of(find, word_leaves(hard)),
            lambda text: densest(find(text[:LONGEST_TEXT])),
            page.width,
            page.context,
            page.mask,
        )
        return self._read_page(self._checked(found, hard, accepts), page, view)

    def _in_order(
        self, ranking: Ranking, page: HitPage
    ) -> Iterable[tuple[float, Row, SearchStatement]]:
        """Yield the texts of a ranking by session, or all by their score."""
        sessions = ranking.sessions(lambda row: self._reader.text(row[1], row[2]))
        self._found += [row for found in sessions for _, row in found]
        passages: Iterable[Passage] = chain.from_iterable(
            map(worth_showing, sessions) if page.per_session else sessions
        )
        if page.flat:
            passages = sorted(passages, key=itemgetter(0), reverse=True)
        for score, row in passages:
            yield score, row, self._statements[row[3] in ANSWERED]

    def _having(self, term: Term, hard: Node | None, tables: list[Table], most: int) -> list[Row]:
        """Return the newest texts of *tables* with a term, *most* of each."""
        words: WordTable = "stems" if term.is_stem else "said"
        rows = self._fetch(hard, "said", (words, term.expression), most)
        if "answered" in tables:
            also = expression_for(Word(term.text, term.is_prefix), "answered")
            rows += self._fetch(hard, "answered", ("answered", also), most)
        return rows

    def _fetch(
        self, hard: Node | None, table: Table, also: tuple[WordTable, str], most: int
    ) -> list[Row]:
        statement = self._renderer.statement(hard, table, also=also, most=most)
        self._statements[table == "answered"] = statement
        return self._index.db.execute(statement.sql, statement.values).fetchall()

    def _count_results(self, wanted: list[Term], hard: Node | None) -> int:
        """Count the tool results that have *wanted*, except common words, and match *hard*."""
        rare = without_common(wanted)
        words = [expression_for(Word(term.text, term.is_prefix), "answered") for term in rare]
        also = " AND ".join(dict.fromkeys(words))
        return len(self._fetch(hard, "answered", ("answered", also), COUNTED))

    def pattern(
        self, pattern: ScanPattern, bounds: list[Node], page: HitPage, tables: list[Table]
    ) -> SearchDocument:
        """Search for texts that match *pattern*, newest first."""
        accepts = partial(pattern.is_in, budget=self._budget)
        if pattern.words:
            found = self._matches(joined([*pattern.words, *bounds]), page, tables, accepts)
        else:
            found = self._scan(pattern.needles, accepts, bounds, tables, pattern.ignores_case)
        view = HitView(
            partial(pattern.spans, budget=self._budget),
            partial(pattern.place, budget=self._budget),
            page.width,
            page.context,
            page.mask,
        )
        return self._finish(self._read_page(found, page, view))

    def find(self, tree: Node | None, page: HitPage, tables: list[Table]) -> SearchDocument:
        """Return the hits for *tree*, without notes."""
        literal = literal_of(tree)
        if literal is None:
            found = self._matches(tree, page, tables)
        else:
            from turnlog.search.scan import EVERY_RECORD, needles_of  # noqa: PLC0415 - Rare.

            nodes = conjuncts(tree)
            texts = joined([node for node in nodes if not isinstance(node, FieldFilter)])
            found = self._scan(
                needles_of(literal, ignores_case=False) or EVERY_RECORD,
                lambda text: matches(texts, text, {}),
                [node for node in nodes if isinstance(node, FieldFilter)],
                tables,
            )
        words = word_leaves(tree)
        phrases = sorted(filter(None, {terms(word.text) for word in words}))
        view = HitView(
            highlighter(words),
            lambda text: first_place(text, phrases),
            page.width,
            page.context,
            page.mask,
        )
        return self._read_page(found, page, view)

    def _scan(
        self,
        needles: tuple[bytes, ...],
        accepts: Callable[[str], bool],
        filters: Iterable[Node],
        tables: list[Table],
        ignores_case: bool = False,  # noqa: FBT001, FBT002
    ) -> Iterator[TextMatch]:
        from turnlog.search.scan import ScanScope, scan  # noqa: PLC0415 - Rare.

        ids = self._renderer.filters.ids
        scope = ScanScope.of_filters(filters, ids, with_results="answered" in tables)
        return scan(self._index, needles, accepts, scope, self._budget, ignores_case=ignores_case)

    def _notes_on_time(
        self, tree: Node | None, page: HitPage, tables: list[Table]
    ) -> Iterator[str]:
        """Yield a note if texts from another time match *tree*, which has no dates."""
        if tree is None or literal_of(tree) is not None:
            return
        first = structs.replace(page, newest=True, limit=1, offset=0, context=0, per_session=0)
        budget, self._budget = self._budget, TimeBudget()  # Nothing it skips is worth a note.
        hits = self.find(tree, first, tables).hits
        self._budget = budget
        if hits:
            yield another_time_note(hits[0].at, self._zone)

    def _matches(
        self,
        tree: Node | None,
        page: HitPage,
        tables: list[Table],
        accepts: Callable[[str], bool] | None = None,
    ) -> Iterator[TextMatch]:
        """Yield the texts that match all of *tree*, best or newest first."""
        streams = [self._rows(tree, table, newest=page.newest) for table in tables]
        rows = streams[0] if len(streams) == 1 else merge(*streams, key=lambda row: -row[0][0])
        self._totals = None
        wanted = terms_of(word_leaves(tree))
        if page.newest or not wanted:
            self._by_time = (tree, tables)
            scored = ((_WEIGHTS[row[3]], row, statement) for row, statement in rows)
            yield from self._checked(scored, tree, accepts)
            return
        nodes = conjuncts(tree)
        required = {term.key for term in terms_of(n for n in nodes if isinstance(n, Word | Phrase))}
        is_first = True
        while batch := list(islice(rows, RANKED_AT_ONCE)):
            self._is_whole &= len(batch) < RANKED_AT_ONCE
            is_checked = accepts is not None or any(each.needs_check for _, each in batch)
            if is_first and len(batch) < RANKED_AT_ONCE and not is_checked:
                self._totals = Counter(row[4] for row, _ in batch)
            is_first = False
            self._statements |= {row[3] in ANSWERED: statement for row, statement in batch}
            ranking = Ranking(self._index, wanted, self._now)
            texts = [row for row, _ in batch]
            ranking.include(texts)
            for number, term in enumerate(wanted):
                count = count_of(self._index.db, "stems", term.key)
                ranking.add(number, texts if term.key in required else (), count)
            yield from self._checked(self._in_order(ranking, page), tree, accepts)
            if self._budget.ends():
                return

    def _rows(self, tree: Node | None, table: Table, *, newest: bool) -> Rows:
        """Yield the rows of *table* for *tree*, newest first, each with its statement."""
        last = None
        is_costly = newest and self._renderer.pages(tree, table) >= _MANY_PAGES
        if is_costly and len(filters_of(tree)) <= _FEW_FILTERS:
            last = yield from self._newest_texts(tree, table)
        statement = self._renderer.statement(tree, table, last=last)
        for row in self._index.db.execute(statement.sql, statement.values):
            yield row, statement

    def _newest_texts(
        self, tree: Node | None, table: Table
    ) -> Generator[tuple[Row, SearchStatement], None, int | None]:
        """Read the newest texts; return the last id that remains to be searched."""
        statement = self._renderer.newest(tree, table, _MOST_TEXTS)
        last = None
        read = found = 0
        for row in self._index.db.execute(statement.sql, statement.values):
            if row[6]:
                text = self._reader.text(row[1], row[2])
                if text is None:  # Only the words in the index can tell whether it matched.
                    return int(row[0])
                read += 1
                if matches(tree, text, _truths(statement, row[7:])):
                    found += 1
                    yield row[:6], _CHECKED
            last = int(row[0]) - 1
            if read >= min(_MOST_READ, _IN_VAIN + 5 * found):
                break
        return last

    def _checked(
        self,
        rows: Iterable[tuple[float, Row, SearchStatement]],
        tree: Node | None,
        accepts: Callable[[str], bool] | None,
    ) -> Iterator[TextMatch]:
        """Yield the rows as matches, without those that do not match on reading the text."""
        for score, row, statement in rows:
            found = TextMatch(row[1], row[2], row[3], row[4], score)
            if found.kind == TextKind.NOTE and was_taken(self._index.db, found.record):
                continue
            if accepts is None and not statement.needs_check:
                yield found
                continue
            if self._budget.ends():
                return
            text = self._reader.text(found.record, found.part)
            if text is None:
                self._budget.lost.add(found.record)
                continue
            if statement.needs_check and not matches(tree, text, _truths(statement, row[6:])):
                continue
            if accepts is None or accepts(text):
                yield found

    def _read_page(
        self, found: Iterator[TextMatch], page: HitPage, view: HitView
    ) -> SearchDocument:
        """Read the texts of one page."""
        hits: list[Hit] = []
        taken: Counter[int | None] = Counter()
        shown: list[int | None] = []
        following = None
        offered = self._looked_up(self._first_of_each(found, page, taken), page, hits)
        for number, match in enumerate(offered):
            if number >= page.offset:
                if len(hits) >= page.limit:
                    following = number
                    break
                hit = self._reader.hit(match, view)
                if hit is None:
                    self._budget.lost.add(match.record)
                    taken[match.session] -= 1
                else:
                    hits.append(hit)
                    shown.append(match.session)
        if self._totals is not None:
            here = Counter(shown)
            for hit, session in zip(hits, shown, strict=True):
                hit.more = max(0, self._totals[session] - here[session])
        return SearchDocument(hits=hits, next=following, notes=[])

    def _first_of_each(
        self, found: Iterator[TextMatch], page: HitPage, taken: Counter[int | None]
    ) -> Iterator[TextMatch]:
        """Yield what was found, at most so many of each session as a page shows."""
        self._is_empty = True
        for match in found:
            self._is_empty = False
            if not page.per_session or taken[match.session] < page.per_session:
                taken[match.session] += 1
                yield match

    def _looked_up(
        self, found: Iterator[TextMatch], page: HitPage, hits: list[Hit]
    ) -> Iterator[TextMatch]:
        """Yield what was found; look up as many records at once as *hits* still lacks."""
        yield from islice(found, page.offset)  # These are not shown.
        while batch := list(islice(found, page.limit - len(hits) + 1)):
            self._reader.look_up(batch)
            yield from batch

    def _finish(self, document: SearchDocument) -> SearchDocument:
        """Add the notes, and close the logs."""
        self._index.close_logs()
        budget = self._budget
        if budget.lost:
            count = len(budget.lost)
            records = "1 record" if count == 1 else f"{count:,} records"
            self.notes.append(f"left out: {records} that can no longer be read from the log")
        if budget.stopped:
            self.notes.append(TOOK_TOO_LONG)
        elif budget.is_over or budget.is_short:
            self.notes.append(
                "stopped after 5 seconds; narrow it by project, by time or to a whole word"
            )
        if budget.has_cut:
            self.notes.append("only the first 1,000,000 characters of long texts were matched")
        document.notes = list(self.notes)
        return document


def _truths(statement: SearchStatement, values: Row) -> dict[FieldFilter, bool]:
    return dict(zip(statement.filters, map(bool, values), strict=True))
