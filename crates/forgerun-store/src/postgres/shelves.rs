//! Statements that read shelves, all along `jobs_shelf`.

pub(super) const LOCK_SHELF: &str = "
    SELECT id, head, body
      FROM jobs
     WHERE lane = $1::smallint AND shelf = $2::text
     ORDER BY priority DESC, coalesce(place, id)
     LIMIT $3::bigint
       FOR UPDATE SKIP LOCKED";

pub(super) const LOCK_SHELF_FROM: &str = "
    SELECT id, head, body
      FROM jobs
     WHERE lane = $1::smallint AND shelf = $2::text AND priority = $4::smallint AND coalesce(place, id) >= $5::uuid
     ORDER BY coalesce(place, id)
     LIMIT $3::bigint
       FOR UPDATE SKIP LOCKED";

pub(super) const COUNT_SHELF: &str = "
    SELECT count(*)
      FROM (SELECT FROM jobs WHERE lane = $1::smallint AND shelf = $2::text LIMIT $3::bigint) AS head";

pub(super) const READ_FRONT: &str = "
    SELECT priority, coalesce(place, id)
      FROM jobs
     WHERE lane = $1::smallint AND shelf = $2::text
     ORDER BY priority DESC, coalesce(place, id)
     LIMIT $3::bigint";

pub(super) const READ_FRONT_JOBS: &str = "
    SELECT id, head, body
      FROM jobs
     WHERE lane = $1::smallint AND shelf = $2::text
     ORDER BY priority DESC, coalesce(place, id)
     LIMIT $3::bigint";

pub(super) const READ_SHELF_NAMES: &str = "
      WITH RECURSIVE names AS (
           (SELECT shelf FROM jobs WHERE lane = $1::smallint AND shelf > $2::text ORDER BY shelf LIMIT 1)
            UNION ALL
           SELECT (SELECT shelf FROM jobs WHERE lane = $1::smallint AND shelf > names.shelf ORDER BY shelf LIMIT 1)
             FROM names
            WHERE names.shelf IS NOT NULL)
    SELECT shelf FROM names WHERE shelf IS NOT NULL LIMIT $3::bigint";
