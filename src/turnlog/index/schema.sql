-- The tables of the index. All of it can be deleted and rebuilt from the logs.
--
-- Instants are microseconds since 1970, UTC. Names that repeat (types, models, tools, branches) are
-- stored once, in `names`. Text is not stored: a hit refers to a record, which is read from its log.
-- `turnlog sql` sees the views of views.sql, not these tables.

-- One row: the version of turnlog, and the homes. `PRAGMA user_version` is the version of the schema.
CREATE TABLE about (
    made_by TEXT NOT NULL,
    homes TEXT NOT NULL,               -- Their real paths, as a JSON list.
    dead_texts INTEGER NOT NULL DEFAULT 0  -- Rows of `texts` without a record; see there.
);

-- Names that many rows refer to.
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- Paths of files that calls name.
CREATE TABLE paths (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);

-- Logs, and side files that are read like logs (prompts, plans, todos, tasks).
-- A log has two bookmarks: `usage_…` for usage, which can be read first, and `text_…` for everything
-- else. A bookmark is how far the log was read (`offset`, after a newline) and how we know that it is
-- still the same log: its size and mtime, and a fingerprint of the bytes before.
CREATE TABLE logs (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    home TEXT NOT NULL,
    layout TEXT NOT NULL,              -- claude, dated, flat; beside for side files.
    kind TEXT NOT NULL,                -- session, subagent, day; prompts, plan, todos, task.
    session TEXT,                      -- The session's id; null for the log of a day, which has many.
    subagent TEXT,
    project_key TEXT,
    generation INTEGER NOT NULL DEFAULT 1,  -- Increases when it was rewritten or replaced.
    device INTEGER,                    -- A hint only: containers and copies change them.
    inode INTEGER,
    usage_offset INTEGER NOT NULL DEFAULT 0,
    usage_size_bytes INTEGER NOT NULL DEFAULT -1,
    usage_mtime_ns INTEGER NOT NULL DEFAULT 0,
    usage_fingerprint BLOB,
    text_offset INTEGER NOT NULL DEFAULT 0,
    text_size_bytes INTEGER NOT NULL DEFAULT -1,
    text_mtime_ns INTEGER NOT NULL DEFAULT 0,
    text_fingerprint BLOB,
    packed_bytes INTEGER,              -- The size of a compressed file, such as a kept copy.
    usage_count INTEGER NOT NULL DEFAULT 0,  -- Records with usage, up to the bookmark …
    synthetic INTEGER NOT NULL DEFAULT 0,
    tail_usage_count INTEGER NOT NULL DEFAULT 0,  -- … and in a last line without a newline.
    tail_synthetic INTEGER NOT NULL DEFAULT 0,
    is_pending INTEGER NOT NULL DEFAULT 0,  -- Whether its last line may be incomplete.
    folded BLOB,                       -- The state of reading at the text bookmark …
    tail_folded BLOB,                  -- … and with a last line without a newline.
    gone_at INTEGER,                   -- When it was found deleted.
    problem TEXT                       -- Why it could not be read.
);
CREATE INDEX logs_by_session ON logs (session);
-- Covers the check for changes, since the rows themselves are long.
CREATE INDEX logs_as_they_were ON logs (
    path, gone_at, layout, packed_bytes, text_size_bytes, text_mtime_ns, usage_size_bytes,
    usage_mtime_ns
);

-- The directories that were listed, with the mtimes they had before: while they are unchanged, no log
-- was added or deleted there.
CREATE TABLE directories (
    path TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    is_beside INTEGER NOT NULL,        -- Whether it was listed for side files.
    PRIMARY KEY (path, is_beside)
) WITHOUT ROWID;

-- Records. The id is the log and the offset: log << 40 | offset.
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    length INTEGER NOT NULL,
    type INTEGER NOT NULL,             -- names
    author INTEGER NOT NULL,           -- names: human, assistant, tool, subagent, caller, program.
    session INTEGER,                   -- sessions
    uuid BLOB,                         -- 16 bytes for a UUID, else text.
    parent BLOB,
    at INTEGER,
    model INTEGER,                     -- names
    branch INTEGER,                    -- names
    message TEXT,                      -- The id of the message that it is a part of.
    flags INTEGER NOT NULL DEFAULT 0   -- 1 error, 2 of a subagent, 4 added by the program.
);

-- Records that are marked as copied from another session, with the original record; their own uuid if
-- the mark does not name one.
CREATE TABLE carried (
    record INTEGER PRIMARY KEY,
    origin BLOB NOT NULL               -- A uuid, as in `records`.
);

-- Copies of records, with the one that counts: see usage/deduplicate.py.
CREATE TABLE repeats (
    record INTEGER PRIMARY KEY,
    first INTEGER NOT NULL
);

-- Bytes in logs that are not records.
CREATE TABLE damages (
    id INTEGER PRIMARY KEY,            -- Log and offset, as in `records`.
    length INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    excerpt BLOB NOT NULL
);

-- Calls of tools, and their results.
CREATE TABLE calls (
    record INTEGER NOT NULL,           -- records: the one with the call.
    block INTEGER NOT NULL,            -- Which of its blocks.
    call_id TEXT,
    tool INTEGER NOT NULL,             -- names
    digest BLOB NOT NULL,              -- Of the input; equal for equal calls.
    result INTEGER,                    -- records: the one with the result.
    is_error INTEGER,                  -- Null without a result.
    duration_us INTEGER,               -- Between the two records.
    signature BLOB,                    -- Of an error; equal for similar errors.
    PRIMARY KEY (record, block)
) WITHOUT ROWID;

-- Files that calls name.
CREATE TABLE touches (
    record INTEGER NOT NULL,
    block INTEGER NOT NULL,
    path INTEGER NOT NULL,             -- paths
    action TEXT NOT NULL,              -- read, write, edit, search.
    PRIMARY KEY (record, block)
) WITHOUT ROWID;

-- Texts. Ids are ordered by time: seconds since 1970 << 8, plus a number within the second, see
-- refresh/writer.py. The full-text tables cannot delete (SQLite before 3.43), so ids are never reused:
-- a text of a rewritten log keeps its row without a record, and no search finds it.
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    record INTEGER,                    -- records; null for a dead text.
    part INTEGER NOT NULL,             -- Which of the record's texts.
    kind INTEGER NOT NULL,             -- kinds
    session INTEGER,                   -- sessions, as in `records`: ranking reads only this table.
    size_bytes INTEGER NOT NULL
);
CREATE TABLE kinds (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL UNIQUE,
    weight REAL NOT NULL               -- The weight of hits of this kind.
);

-- Words without the text (contentless). `said` has the words as written, for phrases and everything
-- that is meant literally; `stems` has the stems of the same texts, with identifiers split, for words
-- that someone remembers. Tool results are most of the bytes and mostly file contents, so they have a
-- table of their own. Only phrases need the positions of words, and nothing the number of words.
CREATE VIRTUAL TABLE said USING fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2', columnsize=0
);
CREATE VIRTUAL TABLE stems USING fts5(
    text, content='', tokenize='porter unicode61 remove_diacritics 2', detail='none', columnsize=0
);
CREATE VIRTUAL TABLE answered USING fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2', detail='none', columnsize=0
);

-- Usage entries: the usage of API responses, one row for each log and place, folded. Ordered by log: in
-- the order of names, which are random, every batch would write all pages.
CREATE TABLE usage_entries (
    log INTEGER NOT NULL,
    name TEXT NOT NULL,                -- Of the response, see records/responses.py.
    place BLOB NOT NULL,
    session INTEGER,                   -- names, as the next two.
    cwd INTEGER,
    model INTEGER,
    packed BLOB NOT NULL,              -- The other columns, packed, see usage/entries.py.
    PRIMARY KEY (log, name, place)
) WITHOUT ROWID;

-- Names whose entries changed since their message was made. While there are no messages, one name
-- represents all.
CREATE TABLE pending_usage (name TEXT PRIMARY KEY) WITHOUT ROWID;

-- API responses, each counted once, however many logs contain it.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    message_id TEXT,
    request_id TEXT,
    part TEXT NOT NULL,
    session INTEGER,                   -- names
    subagent TEXT,
    is_sidechain INTEGER NOT NULL,
    at INTEGER,
    model INTEGER,                     -- names
    speed INTEGER,                     -- names, as the next two.
    service_tier INTEGER,
    inference_geo INTEGER,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_write_5m INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    web_searches INTEGER NOT NULL,
    others TEXT,                       -- Further counters, as a JSON object.
    recorded_usd TEXT,
    cwd INTEGER,                       -- names
    project INTEGER,                   -- names: the directory in which its session began.
    record INTEGER NOT NULL            -- records: the one that counts.
);

-- Messages summed by quarters of an hour, since no time zone and no price has a finer boundary. Reports
-- read this. Unknown values are 0 or empty; see UNDATED in ids.py.
CREATE TABLE usage_sums (
    session INTEGER NOT NULL,          -- names, as the other numbers up to inference_geo.
    quarter INTEGER NOT NULL,          -- Since 1970.
    project INTEGER NOT NULL,
    model INTEGER NOT NULL,
    speed INTEGER NOT NULL,
    service_tier INTEGER NOT NULL,
    inference_geo INTEGER NOT NULL,
    is_long INTEGER NOT NULL,          -- Whether the input had more than 200,000 tokens.
    subagent TEXT NOT NULL,
    messages INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_write_5m INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    web_searches INTEGER NOT NULL,
    PRIMARY KEY (
        session, quarter, project, model, speed, service_tier, inference_geo, is_long, subagent
    )
) WITHOUT ROWID;

-- Usage that could not be counted, or not as it was written.
CREATE TABLE skipped (
    log INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    why TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE TABLE projects (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);

-- Sets of names, each a sorted JSON list. Few sessions differ in their tools, branches and models, so
-- lists filter and count sets instead of names.
CREATE TABLE name_sets (
    id INTEGER PRIMARY KEY,
    names TEXT NOT NULL UNIQUE
);

-- Sessions, one row per home, from the state of their main log.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    home TEXT NOT NULL,
    layout TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL DEFAULT '',     -- Of its newest main log.
    size_bytes INTEGER NOT NULL DEFAULT 0,
    project INTEGER,                   -- projects
    title TEXT,
    first_prompt TEXT,                 -- Its beginning, on one line.
    tag TEXT,                          -- All of its tags, see records/tags.py.
    started_at INTEGER,
    last_active_at INTEGER,
    records INTEGER NOT NULL DEFAULT 0,
    prompts INTEGER NOT NULL DEFAULT 0,
    subagents INTEGER NOT NULL DEFAULT 0,
    damages INTEGER NOT NULL DEFAULT 0,
    git_branch TEXT,
    version TEXT,
    models TEXT NOT NULL DEFAULT '{}', -- Names and how often, as a JSON object.
    model_set INTEGER,                 -- name_sets: the names of `models`, without synthetic ones.
    branch_set INTEGER,                -- name_sets: every branch, its subagents' included.
    tool_set INTEGER,                  -- name_sets: every tool it called, its subagents included.
    errors INTEGER NOT NULL DEFAULT 0, -- Calls that failed, its subagents' included.
    life BLOB,                         -- The session state, packed.
    is_sidechain INTEGER NOT NULL DEFAULT 0,
    gone_at INTEGER,
    UNIQUE (session, home)
);

-- Sessions whose row must be rewritten.
CREATE TABLE pending_sessions (session TEXT PRIMARY KEY) WITHOUT ROWID;

-- Subagents, and the call that started each.
CREATE TABLE subagents (
    log INTEGER NOT NULL,              -- logs: its own, or the main log if it is a sidechain.
    session TEXT NOT NULL,
    subagent TEXT NOT NULL,
    kind TEXT,
    description TEXT,
    caller TEXT,                       -- The subagent that made the call; null: the main one.
    call_id TEXT,
    spawned_by BLOB,                   -- The uuid of the record with the call.
    how TEXT,
    PRIMARY KEY (log, subagent)
) WITHOUT ROWID;

-- Records of subagents in a session's main log: sidechains, as Claude Code 1.x wrote them.
CREATE TABLE sidechains (
    record INTEGER PRIMARY KEY,        -- records
    subagent TEXT NOT NULL
);
