-- Indexes on the tables of schema.sql. They are created after the first logs were read, which is several
-- times as fast as updating them from the beginning.

CREATE INDEX IF NOT EXISTS records_by_uuid ON records (uuid) WHERE uuid IS NOT NULL;
CREATE INDEX IF NOT EXISTS records_by_session ON records (session);
CREATE INDEX IF NOT EXISTS carried_by_origin ON carried (origin);
CREATE INDEX IF NOT EXISTS repeats_by_first ON repeats (first);
CREATE INDEX IF NOT EXISTS sidechains_by_subagent ON sidechains (subagent);
CREATE INDEX IF NOT EXISTS calls_by_id ON calls (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS calls_with_error ON calls (signature) WHERE is_error;
CREATE INDEX IF NOT EXISTS calls_by_result ON calls (result) WHERE result IS NOT NULL;
CREATE INDEX IF NOT EXISTS touches_by_path ON touches (path);
CREATE INDEX IF NOT EXISTS usage_entries_by_name ON usage_entries (name);
CREATE INDEX IF NOT EXISTS usage_entries_by_session ON usage_entries (session);
CREATE INDEX IF NOT EXISTS messages_by_name ON messages (name);
CREATE INDEX IF NOT EXISTS messages_by_session ON messages (session);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (at);
CREATE INDEX IF NOT EXISTS skipped_by_log ON skipped (log);
CREATE INDEX IF NOT EXISTS sessions_by_time ON sessions (last_active_at);
CREATE INDEX IF NOT EXISTS subagents_by_session ON subagents (session);
CREATE INDEX IF NOT EXISTS records_with_error ON records (at) WHERE flags & 1;
