-- Rows that nobody can read, or on which the rules break: an operator's list. The row itself stays where it is, but on no
-- shelf, in no chain, and never due.
CREATE TABLE set_aside (
    id         uuid     NOT NULL,
    at         bigint   NOT NULL,
    kind       smallint NOT NULL,          -- 1: a job, 2: a delivery
    reason     text     NOT NULL,
    CONSTRAINT set_aside_pkey PRIMARY KEY (kind, id)
);
