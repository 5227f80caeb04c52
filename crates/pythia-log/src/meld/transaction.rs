//! A transaction on a state: it reads the state and its own writes, and ends as an intention.

use std::collections::{BTreeMap, BTreeSet};

use super::intention::{Intention, Range, Reads, Write};
use super::{Key, State, Value};

/// A transaction that runs on one state, and whose writes only it sees.
#[derive(Clone, Debug)]
pub struct Transaction {
    state: State,
    reads: Option<ReadSet>,
    writes: BTreeMap<Key, Option<Value>>,
}

#[derive(Clone, Debug, Default)]
struct ReadSet {
    keys: BTreeSet<Key>,
    ranges: Vec<(Key, Option<Key>)>,
}

impl Transaction {
    /// Begins a transaction with snapshot isolation: it aborts if an item that it writes was written meanwhile.
    pub fn snapshot(state: State) -> Self {
        Self {
            state,
            reads: None,
            writes: BTreeMap::new(),
        }
    }

    /// Begins a serializable transaction: it also aborts if anything that it has read was written meanwhile.
    pub fn serializable(state: State) -> Self {
        Self {
            reads: Some(ReadSet::default()),
            ..Self::snapshot(state)
        }
    }

    /// Returns the value of an item.
    pub fn get(&mut self, key: &[u8]) -> Option<Value> {
        if let Some(written) = self.writes.get(key) {
            return written.clone();
        }
        if let Some(reads) = &mut self.reads {
            reads.keys.insert(key.into());
        }
        self.state.get(key).cloned()
    }

    /// Returns the items of a range, in order.
    pub fn scan(&mut self, range: Range<'_>) -> Vec<(Key, Value)> {
        if let Some(reads) = &mut self.reads {
            let range = (range.from.into(), range.to.map(Into::into));
            reads.ranges.push(range);
        }
        let found = self.state.scan(range);
        let found = found.map(|(key, value)| (Key::clone(key), Some(Value::clone(value))));
        let mut items: BTreeMap<Key, Option<Value>> = found.collect();
        let written = self
            .writes
            .iter()
            .filter(|(key, _)| range.begins_by(key) && range.ends_after(key));
        items.extend(written.map(|(key, value)| (key.clone(), value.clone())));
        let present = items.into_iter();
        present
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }

    /// Sets the value of an item.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes.insert(key.into(), Some(value.into()));
    }

    /// Removes an item.
    pub fn remove(&mut self, key: &[u8]) {
        self.writes.insert(key.into(), None);
    }

    /// Ends the transaction and returns its intention as bytes, to be appended to the log. `None` if it has written
    /// nothing: then it has read one state, and there is nothing to decide.
    pub fn finish(self) -> Option<Vec<u8>> {
        if self.writes.is_empty() {
            return None;
        }
        let writes = self.writes.iter();
        let writes = writes.map(|(key, value)| Write {
            key,
            value: value.as_deref(),
        });
        let intention = Intention {
            snapshot: self.state.next(),
            reads: self.reads.as_ref().map(ReadSet::borrowed),
            writes: writes.collect(),
        };
        Some(intention.encode())
    }
}

impl ReadSet {
    fn borrowed(&self) -> Reads<'_> {
        let ranges = self.ranges.iter().map(|(from, to)| Range {
            from,
            to: to.as_deref(),
        });
        Reads {
            keys: self.keys.iter().map(AsRef::as_ref).collect(),
            ranges: ranges.collect(),
        }
    }
}
