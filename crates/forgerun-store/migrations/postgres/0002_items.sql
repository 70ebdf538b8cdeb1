-- How the items of a batch ended, one list per execution. Put anew with every attempt of the execution, fixed once it has ended.
CREATE TABLE items (
    execution uuid  NOT NULL PRIMARY KEY,
    ends      bytea NOT NULL
);
