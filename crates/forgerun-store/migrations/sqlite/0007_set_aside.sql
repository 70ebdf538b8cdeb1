-- Rows that nobody can read, or on which the rules break: an operator's list. The row itself stays where it is, but on no
-- shelf, in no chain, and never due.
CREATE TABLE set_aside (
    kind   INTEGER NOT NULL,  -- 1: a job, 2: a delivery
    id     BLOB    NOT NULL,
    at     INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
