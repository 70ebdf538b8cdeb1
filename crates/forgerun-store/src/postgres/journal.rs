//! The statements of the journal, and how its numbers are drawn.
//!
//! A reader that goes on after the last number it saw must miss nothing, but numbers are drawn in one order and committed
//! in another. So whoever is about to draw says so first, with a lock that names the last number drawn and that goes
//! after the commit has become visible; a reader goes no further than the lowest number so named.
//!
//! The order of one job's events is that of the numbers: a number is drawn when all rows are locked, just before the commit.
//!
//! Other ways were tried or thought through. Drawing under an exclusive lock is simpler, but holds it while the commit
//! is synced: commits queue up and no two can share a sync (40 % of the server's time on a busy machine).
//! `pg_snapshot_xmin` needs no lock at all, but transactions get their ids before they wait for rows. Waiting at a gap
//! needs a way to know that a number will never come.

/// Counts, activity and the announcement of a number, as parts of a statement; `$of` is what their rows depend on. Each connection counts in a slot of its own, so
/// this seldom waits; the lock that announces the number is shared, so that never does. Its upper sixteen bits keep it apart from advisory locks of
/// others. The numbers of all queues stand in one list: mostly there is one queue, and to take a list apart costs more than the row.
macro_rules! conclusion {
    ($of:literal) => {
        concat!(
            "
         counted AS (
         INSERT INTO counts (queue, slot, created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired)
         SELECT queue, $3::smallint, n[i + 1], n[i + 2], n[i + 3], n[i + 4], n[i + 5], n[i + 6], n[i + 7], n[i + 8], n[i + 9], n[i + 10]
           FROM (SELECT queue, $5::bigint[] AS n, (10 * place - 10)::integer AS i
                   FROM ", $of, "unnest($4::text[]) WITH ORDINALITY AS queues (queue, place)) AS more
             ON CONFLICT (queue, slot) DO UPDATE
            SET created = counts.created + EXCLUDED.created,
                queued = counts.queued + EXCLUDED.queued,
                assigned = counts.assigned + EXCLUDED.assigned,
                running = counts.running + EXCLUDED.running,
                succeeded = counts.succeeded + EXCLUDED.succeeded,
                failed = counts.failed + EXCLUDED.failed,
                canceled = counts.canceled + EXCLUDED.canceled,
                held = counts.held + EXCLUDED.held,
                waiting = counts.waiting + EXCLUDED.waiting,
                expired = counts.expired + EXCLUDED.expired),
         noted AS (
         INSERT INTO activity (queue, minute, slot, submitted, started, succeeded, failed, waited_ms, ran_ms)
         SELECT queue, n[i + 1], $3::smallint, n[i + 2], n[i + 3], n[i + 4], n[i + 5], n[i + 6], n[i + 7]
           FROM (SELECT queue, $7::bigint[] AS n, (7 * place - 7)::integer AS i
                   FROM ", $of, "unnest($6::text[]) WITH ORDINALITY AS queues (queue, place)) AS more
             ON CONFLICT (queue, minute, slot) DO UPDATE
            SET submitted = activity.submitted + EXCLUDED.submitted,
                started = activity.started + EXCLUDED.started,
                succeeded = activity.succeeded + EXCLUDED.succeeded,
                failed = activity.failed + EXCLUDED.failed,
                waited_ms = activity.waited_ms + EXCLUDED.waited_ms,
                ran_ms = activity.ran_ms + EXCLUDED.ran_ms),
         announced AS MATERIALIZED (
         SELECT FROM ", $of, "journal_seq, pg_advisory_xact_lock_shared(x'4652'::bigint << 48 | last_value))
    INSERT INTO journal (seq, at, entries)
    SELECT nextval('journal_seq'), $1::bigint, $2::bytea FROM announced WHERE $1::bigint IS NOT NULL"
        )
    };
}

/// What nearly every batch writes at its end.
pub(super) const CONCLUDE: &str = concat!("WITH", conclusion!(""));

/// New jobs, their inputs, and the same: all that a batch of submissions writes, as a transaction by itself. Nobody knows these jobs yet, so it does not
/// matter in which order the parts are done.
///
/// It writes if its queues are plain, as they were taken to be, and says so with the number in the journal: there is no webhook, none of the records
/// `$22` and `$23` is there, and in no queue of `$24` there wait more jobs than in `$25`.
pub(super) const SUBMIT: &str = concat!(
    "
    WITH plain AS MATERIALIZED (
         SELECT
          WHERE NOT EXISTS (SELECT FROM webhooks)
            AND NOT EXISTS (SELECT FROM unnest($22::smallint[], $23::text[]) AS want (kind, key)
                                   JOIN records USING (kind, key))
            AND NOT EXISTS (SELECT FROM unnest($24::text[], $25::bigint[]) AS seen (queue, most)
                             WHERE (SELECT sum(queued) FROM counts WHERE counts.queue = seen.queue) > most)),
         born AS (
         INSERT INTO jobs (id, client, queue, job_type, state, priority, lane, shelf, due_at, head, body, place)
         SELECT new.*
           FROM plain, unnest($8::uuid[], $9::uuid[], $10::text[], $11::text[], $12::smallint[], $13::smallint[],
                              $14::smallint[], $15::text[], $16::bigint[], $17::bytea[], $18::bytea[], $21::uuid[]) AS new),
         with_inputs AS (
         INSERT INTO inputs (job, input)
         SELECT new.* FROM plain, unnest($19::uuid[], $20::bytea[]) AS new),
         with_marks AS (
         INSERT INTO job_marks (mark, job, client)
         SELECT new.* FROM plain, unnest($26::bytea[], $27::uuid[], $28::uuid[]) AS new),",
    conclusion!("plain, "),
    " RETURNING seq"
);

/// Comes after the commit, in a transaction of its own that has nothing to sync: those that notify wait for each other
/// until they are committed. It is sent along with the commit, so the server runs it even if this node is gone by then.
pub(super) const NOTIFY: &str = "SELECT FROM pg_notify('forgerun', $1::text)";

/// Read before [`READ_DRAWING`]: whoever announces itself after that draws a higher number than this.
pub(super) const READ_DRAWN: &str = "SELECT last_value FROM journal_seq";

/// The lowest number that a transaction under way named before it drew its own.
pub(super) const READ_DRAWING: &str = "
    SELECT min((classid::bigint & 65535) << 32 | objid::bigint)
      FROM pg_locks
     WHERE locktype = 'advisory'
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND classid::bigint >> 16 = x'4652'::bigint
       AND objsubid = 1";

pub(super) const READ: &str = "
    SELECT seq, entries
      FROM journal
     WHERE seq > $1::bigint AND seq <= $3::bigint
     ORDER BY seq
     LIMIT $2::bigint";

pub(super) const READ_END: &str = "SELECT coalesce(max(seq), 0) FROM journal WHERE seq <= $1::bigint";

/// The lowest number rather than the earliest moment: nodes have clocks of their own. OFFSET keeps the planner from
/// walking along the numbers instead, which would begin with everything that is old.
pub(super) const READ_BEFORE: &str = "
    SELECT min(seq) - 1 FROM (SELECT seq FROM journal WHERE at >= $1::bigint OFFSET 0) AS young";

/// Found on `journal_at` alone, so that looking for nothing costs nothing. By moments, not by numbers: rows of a node whose clock was ahead
/// must not keep those behind them.
pub(super) const SWEEP: &str = "
    DELETE FROM journal
     WHERE seq IN (SELECT seq FROM journal WHERE at < $1::bigint AND seq <= $3::bigint ORDER BY at LIMIT $2::bigint)";
