-- How the items of a batch ended, one list per execution. Put anew with every attempt of the execution, fixed once it has ended.
CREATE TABLE items (
    execution BLOB NOT NULL UNIQUE,
    ends      BLOB NOT NULL
);
