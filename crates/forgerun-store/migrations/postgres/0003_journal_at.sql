-- Where the journal stood at a moment: a listener that comes back knows when it was told the last event.
CREATE INDEX journal_at ON journal (at, seq);
