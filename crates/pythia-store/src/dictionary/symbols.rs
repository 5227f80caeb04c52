//! FSST symbol tables: trained while writing, kept in the directory, applied while reading.
//!
//! A table maps codes 0–254 to symbols of one to eight bytes; code 255 precedes one literal byte. Compression is
//! `fsst-rs`. Decompression is the loop here, because it must reject damaged input instead of panicking, stop after
//! the wanted bytes, and append to a buffer that is reused.

use fsst::Compressor;

use pythia_io::bytes::{ByteReader, ByteWriter};

use super::format::Damage;
use crate::StoreError;

/// The code before a literal byte.
const ESCAPE: u8 = 255;
/// Longest symbol.
const SYMBOL_BYTES_MAX: usize = 8;

/// A symbol table to decompress with.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SymbolTable {
    symbols: Box<[[u8; SYMBOL_BYTES_MAX]; 256]>,
    /// 0: the code is unused.
    lengths: Box<[u8; 256]>,
}

impl std::fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SymbolTable({} symbols)", self.count())
    }
}

impl SymbolTable {
    /// Bytes of memory of one table.
    pub(super) const MEMORY_BYTES: usize = 256 * (SYMBOL_BYTES_MAX + 1);

    /// Returns the table of `compressor`.
    pub(super) fn of(compressor: &Compressor) -> Self {
        let mut table = Self::empty();
        let symbols = compressor.symbol_table();
        for (code, (symbol, &length)) in symbols.iter().zip(compressor.symbol_lengths()).enumerate()
        {
            table.symbols[code] = symbol.to_u64().to_le_bytes();
            table.lengths[code] = length;
        }
        table
    }

    fn empty() -> Self {
        Self {
            symbols: Box::new([[0; SYMBOL_BYTES_MAX]; 256]),
            lengths: Box::new([0; 256]),
        }
    }

    fn count(&self) -> usize {
        self.lengths
            .iter()
            .take_while(|&&length| length > 0)
            .count()
    }

    /// Appends the expansion of `codes` to `out`; stops once there are at least `wanted` bytes.
    #[inline]
    pub(super) fn expand(
        &self,
        codes: &[u8],
        wanted: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        let start = out.len();
        let most = (codes.len() * SYMBOL_BYTES_MAX).min(wanted.saturating_add(SYMBOL_BYTES_MAX));
        out.resize(start + most + SYMBOL_BYTES_MAX, 0);
        let target = &mut out[start..];
        let mut length = 0usize;
        let mut known = true;
        let mut codes = codes.iter();
        while length < wanted {
            let Some(&code) = codes.next() else { break };
            let place = target[length..]
                .first_chunk_mut::<SYMBOL_BYTES_MAX>()
                .expect("room for one more symbol than the codes have");
            if code == ESCAPE {
                let Some(&literal) = codes.next() else {
                    known = false;
                    break;
                };
                place[0] = literal;
                length += 1;
            } else {
                *place = self.symbols[usize::from(code)];
                let symbol_bytes = usize::from(self.lengths[usize::from(code)]);
                known &= symbol_bytes > 0;
                length += symbol_bytes;
            }
        }
        out.truncate(start + length);
        if known {
            Ok(())
        } else {
            Err(Damage("codes of the page's symbol table"))
        }
    }

    /// Appends the table's bytes.
    pub(super) fn encode(&self, writer: &mut ByteWriter) {
        let count = self.count();
        writer.u8(u8::try_from(count).expect("at most 255 symbols"));
        writer.raw(&self.lengths[..count]);
        for (symbol, &length) in self.symbols[..count].iter().zip(&self.lengths[..]) {
            writer.raw(&symbol[..usize::from(length)]);
        }
    }

    /// Reads the output of [`Self::encode`].
    pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let mut table = Self::empty();
        let count = usize::from(reader.u8()?);
        let lengths = reader.raw(count)?;
        if lengths.iter().any(|length| !(1..=8).contains(length)) {
            return Err(reader.corrupt("symbols of one to eight bytes before this place"));
        }
        table.lengths[..count].copy_from_slice(lengths);
        for (symbol, &length) in table.symbols.iter_mut().zip(lengths) {
            symbol[..usize::from(length)].copy_from_slice(reader.raw(usize::from(length))?);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trained(texts: &[&[u8]]) -> (Compressor, SymbolTable) {
        let compressor = Compressor::train(&texts.to_vec());
        let table = SymbolTable::of(&compressor);
        (compressor, table)
    }

    proptest! {
        #[test]
        fn expansion_inverts_compression(texts in prop::collection::vec(
            prop_oneof![prop::collection::vec(0u8..4, 0..60), any::<Vec<u8>>(), "[a-e/]{0,80}".prop_map(String::into_bytes)], 0..40,
        )) {
            let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            let (compressor, table) = trained(&slices);
            let mut writer = ByteWriter::new();
            table.encode(&mut writer);
            let mut reader = ByteReader::new("test", writer.as_slice());
            prop_assert_eq!(&SymbolTable::decode(&mut reader).unwrap(), &table);
            let (mut codes, mut ends) = (Vec::new(), Vec::new());
            compressor.compress_bulk_into::<4>(&slices, &mut codes, &mut ends);
            let mut start = 0;
            for (text, &end) in texts.iter().zip(&ends) {
                let end = usize::try_from(end).unwrap();
                let mut out = b"before".to_vec();
                table.expand(&codes[start..end], usize::MAX, &mut out).unwrap();
                prop_assert_eq!(&out[6..], &text[..]);
                let wanted = text.len() / 2;
                out.clear();
                table.expand(&codes[start..end], wanted, &mut out).unwrap();
                prop_assert!(out.len() >= wanted && text.starts_with(&out));
                start = end;
            }
        }

        #[test]
        fn any_codes_are_expanded_or_refused(texts: Vec<Vec<u8>>, codes: Vec<u8>, wanted in 0usize..100) {
            let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            let (_, table) = trained(&slices);
            let mut out = Vec::new();
            let _ = table.expand(&codes, wanted, &mut out);
            let _ = table.expand(&codes, usize::MAX, &mut out);
        }
    }
}
