//! Reads the tallies of other nodes.

use std::collections::HashMap;

use forgerun_core::id::ClientId;
use forgerun_core::tally::{NodeTally, TallyEntry};

use crate::limits::spending::{LimitKind, SpendingKey, SpentElsewhere};

/// What was read, so that nothing counts twice.
#[derive(Debug, Default)]
pub(super) struct TallyReader {
    /// `None` before the first time.
    nodes: Option<HashMap<String, HeardNode>>,
}

#[derive(Debug, Default)]
struct HeardNode {
    round: u64,
    entries: HashMap<SpendingKey, HeardEntry>,
}

#[derive(Clone, Copy, Debug)]
struct HeardEntry {
    begun: u64,
    spent: u64,
}

/// News in the tallies of other nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TallyNews {
    pub(super) spent: Vec<(SpendingKey, SpentElsewhere)>,
    pub(super) keys_changed: Vec<ClientId>,
}

impl TallyReader {
    /// Reads the tallies of all nodes but this one.
    pub(super) fn read(&mut self, tallies: &[NodeTally]) -> TallyNews {
        let mut news = TallyNews::default();
        let is_first = self.nodes.is_none();
        let mut before = self.nodes.take().unwrap_or_default();
        let mut nodes = HashMap::with_capacity(tallies.len());
        for tally in tallies {
            let known = before.remove(&tally.node).unwrap_or_default();
            let mut heard = HeardNode { round: tally.round, entries: HashMap::new() };
            for entry in &tally.entries {
                // A limit of a newer version.
                let Some(kind) = LimitKind::from_u8(entry.limit) else { continue };
                let key = (kind, entry.caller);
                heard.entries.insert(key, HeardEntry { begun: entry.begun, spent: entry.spent });
                match more(entry, &known, key) {
                    _ if is_first => news.spent.push((key, SpentElsewhere::Until(entry.full_at))),
                    Some(0) => {}
                    Some(n) => news.spent.push((key, SpentElsewhere::More(n))),
                    None => news.spent.push((key, SpentElsewhere::Until(entry.full_at))),
                }
            }
            let new_keys = tally.keys_changed.iter().filter(|(_, told)| *told > known.round);
            news.keys_changed.extend(new_keys.map(|(client, _)| *client));
            nodes.insert(tally.node.clone(), heard);
        }
        self.nodes = Some(nodes);
        news
    }
}

/// How much more was used than is known; `None` if unknown, because the entry was dropped for a
/// while.
fn more(entry: &TallyEntry, known: &HeardNode, key: SpendingKey) -> Option<u64> {
    match known.entries.get(&key) {
        Some(heard) if heard.begun == entry.begun => Some(entry.spent.saturating_sub(heard.spent)),
        Some(_) | None if entry.begun > known.round => Some(entry.spent),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::time::Time;

    use super::super::writer::TallyWriter;
    use super::*;
    use crate::limits::TALLY_ROUNDS_KEPT;

    const NOW: Time = Time::from_millis(1_000_000);
    const KEY: SpendingKey = (LimitKind::Requests, 7);

    /// A round in which the caller used so much; returns what is stored afterwards.
    fn round(told: &mut TallyWriter, spent: u64, stored: &mut Vec<NodeTally>) {
        told.begin();
        if spent > 0 {
            told.spent(KEY, spent, NOW);
        }
        if let Some(tally) = told.tally("a", NOW) {
            *stored = vec![tally];
            told.written();
        }
    }

    fn more(news: &TallyNews) -> Vec<u64> {
        let of = |(key, spent): &(SpendingKey, SpentElsewhere)| match spent {
            SpentElsewhere::More(n) if *key == KEY => *n,
            other => panic!("{other:?}"),
        };
        news.spent.iter().map(of).collect()
    }

    #[test]
    fn what_was_spent_is_heard_once_also_by_a_reader_that_missed_some_rounds() {
        let (mut told, mut heard, mut stored) = (TallyWriter::default(), TallyReader::default(), Vec::new());
        assert_eq!(heard.read(&stored), TallyNews::default());
        round(&mut told, 3, &mut stored);
        assert_eq!(more(&heard.read(&stored)), [3]);
        assert_eq!(more(&heard.read(&stored)), [0; 0], "nothing new");
        round(&mut told, 2, &mut stored);
        round(&mut told, 0, &mut stored);
        round(&mut told, 5, &mut stored);
        assert_eq!(more(&heard.read(&stored)), [7]);
    }

    #[test]
    fn a_caller_that_comes_back_after_a_while_is_counted_from_there() {
        let (mut told, mut heard, mut stored) = (TallyWriter::default(), TallyReader::default(), Vec::new());
        heard.read(&stored);
        round(&mut told, 50, &mut stored);
        assert_eq!(more(&heard.read(&stored)), [50]);
        for _ in 0..=TALLY_ROUNDS_KEPT {
            round(&mut told, 0, &mut stored);
            assert_eq!(more(&heard.read(&stored)), [0; 0]);
        }
        round(&mut told, 1, &mut stored);
        assert_eq!(more(&heard.read(&stored)), [1]);
        // The node was silent for so long that its tally was deleted.
        heard.read(&[]);
        for _ in 0..=TALLY_ROUNDS_KEPT {
            round(&mut told, 0, &mut stored);
        }
        round(&mut told, 4, &mut stored);
        assert_eq!(more(&heard.read(&stored)), [4]);
    }

    #[test]
    fn a_node_that_has_just_begun_hears_when_limits_are_whole_again() {
        let (mut told, mut heard, mut stored) = (TallyWriter::default(), TallyReader::default(), Vec::new());
        round(&mut told, 3, &mut stored);
        assert_eq!(heard.read(&stored).spent, [(KEY, SpentElsewhere::Until(NOW))]);
        round(&mut told, 4, &mut stored);
        assert_eq!(more(&heard.read(&stored)), [4]);
    }

    #[test]
    fn of_an_entry_that_was_crowded_out_it_is_known_when_the_limit_is_whole_again() {
        let (mut writer, mut reader, mut stored) =
            (TallyWriter::default(), TallyReader::default(), Vec::new());
        reader.read(&stored);
        round(&mut writer, 3, &mut stored);
        let without = NodeTally { entries: Vec::new(), ..stored[0].clone() };
        assert_eq!(reader.read(&[without]), TallyNews::default());
        round(&mut writer, 1, &mut stored);
        assert_eq!(
            reader.read(&stored).spent,
            [(KEY, SpentElsewhere::Until(NOW))],
            "3 may have been heard before"
        );
    }

    #[test]
    fn a_changed_key_is_heard_once_and_what_was_not_written_is_told_again() {
        let client = ClientId::from_u128(5);
        let (mut told, mut heard) = (TallyWriter::default(), TallyReader::default());
        heard.read(&[]);
        told.begin();
        assert_eq!(told.tally("a", NOW), None, "nothing to tell");
        told.key_changed(client);
        let lost = told.tally("a", NOW).unwrap();
        told.begin();
        let tally = [told.tally("a", NOW).unwrap()];
        assert_eq!(lost.keys_changed, tally[0].keys_changed);
        assert_eq!(heard.read(&tally).keys_changed, [client]);
        assert_eq!(heard.read(&tally).keys_changed, []);
    }
}
