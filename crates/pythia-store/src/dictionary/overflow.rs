//! Reading the rest of a large key from the overflow pages after its entry page.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use pythia_io::PagedFile;

use super::format::{Damage, EntryHeader, LargeRecord, OVERFLOW_HEADER_BYTES, overflow_payload};
use super::symbols::SymbolTable;
use crate::StoreError;

/// Pages requested at once.
const PAGES_AT_ONCE: usize = 64;

/// The code before a literal byte; a piece may end between the two.
const ESCAPE: u8 = 255;

/// The rest of one large key, checked to lie within its pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overflow {
    kind: u8,
    table: u16,
    /// Page number of the entry page.
    owner: u64,
    record: LargeRecord,
    payload_bytes: usize,
}

impl Overflow {
    /// Returns the rest of the key that `record` describes, in page `owner` with this header.
    pub(super) fn new(
        file: &PagedFile,
        owner: u64,
        header: &EntryHeader,
        record: LargeRecord,
    ) -> Result<Self, Damage> {
        let payload_bytes = file.page_bytes() - OVERFLOW_HEADER_BYTES;
        let pages_after = file.page_count().saturating_sub(owner + 1);
        let capacity =
            pages_after.min(u64::from(header.overflow_page_count)) * payload_bytes as u64;
        let end = record.offset.checked_add(record.stored_bytes);
        if record.stored_bytes == 0 || end.is_none_or(|end| end > capacity) {
            return Err(Damage(
                "a large key to end within the page's overflow pages",
            ));
        }
        Ok(Self {
            kind: header.kind,
            table: header.table,
            owner,
            record,
            payload_bytes,
        })
    }

    /// Appends the rest of the key to `key`.
    pub(super) fn read(
        &self,
        file: &PagedFile,
        tables: &[SymbolTable],
        key: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let start = key.len();
        self.pieces(file, tables, PAGES_AT_ONCE, |piece| {
            key.extend_from_slice(piece);
            ControlFlow::Continue(())
        })?;
        if (key.len() - start) as u64 != self.record.key_bytes {
            return Err(
                Damage("a large key of the length it has in its entry").at(file.name(), self.owner)
            );
        }
        Ok(())
    }

    /// Compares `rest` with the rest of the key, reading no more pages than needed.
    pub(super) fn compare(
        &self,
        file: &PagedFile,
        tables: &[SymbolTable],
        mut rest: &[u8],
    ) -> Result<Ordering, StoreError> {
        let mut order = None;
        self.pieces(file, tables, 1, |piece| {
            let (head, tail) = rest.split_at(rest.len().min(piece.len()));
            match head.cmp(piece) {
                Ordering::Equal => {
                    rest = tail;
                    ControlFlow::Continue(())
                }
                decided => {
                    order = Some(decided);
                    ControlFlow::Break(())
                }
            }
        })?;
        Ok(order.unwrap_or(if rest.is_empty() {
            Ordering::Equal
        } else {
            Ordering::Greater
        }))
    }

    /// Passes on the rest of the key piece by piece.
    fn pieces(
        &self,
        file: &PagedFile,
        tables: &[SymbolTable],
        pages_at_once: usize,
        mut f: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let payload = self.payload_bytes as u64;
        let first = self.record.offset / payload;
        let end = (self.record.offset + self.record.stored_bytes).div_ceil(payload);
        let mut skip = (self.record.offset % payload) as usize;
        let mut left = self.record.stored_bytes;
        let mut expansion = Expansion {
            table: self
                .record
                .compressed
                .then(|| &tables[usize::from(self.table)]),
            codes: Vec::new(),
            text: Vec::new(),
        };
        let mut done = false;
        let mut next = first;
        while next < end && !done {
            let stop = end.min(next + pages_at_once as u64);
            let numbers: Vec<u64> = (next..stop).map(|page| self.owner + 1 + page).collect();
            next = stop;
            file.pages(&numbers, |index, page| {
                if done {
                    return Ok(());
                }
                let damaged = |damage: Damage| damage.at(file.name(), numbers[index]);
                let bytes =
                    &overflow_payload(page, self.kind, self.owner).map_err(damaged)?[skip..];
                skip = 0;
                let length =
                    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                left -= length as u64;
                let piece = expansion
                    .expand(&bytes[..length], left == 0)
                    .map_err(damaged)?;
                done = f(piece).is_break();
                Ok::<(), StoreError>(())
            })?;
        }
        Ok(())
    }
}

/// Decompressor of codes that come in arbitrary pieces.
struct Expansion<'t> {
    /// `None`: the bytes are raw.
    table: Option<&'t SymbolTable>,
    codes: Vec<u8>,
    text: Vec<u8>,
}

impl Expansion<'_> {
    fn expand<'a>(&'a mut self, bytes: &'a [u8], last: bool) -> Result<&'a [u8], Damage> {
        let Some(table) = self.table else {
            return Ok(bytes);
        };
        self.codes.extend_from_slice(bytes);
        // Every other byte ends a code, so after an odd number of escapes the last one is open.
        let escapes = self.codes.iter().rev().take_while(|&&code| code == ESCAPE);
        let open = !last && escapes.count() % 2 == 1;
        let whole = self.codes.len() - usize::from(open);
        self.text.clear();
        table.expand(&self.codes[..whole], usize::MAX, &mut self.text)?;
        self.codes.drain(..whole);
        Ok(&self.text)
    }
}
