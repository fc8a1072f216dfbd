-- What the index remembers of the logs. All of it can be deleted and rebuilt from them.
--
-- Instants are whole microseconds since 1970, UTC. Names that repeat (types, models, tools,
-- branches) stand once, in `names`. Text is not stored: a hit points to a record, and the record
-- is read from its log. `turnlog sql` sees the views of views.sql, not these tables.

-- One row: which version made this, and for which homes. `PRAGMA user_version` has the version too.
CREATE TABLE about (
    made_by TEXT NOT NULL,
    homes TEXT NOT NULL,               -- Their true paths, as a JSON list.
    dead_texts INTEGER NOT NULL DEFAULT 0  -- Rows of `texts` without a record; see there.
);

-- Every word that stands in many rows.
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- Paths of files that calls name.
CREATE TABLE paths (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);

-- Every log, and everything else that is read like one (prompts, plans, todos, tasks).
-- A log has two bookmarks: `usage_…` for what the ledger needs, which is read first, and `text_…`
-- for everything else. A bookmark is how far was read (`offset`, after a newline) and how we know it
-- is still the same log: the size and time it had, and a fingerprint of the bytes before.
CREATE TABLE logs (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    home TEXT NOT NULL,
    layout TEXT NOT NULL,              -- claude, dated, flat; beside for what lies beside the logs.
    kind TEXT NOT NULL,                -- session, subagent, day; prompts, plan, todos, task.
    session TEXT,                      -- The session's id; a day's log has many, and none here.
    subagent TEXT,
    project_key TEXT,
    generation INTEGER NOT NULL DEFAULT 1,  -- How often it was found to be another log: rewritten, replaced.
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
    packed_bytes INTEGER,              -- The size of its file, where that is not the log's own: a kept copy.
    told INTEGER NOT NULL DEFAULT 0,   -- Records that told of a response, up to the bookmark …
    synthetic INTEGER NOT NULL DEFAULT 0,
    tail_told INTEGER NOT NULL DEFAULT 0,  -- … and in a last line that has no newline yet.
    tail_synthetic INTEGER NOT NULL DEFAULT 0,
    is_pending INTEGER NOT NULL DEFAULT 0,  -- Whether its last line may still be being written.
    folded BLOB,                       -- The folds up to the text bookmark, to go on from …
    tail_folded BLOB,                  -- … and with a last line that has no newline yet.
    gone_at INTEGER,                   -- When it was found to be gone at its source.
    problem TEXT                       -- Why it could not be read.
);
CREATE INDEX logs_by_session ON logs (session);
-- All that is asked to tell whether anything is new: the rows themselves are long.
CREATE INDEX logs_as_they_were ON logs (
    path, gone_at, layout, packed_bytes, text_size_bytes, text_mtime_ns, usage_size_bytes,
    usage_mtime_ns
);

-- The directories that were listed, and the time each had before: as long as it has that time still,
-- no log came or went there.
CREATE TABLE directories (
    path TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    is_beside INTEGER NOT NULL,        -- Whether it is listed for what lies beside the logs.
    PRIMARY KEY (path, is_beside)
) WITHOUT ROWID;

-- Every record. Its id is its log and its place in it: log << 40 | offset.
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    length INTEGER NOT NULL,
    type INTEGER NOT NULL,             -- names
    author INTEGER NOT NULL,           -- names: human, assistant, tool, subagent, caller, program.
    session INTEGER,                   -- sessions
    uuid BLOB,                         -- 16 bytes if it is one, else text.
    parent BLOB,
    at INTEGER,
    model INTEGER,                     -- names
    branch INTEGER,                    -- names
    message TEXT,                      -- The id of the message it carries a part of.
    flags INTEGER NOT NULL DEFAULT 0   -- 1 error, 2 of a subagent, 4 slipped in by the program.
);

-- Records that say themselves that they were carried over from another session, and which of its
-- records each is; its own uuid where it says no more than that.
CREATE TABLE carried (
    record INTEGER PRIMARY KEY,
    origin BLOB NOT NULL               -- A uuid, as in `records`.
);

-- Records that stand in another log already, and the one that counts: see repeats.py.
CREATE TABLE repeats (
    record INTEGER PRIMARY KEY,
    first INTEGER NOT NULL
);

-- Bytes in logs that are no records.
CREATE TABLE damages (
    id INTEGER PRIMARY KEY,            -- Log and place, as in `records`.
    length INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    excerpt BLOB NOT NULL
);

-- Calls, with what came of them as soon as it is known.
CREATE TABLE calls (
    record INTEGER NOT NULL,           -- records: the one that asks.
    block INTEGER NOT NULL,            -- Which of its blocks.
    call_id TEXT,
    tool INTEGER NOT NULL,             -- names
    digest BLOB NOT NULL,              -- Of the input: equal calls have equal ones.
    result INTEGER,                    -- records: the one that answers.
    is_error INTEGER,                  -- Null while there is no answer.
    duration_us INTEGER,               -- Between the two records.
    signature BLOB,                    -- Of an error: alike errors have equal ones.
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

-- Every piece of text. Its id is when it was said, so that the order of ids is that of time:
-- seconds since 1970 << 8, and a number to tell those of one second apart, see placing.py. The
-- full-text tables cannot delete (SQLite before 3.43), so an id is never used again: the text of a
-- log that was rewritten keeps its row, without a record, and no search finds it.
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    record INTEGER,                    -- records; null for one that is dead.
    part INTEGER NOT NULL,             -- Which of the record's texts.
    kind INTEGER NOT NULL              -- kinds
);
CREATE TABLE kinds (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL UNIQUE,
    weight REAL NOT NULL               -- How much a hit in it counts.
);

-- The words, not the text: contentless. What tools answered is most of the bytes and mostly files,
-- so it stands apart, and without the places of its words: nobody who does not ask for it pays.
CREATE VIRTUAL TABLE said USING fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE answered USING fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2', detail='none', columnsize=0
);

-- What logs tell of API responses: one row for each log and place in it, folded. Log by log, as they
-- are read: by their names, which are random, every batch would write all pages anew.
CREATE TABLE sightings (
    log INTEGER NOT NULL,
    name TEXT NOT NULL,                -- The response's, see records/responses.py.
    place BLOB NOT NULL,
    session INTEGER,                   -- names, as the next two.
    cwd INTEGER,
    model INTEGER,
    told BLOB NOT NULL,                -- The rest of it, see sighted.py.
    PRIMARY KEY (log, name, place)
) WITHOUT ROWID;

-- Names whose sightings changed since the response was settled. If none was settled yet, one name
-- stands for all.
CREATE TABLE unsettled (name TEXT PRIMARY KEY) WITHOUT ROWID;

-- One row for each API response, counted once, whoever repeats it.
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
    project INTEGER,                   -- names: where its session began.
    record INTEGER NOT NULL            -- records: the one that counts.
);

-- The same, added up by quarters of an hour: no time zone and no price knows a finer border. Reports
-- read this. What is not known is 0 or empty here; see UNDATED in settling.py.
CREATE TABLE spent (
    session INTEGER NOT NULL,          -- names, as the other numbers up to inference_geo.
    quarter INTEGER NOT NULL,          -- Since 1970.
    project INTEGER NOT NULL,
    model INTEGER NOT NULL,
    speed INTEGER NOT NULL,
    service_tier INTEGER NOT NULL,
    inference_geo INTEGER NOT NULL,
    is_long INTEGER NOT NULL,          -- Whether the model read more than 200,000 tokens at once.
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

-- What could not be counted, or not as it was written.
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

-- A session of one home: what its main log's fold says.
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    home TEXT NOT NULL,
    layout TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL DEFAULT '',     -- Of its newest main log.
    size_bytes INTEGER NOT NULL DEFAULT 0,
    project INTEGER,                   -- projects
    title TEXT,
    tag TEXT,
    started_at INTEGER,
    last_active_at INTEGER,
    records INTEGER NOT NULL DEFAULT 0,
    prompts INTEGER NOT NULL DEFAULT 0,
    subagents INTEGER NOT NULL DEFAULT 0,
    damages INTEGER NOT NULL DEFAULT 0,
    git_branch TEXT,
    version TEXT,
    models TEXT NOT NULL DEFAULT '{}', -- Names and how often, as a JSON object.
    life BLOB,                         -- The fold that tells its state.
    is_sidechain INTEGER NOT NULL DEFAULT 0,
    gone_at INTEGER,
    UNIQUE (session, home)
);

-- Sessions of which something was read since their row was made.
CREATE TABLE unnoted (session TEXT PRIMARY KEY) WITHOUT ROWID;

-- Subagents, and the call that asked for each.
CREATE TABLE subagents (
    log INTEGER NOT NULL,              -- logs: its own, or the main log if it is a sidechain.
    session TEXT NOT NULL,
    subagent TEXT NOT NULL,
    kind TEXT,
    description TEXT,
    caller TEXT,                       -- The subagent in whose log the call stands; null: the main one.
    call_id TEXT,
    spawned_by BLOB,                   -- The uuid of the record that carries the call.
    how TEXT,
    PRIMARY KEY (log, subagent)
) WITHOUT ROWID;

-- The records of subagents that are in a session's main log: sidechains, which Claude Code 1.x wrote.
CREATE TABLE sidechains (
    record INTEGER PRIMARY KEY,        -- records
    subagent TEXT NOT NULL
);
