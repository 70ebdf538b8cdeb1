-- How long what a tombstone stands for was kept, in microseconds. NULL: deleted before its time, or not known.
ALTER TABLE tombstones ADD COLUMN kept INTEGER;
