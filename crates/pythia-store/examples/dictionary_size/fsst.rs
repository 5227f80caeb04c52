//! The store's coding: FSST with up to 255 symbols of up to eight bytes, as in `src/dictionary/{symbols,writer}.rs`.

use ::fsst::{Compressor, CompressorBuilder};
use pythia_rdf::TermKind;

use crate::codes::{compress, sample, shorter_bytes};
use crate::pages::Coder;

const ESCAPE: u8 = 255;
const TRAINING_BYTES_MIN: usize = 4 << 10;
const RETRAIN_BYTES_MIN: u64 = 4 << 20;
const RETRAIN_SHARE: u64 = 16;
const RETRAIN_GAIN: usize = 32;
const COMPARISON_BYTES: usize = 64 << 10;

/// A symbol table to decompress with.
pub(crate) struct SymbolTable {
    symbols: [[u8; 8]; 256],
    lengths: [u8; 256],
}

impl SymbolTable {
    pub(crate) const MEMORY_BYTES: usize = 256 * 9;

    pub(crate) fn of(compressor: &Compressor) -> Self {
        let mut table = Self {
            symbols: [[0; 8]; 256],
            lengths: [0; 256],
        };
        let symbols = compressor
            .symbol_table()
            .iter()
            .zip(compressor.symbol_lengths());
        for (code, (symbol, &length)) in symbols.enumerate() {
            table.symbols[code] = symbol.to_u64().to_le_bytes();
            table.lengths[code] = length;
        }
        table
    }

    #[inline]
    pub(crate) fn expand(&self, codes: &[u8], wanted: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let most = (codes.len() * 8).min(wanted.saturating_add(8));
        out.resize(start + most + 8, 0);
        let target = &mut out[start..];
        let mut length = 0;
        let mut codes = codes.iter();
        while length < wanted {
            let Some(&code) = codes.next() else { break };
            let place = target[length..].first_chunk_mut::<8>();
            let place = place.expect("room for one more symbol than the codes have");
            if code == ESCAPE {
                place[0] = *codes.next().expect("a byte after each escape");
                length += 1;
            } else {
                *place = self.symbols[usize::from(code)];
                length += usize::from(self.lengths[usize::from(code)]);
            }
        }
        out.truncate(start + length);
    }
}

/// The time to train another table.
#[derive(Default)]
pub(crate) struct Schedule {
    kind_bytes: u64,
    retrain_at: u64,
}

impl Schedule {
    /// Counts a batch; returns whether a table is due.
    pub(crate) fn is_due(&mut self, batch_bytes: u64) -> bool {
        let due = self.kind_bytes >= self.retrain_at;
        self.kind_bytes += batch_bytes;
        if due {
            let step = RETRAIN_BYTES_MIN.max(self.kind_bytes / RETRAIN_SHARE);
            self.retrain_at = self.kind_bytes + step;
        }
        due
    }
}

/// The coder.
pub(crate) struct Fsst {
    pub(crate) compressor: Compressor,
    tables: Vec<SymbolTable>,
    trained: bool,
    schedule: Schedule,
}

impl Fsst {
    pub(crate) fn new() -> Self {
        Self {
            compressor: CompressorBuilder::new().build(),
            tables: Vec::new(),
            trained: false,
            schedule: Schedule::default(),
        }
    }

    /// Trains a table, and adopts it if it is clearly better; returns whether it is.
    pub(crate) fn retrain(&mut self, suffixes: &[&[u8]]) -> bool {
        let total: usize = suffixes.iter().map(|suffix| suffix.len()).sum();
        let candidate = if total < TRAINING_BYTES_MIN {
            if self.trained {
                return false;
            }
            CompressorBuilder::new().build()
        } else {
            Compressor::train(&suffixes.to_vec())
        };
        if self.trained {
            let sample = sample(suffixes, COMPARISON_BYTES);
            let [old, new] = [&self.compressor, &candidate].map(|compressor| {
                let (mut codes, mut ends) = (Vec::new(), Vec::new());
                compress(compressor, &sample, &mut codes, &mut ends);
                shorter_bytes(&sample, &ends)
            });
            if new + new / RETRAIN_GAIN >= old {
                return false;
            }
        }
        self.tables.push(SymbolTable::of(&candidate));
        self.compressor = candidate;
        self.trained = true;
        true
    }
}

impl Coder for Fsst {
    fn start_kind(&mut self, _: TermKind) {
        self.trained = false;
        self.schedule = Schedule::default();
    }

    fn prepare(&mut self, suffixes: &[&[u8]], batch_bytes: u64) -> bool {
        self.schedule.is_due(batch_bytes) && self.retrain(suffixes)
    }

    fn compress(&mut self, values: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>) {
        compress(&self.compressor, values, codes, ends);
    }

    fn table(&self) -> usize {
        self.tables.len() - 1
    }

    fn expand(&self, table: usize, codes: &[u8], wanted: usize, out: &mut Vec<u8>) {
        self.tables[table].expand(codes, wanted, out);
    }

    fn stored_bytes(&self) -> usize {
        0
    }

    fn memory_bytes(&self) -> usize {
        self.tables.len() * SymbolTable::MEMORY_BYTES
    }
}
