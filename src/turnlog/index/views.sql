-- The views of `turnlog sql`, with readable values.
--
-- They have names instead of ids, instants as ISO 8601 in UTC with milliseconds, and uuids as text.
-- `log` and `offset` are the place of a record; text(log, offset) reads its text. The comments on
-- columns are shown by `turnlog sql --schema` and in docs/sql.md.

-- Projects: the directories that sessions worked in.
CREATE VIEW v_projects AS
SELECT
    s.project AS project,  -- The directory.
    sum(s.gone_at IS NULL) AS sessions,  -- Sessions in it …
    sum(s.gone_at IS NOT NULL) AS gone,  -- … and sessions that are gone.
    sum(s.subagents) AS subagents,  -- Subagents that they called.
    sum(s.prompts) AS prompts,  -- Prompts in their main logs.
    sum(s.records) AS records,  -- Records in their main logs.
    min(s.started_at) AS started_at,  -- When the first of them began.
    max(s.last_active_at) AS last_active_at,  -- When one of them was last active.
    sum(s.size_bytes) AS size_bytes  -- The size of their main logs.
FROM v_sessions AS s
WHERE s.project IS NOT NULL
GROUP BY s.project;

-- Sessions, one row for each home that has it. For subagents see v_subagents.
CREATE VIEW v_sessions AS
SELECT
    s.session AS session,  -- Its id.
    p.path AS project,  -- The directory in which it began.
    s.title AS title,  -- Its title, or its first prompt.
    s.tag AS tag,  -- Its tags, separated by commas.
    strftime('%Y-%m-%dT%H:%M:%fZ', s.started_at / 1e6, 'unixepoch') AS started_at,  -- First record.
    strftime('%Y-%m-%dT%H:%M:%fZ', s.last_active_at / 1e6, 'unixepoch') AS last_active_at,  -- Last.
    s.records AS records,  -- Records in its main log.
    s.prompts AS prompts,  -- Prompts in its main log.
    s.subagents AS subagents,  -- Subagents that it called.
    s.damages AS damages,  -- Damaged ranges in its logs.
    (SELECT 'anthropic:' || m.key FROM json_each(s.models) AS m WHERE m.key NOT LIKE '<%'
     ORDER BY m.value DESC, m.key LIMIT 1) AS backing_model_id,  -- The model that answered most.
    (SELECT sum(m.input) FROM messages AS m JOIN names AS n ON n.id = m.session
     WHERE n.name = s.session) AS tokens_in,  -- Fresh input tokens, its subagents' included.
    (SELECT sum(m.output) FROM messages AS m JOIN names AS n ON n.id = m.session
     WHERE n.name = s.session) AS tokens_out,  -- Output tokens, its subagents' included.
    p.path AS cwd,  -- The same as project, under the name that logs use.
    s.git_branch AS git_branch,  -- The last branch it worked on.
    s.version AS version,  -- The program's version.
    s.layout AS layout,  -- claude, dated or flat.
    s.home AS home,  -- Its home.
    strftime('%Y-%m-%dT%H:%M:%fZ', s.gone_at / 1e6, 'unixepoch') AS gone_at,  -- When it was found deleted.
    s.size_bytes AS size_bytes,  -- The size of its main log.
    s.path AS log  -- Its main log; of several, the newest.
FROM sessions AS s
LEFT JOIN projects AS p ON p.id = s.project
WHERE NOT s.is_sidechain AND s.path <> '';

-- Subagents, and the call that started each.
CREATE VIEW v_subagents AS
SELECT
    a.subagent AS subagent,  -- Its id.
    a.session AS session,  -- The session that it belongs to.
    (SELECT p.path FROM sessions AS s JOIN projects AS p ON p.id = s.project
     WHERE s.session = a.session AND s.home = l.home) AS project,  -- The session's project.
    a.kind AS kind,  -- The type of subagent.
    a.description AS description,  -- The description of its task.
    a.caller AS caller,  -- The subagent that called it; null: the main one.
    a.call_id AS call_id,  -- The call.
    CASE typeof(a.spawned_by) WHEN 'blob' THEN lower(
        substr(hex(a.spawned_by), 1, 8) || '-' || substr(hex(a.spawned_by), 9, 4) || '-'
        || substr(hex(a.spawned_by), 13, 4) || '-' || substr(hex(a.spawned_by), 17, 4) || '-'
        || substr(hex(a.spawned_by), 21)
    ) ELSE a.spawned_by END AS spawned_by_message_id,  -- The uuid of the record with the call.
    a.how AS found_by,  -- How the call was found: result, meta, progress, prompt, position.
    (SELECT count(*) FROM records AS r
     WHERE r.id >= a.log << 40 AND r.id < (a.log + 1) << 40
     AND (l.kind = 'subagent' OR r.id IN (SELECT record FROM sidechains WHERE subagent = a.subagent))) AS records,  -- Its records.
    (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', min(r.at) / 1e6, 'unixepoch') FROM records AS r
     WHERE r.id >= a.log << 40 AND r.id < (a.log + 1) << 40
     AND (l.kind = 'subagent' OR r.id IN (SELECT record FROM sidechains WHERE subagent = a.subagent))) AS started_at,  -- First record.
    (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', max(r.at) / 1e6, 'unixepoch') FROM records AS r
     WHERE r.id >= a.log << 40 AND r.id < (a.log + 1) << 40
     AND (l.kind = 'subagent' OR r.id IN (SELECT record FROM sidechains WHERE subagent = a.subagent))) AS last_active_at,  -- Last record.
    (SELECT sum(m.input) FROM messages AS m JOIN names AS n ON n.id = m.session
     WHERE n.name = a.session AND (m.subagent = a.subagent OR m.record IN
     (SELECT record FROM sidechains WHERE subagent = a.subagent))) AS tokens_in,  -- Fresh input tokens.
    (SELECT sum(m.output) FROM messages AS m JOIN names AS n ON n.id = m.session
     WHERE n.name = a.session AND (m.subagent = a.subagent OR m.record IN
     (SELECT record FROM sidechains WHERE subagent = a.subagent))) AS tokens_out,  -- Output tokens.
    l.home AS home,  -- Its home.
    l.path AS log  -- Its log, or the session's main log.
FROM subagents AS a
JOIN logs AS l ON l.id = a.log;

-- Records: every line of every log.
CREATE VIEW v_records AS
SELECT
    strftime('%Y-%m-%dT%H:%M:%fZ', r.at / 1e6, 'unixepoch') AS at,  -- When it was written.
    s.session AS session,  -- The session that it belongs to.
    p.path AS project,  -- The session's project.
    coalesce((SELECT c.subagent FROM sidechains AS c WHERE c.record = r.id), l.subagent)
        AS subagent,  -- The subagent that wrote it; null: the main one.
    t.name AS type,  -- The type of the line: user, assistant, system …
    a.name AS author,  -- human, assistant, tool, subagent, caller or program.
    CASE typeof(r.uuid) WHEN 'blob' THEN lower(
        substr(hex(r.uuid), 1, 8) || '-' || substr(hex(r.uuid), 9, 4) || '-'
        || substr(hex(r.uuid), 13, 4) || '-' || substr(hex(r.uuid), 17, 4) || '-'
        || substr(hex(r.uuid), 21)
    ) ELSE r.uuid END AS uuid,  -- Its own id.
    CASE typeof(r.parent) WHEN 'blob' THEN lower(
        substr(hex(r.parent), 1, 8) || '-' || substr(hex(r.parent), 9, 4) || '-'
        || substr(hex(r.parent), 13, 4) || '-' || substr(hex(r.parent), 17, 4) || '-'
        || substr(hex(r.parent), 21)
    ) ELSE r.parent END AS parent_uuid,  -- The record that it follows.
    r.message AS message_id,  -- The message that it is a part of.
    m.name AS model,  -- The model that answered.
    b.name AS git_branch,  -- The branch that was checked out.
    r.flags & 1 AS is_error,  -- 1 if it is an error.
    r.flags >> 1 & 1 AS is_sidechain,  -- 1 if a subagent wrote it.
    r.flags >> 2 & 1 AS is_context,  -- 1 if the program added it as context.
    r.id IN (SELECT record FROM repeats) AS is_repeat,  -- 1 if it is a copy from another session.
    r.length AS length_bytes,  -- The length of the line.
    l.kind AS kind,  -- The kind of log: session, subagent, day; prompts, plan, todos, task.
    l.home AS home,  -- Its home.
    l.path AS log,  -- The log.
    r.id & 1099511627775 AS offset  -- Its offset there.
FROM records AS r
LEFT JOIN names AS t ON t.id = r.type
LEFT JOIN names AS a ON a.id = r.author
LEFT JOIN names AS m ON m.id = r.model
LEFT JOIN names AS b ON b.id = r.branch
LEFT JOIN sessions AS s ON s.id = r.session
LEFT JOIN projects AS p ON p.id = s.project
LEFT JOIN logs AS l ON l.id = r.id >> 40;

-- Messages: API responses, each counted once. A further pass that is billed separately, such as an
-- advisor's, is a row of its own.
CREATE VIEW v_messages AS
SELECT
    strftime('%Y-%m-%dT%H:%M:%fZ', m.at / 1e6, 'unixepoch') AS at,  -- When it was written.
    s.name AS session,  -- The session of the request.
    p.name AS project,  -- The directory in which that began.
    coalesce(m.subagent, (SELECT x.subagent FROM sidechains AS x WHERE x.record = m.record))
        AS subagent,  -- The subagent; null: the main one.
    m.message_id AS message_id,  -- The API's id of the message.
    m.request_id AS request_id,  -- The API's id of the request.
    nullif(m.part, '') AS part,  -- The further pass; null: the message itself.
    o.name AS model,  -- The model that answered.
    'anthropic:' || o.name AS backing_model_id,  -- The model with its vendor.
    m.input AS tokens_in,  -- Fresh input tokens.
    m.output AS tokens_out,  -- Output tokens.
    m.cache_write_5m AS cache_write_5m,  -- Tokens written to the 5-minute cache.
    m.cache_write_1h AS cache_write_1h,  -- Tokens written to the 1-hour cache.
    m.cache_read AS cache_read,  -- Tokens read from the cache.
    m.web_searches AS web_searches,  -- Web searches by the API.
    d.name AS speed,  -- The requested speed.
    e.name AS service_tier,  -- The service tier.
    g.name AS inference_geo,  -- The inference region.
    m.recorded_usd AS recorded_usd,  -- The cost recorded in the log.
    m.is_sidechain AS is_sidechain,  -- 1 if it is of a subagent.
    c.name AS cwd,  -- The working directory.
    l.home AS home,  -- Its home.
    l.path AS log,  -- The log with the record that counts.
    m.record & 1099511627775 AS offset  -- Its offset there.
FROM messages AS m
LEFT JOIN names AS s ON s.id = m.session
LEFT JOIN names AS p ON p.id = m.project
LEFT JOIN names AS o ON o.id = m.model
LEFT JOIN names AS d ON d.id = m.speed
LEFT JOIN names AS e ON e.id = m.service_tier
LEFT JOIN names AS g ON g.id = m.inference_geo
LEFT JOIN names AS c ON c.id = m.cwd
LEFT JOIN logs AS l ON l.id = m.record >> 40;

-- Calls of tools, with their results.
CREATE VIEW v_calls AS
SELECT
    strftime('%Y-%m-%dT%H:%M:%fZ', r.at / 1e6, 'unixepoch') AS at,  -- When it was made.
    s.session AS session,  -- The session.
    p.path AS project,  -- The session's project.
    coalesce((SELECT x.subagent FROM sidechains AS x WHERE x.record = r.id), l.subagent)
        AS subagent,  -- The subagent; null: the main one.
    t.name AS tool,  -- The tool.
    c.call_id AS call_id,  -- The call's id.
    f.path AS path,  -- The file that it names, if any.
    h.action AS action,  -- What it does with the file: read, write, edit, search.
    c.is_error AS is_error,  -- 1 if it failed, 0 if not; null: no result yet.
    c.duration_us / 1000 AS duration_ms,  -- The time between call and result.
    m.name AS model,  -- The model that made the call.
    r.message AS message_id,  -- The message with the call.
    lower(hex(c.digest)) AS input_digest,  -- Equal for calls with equal input.
    nullif(lower(hex(c.signature)), '') AS error_signature,  -- Equal for similar errors.
    r.id IN (SELECT record FROM repeats) AS is_repeat,  -- 1 if it is a copy from another session.
    l.home AS home,  -- Its home.
    l.path AS log,  -- The log with the call …
    c.record & 1099511627775 AS offset,  -- … and the record's offset.
    c.block AS block,  -- The block of the record.
    k.path AS result_log,  -- The log with the result …
    c.result & 1099511627775 AS result_offset  -- … and the record's offset.
FROM calls AS c
JOIN records AS r ON r.id = c.record
LEFT JOIN names AS t ON t.id = c.tool
LEFT JOIN names AS m ON m.id = r.model
LEFT JOIN sessions AS s ON s.id = r.session
LEFT JOIN projects AS p ON p.id = s.project
LEFT JOIN logs AS l ON l.id = c.record >> 40
LEFT JOIN logs AS k ON k.id = c.result >> 40
LEFT JOIN touches AS h ON h.record = c.record AND h.block = c.block
LEFT JOIN paths AS f ON f.id = h.path;

-- Errors: failed calls, and errors of the API.
CREATE VIEW v_errors AS
SELECT
    c.at AS at,  -- When it was made.
    'call' AS kind,  -- call, or api for errors of the API or the program.
    c.session AS session,  -- The session.
    c.project AS project,  -- The session's project.
    c.subagent AS subagent,  -- The subagent; null: the main one.
    c.tool AS tool,  -- The tool that failed.
    c.path AS path,  -- The file that the call names.
    c.call_id AS call_id,  -- The call's id.
    c.error_signature AS error_signature,  -- Equal for similar errors.
    c.duration_ms AS duration_ms,  -- The duration of the call.
    c.home AS home,  -- Its home.
    c.result_log AS log,  -- The log with the error …
    c.result_offset AS offset  -- … and the record's offset.
FROM v_calls AS c
WHERE c.is_error
UNION ALL
SELECT
    r.at, 'api', r.session, r.project, r.subagent, NULL, NULL, NULL, NULL, NULL, r.home, r.log,
    r.offset
FROM v_records AS r
WHERE r.is_error AND r.author <> 'tool';

-- Files that calls name, one row per call.
CREATE VIEW v_files AS
SELECT
    c.at AS at,  -- When.
    c.path AS path,  -- The file.
    c.action AS action,  -- read, write, edit or search.
    c.tool AS tool,  -- The tool.
    c.session AS session,  -- The session.
    c.project AS project,  -- The session's project.
    c.subagent AS subagent,  -- The subagent; null: the main one.
    c.is_error AS is_error,  -- 1 if the call failed; null: no result yet.
    c.home AS home,  -- Its home.
    c.log AS log,  -- The log …
    c.offset AS offset  -- … and the record's offset.
FROM v_calls AS c
WHERE c.path IS NOT NULL;

-- Prompts that people typed. Their text: text(log, offset).
CREATE VIEW v_prompts AS
SELECT
    r.at AS at,  -- When.
    r.session AS session,  -- The session.
    r.project AS project,  -- The session's project.
    r.git_branch AS git_branch,  -- The branch that was checked out.
    r.uuid AS uuid,  -- The record's id.
    r.length_bytes AS length_bytes,  -- The length of the record.
    r.is_repeat AS is_repeat,  -- 1 if it is a copy from another session.
    r.home AS home,  -- Its home.
    r.log AS log,  -- The log …
    r.offset AS offset  -- … and the record's offset.
FROM v_records AS r
WHERE r.author = 'human' AND r.is_context = 0 AND r.kind IN ('session', 'day');

-- Logs, and side files that are read like logs.
CREATE VIEW v_logs AS
SELECT
    l.path AS log,  -- Its path.
    l.kind AS kind,  -- session, subagent, day; prompts, plan, todos, task.
    l.layout AS layout,  -- claude, dated, flat; beside for side files.
    l.session AS session,  -- The session; null for the log of a day, which has many.
    (SELECT p.path FROM sessions AS s JOIN projects AS p ON p.id = s.project
     WHERE s.session = l.session AND s.home = l.home) AS project,  -- The session's project.
    l.subagent AS subagent,  -- The subagent whose log it is.
    max(l.text_size_bytes, 0) AS size_bytes,  -- Its size when it was read.
    l.text_offset AS read_bytes,  -- How far it was read.
    l.generation AS generation,  -- Increases when it was rewritten or replaced.
    strftime('%Y-%m-%dT%H:%M:%fZ', l.text_mtime_ns / 1e9, 'unixepoch') AS changed_at,  -- Its mtime.
    strftime('%Y-%m-%dT%H:%M:%fZ', l.gone_at / 1e6, 'unixepoch') AS gone_at,  -- When it was found deleted.
    l.problem AS problem,  -- Why it could not be read.
    l.home AS home  -- Its home.
FROM logs AS l;

-- Damages: bytes in logs that are not records.
CREATE VIEW v_damages AS
SELECT
    d.reason AS reason,  -- The kind of damage.
    d.detail AS detail,  -- Details.
    d.length AS length_bytes,  -- The number of bytes.
    l.session AS session,  -- The session whose log it is.
    (SELECT p.path FROM sessions AS s JOIN projects AS p ON p.id = s.project
     WHERE s.session = l.session AND s.home = l.home) AS project,  -- The session's project.
    l.home AS home,  -- Its home.
    l.path AS log,  -- The log …
    d.id & 1099511627775 AS offset  -- … and the offset.
FROM damages AS d
LEFT JOIN logs AS l ON l.id = d.id >> 40;

-- Days, in UTC, and the tokens of each model on each.
CREATE VIEW v_days AS
SELECT
    substr(m.at, 1, 10) AS day,  -- The day.
    m.model AS model,  -- The model.
    m.backing_model_id AS backing_model_id,  -- The model with its vendor.
    sum(m.part IS NULL) AS messages,  -- API responses.
    count(DISTINCT m.session) AS sessions,  -- Sessions with messages.
    sum(m.tokens_in) AS tokens_in,  -- Fresh input tokens.
    sum(m.tokens_out) AS tokens_out,  -- Output tokens.
    sum(m.cache_write_5m) AS cache_write_5m,  -- Tokens written to the 5-minute cache.
    sum(m.cache_write_1h) AS cache_write_1h,  -- Tokens written to the 1-hour cache.
    sum(m.cache_read) AS cache_read,  -- Tokens read from the cache.
    sum(m.web_searches) AS web_searches  -- Web searches by the API.
FROM v_messages AS m
GROUP BY substr(m.at, 1, 10), m.model;
