//! A transaction's changes in the form of the log. Few changes are one set. Many are written to a file beside the
//! log, piece by piece, so that memory never holds all of them; this is done before the transaction's turn to commit.

use pythia_log::{Bulk, BulkChunk, BulkWriter, ChangeSet, Log};
use pythia_rdf::TermId;

use crate::StoreError;
use crate::delta::{Quad, Run, TermView};
use crate::pattern::Order;
use crate::snapshot::{Snapshot, change_set};
use crate::version::ChangedGraphs;

/// Changes in a piece.
const PIECE_ROWS: usize = 8192;
/// Limit of the bytes of terms in a piece of more than one change.
const PIECE_BYTES: usize = 1 << 20;
/// Most bytes that a piece takes while it is made, unless a term is longer.
pub(super) const LOGGED_BYTES: usize = PIECE_BYTES + PIECE_ROWS * LOGGED_QUAD_BYTES;
/// Bytes of that per quad.
pub(super) const LOGGED_QUAD_BYTES: usize = 128;

/// The part of a transaction that is handed to the log.
pub(super) struct Logged {
    pub(super) changes: LoggedChanges,
    /// The transaction's new terms that its changes use, in order.
    pub(super) new_terms: Vec<TermId>,
    pub(super) changed: ChangedGraphs,
}

/// Changes in the form that the log takes.
pub(super) enum LoggedChanges {
    Few(ChangeSet),
    /// In a file beside the log.
    Many(Bulk),
}

impl Logged {
    /// Makes the logged form of a run's changes. `view` has all terms of the run; `private` are the new ones.
    pub(super) fn new(
        log: &Log,
        view: &Snapshot,
        run: &Run,
        private: &TermView,
    ) -> Result<Self, StoreError> {
        let mut maker = Maker {
            view,
            private,
            new_terms: Vec::new(),
            changed: ChangedGraphs::default(),
        };
        let few = match run.len() <= PIECE_ROWS {
            true => maker.piece(run, 0..run.len())?,
            false => None,
        };
        let changes = match few {
            Some(set) => LoggedChanges::Few(set),
            None => {
                let bulk = log.begin_bulk()?;
                let name = bulk.name().to_owned();
                let put = maker.put_all(run, bulk);
                LoggedChanges::Many(put.inspect_err(|_| log.discard(&name))?)
            }
        };
        // In the order in which the terms were added, so that they keep their ids if no other commit has added any.
        let mut new_terms = maker.new_terms;
        new_terms.sort_unstable();
        new_terms.dedup();
        Ok(Self {
            changes,
            new_terms,
            changed: maker.changed,
        })
    }
}

struct Maker<'a> {
    view: &'a Snapshot,
    private: &'a TermView,
    new_terms: Vec<TermId>,
    changed: ChangedGraphs,
}

impl Maker<'_> {
    /// Writes all changes of a run to a file.
    fn put_all(&mut self, run: &Run, mut bulk: BulkWriter) -> Result<Bulk, StoreError> {
        for first in (0..run.len()).step_by(PIECE_ROWS) {
            let last = (first + PIECE_ROWS).min(run.len());
            self.put(run, first..last, &mut bulk)?;
        }
        Ok(bulk.finish()?)
    }

    /// Writes some of a run's changes to a file.
    fn put(
        &mut self,
        run: &Run,
        rows: std::ops::Range<usize>,
        bulk: &mut BulkWriter,
    ) -> Result<(), StoreError> {
        match self.piece(run, rows.clone())? {
            Some(set) => {
                let chunks = BulkChunk::all_of(&set)?;
                drop(set);
                Ok(chunks.iter().try_for_each(|chunk| bulk.push_chunk(chunk))?)
            }
            None => {
                let middle = rows.start + rows.len() / 2;
                self.put(run, rows.start..middle, bulk)?;
                self.put(run, middle..rows.end, bulk)
            }
        }
    }

    /// Returns some of a run's changes; `None` if their terms are too long together.
    fn piece(
        &mut self,
        run: &Run,
        rows: std::ops::Range<usize>,
    ) -> Result<Option<ChangeSet>, StoreError> {
        let most = match rows.len() {
            1 => usize::MAX,
            _ => PIECE_BYTES,
        };
        let all = run.rows(Order::Spo);
        let rows: Vec<(Quad, bool)> = rows.map(|row| (all.row(row), all.sign(row) > 0)).collect();
        let (known, private) = (self.new_terms.len(), self.private);
        let new_terms = &mut self.new_terms;
        let set = change_set(self.view, &rows, most, |id| {
            if private.contains(id) {
                new_terms.push(id);
            }
        })?;
        match &set {
            Some(set) => self.changed.add(set),
            None => self.new_terms.truncate(known),
        }
        Ok(set)
    }
}
