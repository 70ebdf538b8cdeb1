-- A batch's row in the journal has a few kilobytes and is deleted soon: compressing it and moving it out of the table, as is done with rows over 2 kB,
-- costs more than it saves.
ALTER TABLE journal SET (toast_tuple_target = 8160);
