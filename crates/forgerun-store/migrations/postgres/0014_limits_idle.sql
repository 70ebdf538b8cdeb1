-- Limits that nobody uses at the moment go with a sweep: their keys are chosen by clients, and there must be an end to them.
CREATE INDEX limits_idle ON limits (turn_at) WHERE active = 0;
