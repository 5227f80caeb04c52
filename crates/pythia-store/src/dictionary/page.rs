//! Reading an entry page: lookup of an entry's key, and of a key's entry.

use std::cmp::Ordering;

use super::common_prefix;
use super::format::{
    Damage, EntryHeader, GROUP_ENTRIES, GROUP_OFFSET_BYTES, HEADER_BYTES, LARGE_RECORD_BYTES,
    LargeRecord,
};
use super::symbols::SymbolTable;

/// Bytes of a suffix that are expanded first.
const COMPARED_FIRST_BYTES: usize = 16;

/// An entry page whose fixed parts have been checked.
#[derive(Debug)]
pub(super) struct EntryPage<'a> {
    /// The used part of the page.
    bytes: &'a [u8],
    header: EntryHeader,
    table: &'a SymbolTable,
    group_count: usize,
    /// The page's first key, which groups' first entries share bytes with.
    reference: Suffix<'a>,
    /// Start of the first group.
    groups_start: usize,
}

/// The stored bytes of a suffix.
#[derive(Clone, Copy, Debug, Default)]
struct Suffix<'a> {
    bytes: &'a [u8],
    compressed: bool,
}

/// A group's first entry.
#[derive(Clone, Copy, Debug)]
struct Restart<'a> {
    /// Bytes shared with the page's first key.
    shared: usize,
    suffix: Suffix<'a>,
    /// Start and end of the group's other entries.
    rest: usize,
    end: usize,
}

impl Suffix<'_> {
    /// Returns the length and encoding as in the page: twice the length, plus one if raw.
    fn length_and_coding(&self) -> u32 {
        (self.bytes.len() as u32) << 1 | u32::from(!self.compressed)
    }
}

/// The entries of a group: their shared lengths, and the places of their suffixes.
#[derive(Clone, Copy, Debug, Default)]
struct EntryGroup {
    count: usize,
    shared: [u32; GROUP_ENTRIES],
    /// Twice the length of the suffix, plus one if it is raw.
    lengths: [u32; GROUP_ENTRIES],
    starts: [u32; GROUP_ENTRIES],
}

impl<'a> EntryPage<'a> {
    /// Checks the fixed parts of `page`; `tables` are those of the directory.
    pub(super) fn parse(page: &'a [u8], tables: &'a [SymbolTable]) -> Result<Self, Damage> {
        let header = EntryHeader::read(page)?;
        let bytes = page
            .get(..header.used_bytes as usize)
            .ok_or(Damage("used bytes within the page"))?;
        let table = tables
            .get(usize::from(header.table))
            .ok_or(Damage("the number of a symbol table in the directory"))?;
        let group_count = usize::from(header.entry_count).div_ceil(GROUP_ENTRIES);
        if group_count == 0 {
            return Err(Damage("at least one entry"));
        }
        let mut position = HEADER_BYTES
            + GROUP_OFFSET_BYTES * group_count
            + LARGE_RECORD_BYTES * usize::from(header.large_count);
        let reference =
            varint(bytes, &mut position).ok_or(Damage("the length of the first key"))?;
        let reference = suffix(bytes, &mut position, reference)
            .ok_or(Damage("the page's first key within its used bytes"))?;
        Ok(Self {
            bytes,
            header,
            table,
            group_count,
            reference,
            groups_start: position,
        })
    }

    /// Returns the page's fixed part.
    pub(super) fn header(&self) -> &EntryHeader {
        &self.header
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        usize::from(self.header.entry_count)
    }

    /// Returns the first entry of a group.
    fn restart(&self, index: usize) -> Result<Restart<'a>, Damage> {
        let offset = |index: usize| {
            let place = HEADER_BYTES + GROUP_OFFSET_BYTES * index;
            usize::from(u16::from_le_bytes([
                self.bytes[place],
                self.bytes[place + 1],
            ]))
        };
        let mut position = offset(index);
        let end = if index + 1 < self.group_count {
            offset(index + 1)
        } else {
            self.bytes.len()
        };
        if position < self.groups_start || end > self.bytes.len() || position > end {
            return Err(Damage("group offsets in order, within the used bytes"));
        }
        let bytes = &self.bytes[..end];
        let mut read = || {
            let shared = varint(bytes, &mut position)?;
            let length = varint(bytes, &mut position)?;
            let suffix = suffix(bytes, &mut position, length)?;
            Some((shared as usize, suffix))
        };
        let (shared, suffix) = read().ok_or(Damage("a group's first entry within the group"))?;
        Ok(Restart {
            shared,
            suffix,
            rest: position,
            end,
        })
    }

    /// Returns all entries of a group.
    fn group(&self, index: usize, restart: &Restart<'a>) -> Result<EntryGroup, Damage> {
        let count = (self.len() - index * GROUP_ENTRIES).min(GROUP_ENTRIES);
        let mut group = EntryGroup {
            count,
            ..EntryGroup::default()
        };
        group.shared[0] = restart.shared as u32;
        group.lengths[0] = restart.suffix.length_and_coding();
        group.starts[0] = (restart.rest - restart.suffix.bytes.len()) as u32;
        let bytes = &self.bytes[..restart.end];
        let mut position = restart.rest;
        match bytes.get(position..position + 2 * (count - 1)) {
            // Nearly always all lengths are short.
            Some(short) if short.iter().fold(0, |all, byte| all | byte) < 0x80 => {
                let (pairs, _) = short.as_chunks::<2>();
                for (entry, &[shared, length]) in (1..).zip(pairs) {
                    group.shared[entry] = u32::from(shared);
                    group.lengths[entry] = u32::from(length);
                }
                position += short.len();
            }
            _ => {
                for entry in 1..count {
                    let mut read = || {
                        group.shared[entry] = varint(bytes, &mut position)?;
                        group.lengths[entry] = varint(bytes, &mut position)?;
                        Some(())
                    };
                    read().ok_or(Damage("the lengths of an entry"))?;
                }
            }
        }
        for entry in 1..count {
            group.starts[entry] = position as u32;
            position += (group.lengths[entry] >> 1) as usize;
            if position > restart.end {
                return Err(Damage("an entry's suffix within its group"));
            }
        }
        if position != restart.end {
            return Err(Damage("a group to end where the next one starts"));
        }
        Ok(group)
    }

    /// Returns the suffix of an entry of a group of this page.
    #[inline]
    fn suffix(&self, group: &EntryGroup, entry: usize) -> Suffix<'a> {
        let start = group.starts[entry] as usize;
        let length = group.lengths[entry];
        Suffix {
            bytes: &self.bytes[start..start + (length >> 1) as usize],
            compressed: length & 1 == 0,
        }
    }

    /// Appends at least `wanted` bytes of the suffix to `out`, or all of it if it is shorter.
    #[inline]
    fn expand(&self, suffix: Suffix<'_>, wanted: usize, out: &mut Vec<u8>) -> Result<(), Damage> {
        if suffix.compressed {
            self.table.expand(suffix.bytes, wanted, out)
        } else {
            out.extend_from_slice(&suffix.bytes[..suffix.bytes.len().min(wanted)]);
            Ok(())
        }
    }

    /// Appends the first `length` bytes of a suffix to `out`.
    fn expand_exactly(
        &self,
        suffix: Suffix<'_>,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        let end = out.len() + length;
        self.expand(suffix, length, out)?;
        if out.len() < end {
            return Err(Damage("no more shared bytes than the entry before has"));
        }
        out.truncate(end);
        Ok(())
    }

    /// Returns the place of the rest of an entry's key, if the key is large.
    pub(super) fn large(&self, entry: usize) -> Result<Option<LargeRecord>, Damage> {
        if self.header.large_count == 0 {
            return Ok(None);
        }
        let start = HEADER_BYTES + GROUP_OFFSET_BYTES * self.group_count;
        let (records, _) = self.bytes[start..self.groups_start].as_chunks::<LARGE_RECORD_BYTES>();
        for record in &records[..usize::from(self.header.large_count)] {
            let record = LargeRecord::read(record)?;
            if usize::from(record.entry) == entry {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Returns the entry with key `target`, or the entry before which it would be.
    ///
    /// `continuation` compares the rest of the target with the rest of a large key.
    pub(super) fn search<E: From<Damage>>(
        &self,
        target: &[u8],
        scratch: &mut Vec<u8>,
        mut continuation: impl FnMut(LargeRecord, &[u8]) -> Result<Ordering, E>,
    ) -> Result<Result<usize, usize>, E> {
        let mut search = Search {
            page: self,
            target,
            scratch,
            continuation: &mut continuation,
        };
        search.run()
    }
}

/// A search in progress.
struct Search<'s, 'a, F> {
    page: &'s EntryPage<'a>,
    target: &'s [u8],
    scratch: &'s mut Vec<u8>,
    continuation: &'s mut F,
}

impl<E: From<Damage>, F: FnMut(LargeRecord, &[u8]) -> Result<Ordering, E>> Search<'_, '_, F> {
    fn run(&mut self) -> Result<Result<usize, usize>, E> {
        let (order, reference_matched) = self.compare(0, self.page.reference)?;
        match order {
            Ordering::Less => return Ok(Err(0)),
            Ordering::Equal => return Ok(Ok(0)),
            Ordering::Greater => {}
        }
        // The last group whose first key is below the target, and the length of the match with it.
        let (mut low, mut high) = (0, self.page.group_count);
        let (mut restart, mut matched) = (self.page.restart(0)?, reference_matched);
        while high - low > 1 {
            let middle = low.midpoint(high);
            let candidate = self.page.restart(middle)?;
            let first = middle * GROUP_ENTRIES;
            match self.order(first, candidate.shared, candidate.suffix, reference_matched)? {
                (Ordering::Less, _) => high = middle,
                (Ordering::Equal, _) => return Ok(Ok(first)),
                (Ordering::Greater, now) => {
                    low = middle;
                    (restart, matched) = (candidate, now);
                }
            }
        }
        let group = self.page.group(low, &restart)?;
        for index in 1..group.count {
            let entry = low * GROUP_ENTRIES + index;
            let suffix = self.page.suffix(&group, index);
            match self.order(entry, group.shared[index] as usize, suffix, matched)? {
                (Ordering::Less, _) => return Ok(Err(entry)),
                (Ordering::Equal, _) => return Ok(Ok(entry)),
                (Ordering::Greater, now) => matched = now,
            }
        }
        Ok(Err(low * GROUP_ENTRIES + group.count))
    }

    /// Returns the target's order relative to an entry, and the number of bytes they have in common, given that the
    /// target is above the key this entry shares bytes with and has `matched` bytes in common with it.
    fn order(
        &mut self,
        entry: usize,
        shared: usize,
        suffix: Suffix<'_>,
        matched: usize,
    ) -> Result<(Ordering, usize), E> {
        if shared > matched {
            // The entry contains the byte in which that key is below the target.
            return Ok((Ordering::Greater, matched));
        }
        if shared < matched && !suffix.bytes.is_empty() {
            // The entry is above that key in a byte that that key shares with the target.
            return Ok((Ordering::Less, shared));
        }
        self.compare_at(entry, suffix, shared)
    }

    fn compare(&mut self, entry: usize, suffix: Suffix<'_>) -> Result<(Ordering, usize), E> {
        self.compare_at(entry, suffix, 0)
    }

    /// Compares an entry that starts with `matched` bytes of the target and continues with `suffix`.
    fn compare_at(
        &mut self,
        entry: usize,
        suffix: Suffix<'_>,
        matched: usize,
    ) -> Result<(Ordering, usize), E> {
        let rest = self.target.get(matched..).ok_or(E::from(Damage(
            "no more shared bytes than the entry before has",
        )))?;
        // Nearly always the first bytes decide.
        let mut wanted = COMPARED_FIRST_BYTES.min(rest.len() + 1);
        let mut same;
        loop {
            self.scratch.clear();
            self.page.expand(suffix, wanted, self.scratch)?;
            same = common_prefix(rest, self.scratch);
            let expanded = self.scratch.len();
            if same < expanded || expanded < wanted || wanted > rest.len() {
                break;
            }
            wanted = rest.len() + 1;
        }
        let matched = matched + same;
        if same < self.scratch.len() {
            let order = match rest.get(same) {
                Some(byte) => byte.cmp(&self.scratch[same]),
                None => Ordering::Less,
            };
            return Ok((order, matched));
        }
        let rest = &rest[same..];
        match self.page.large(entry)? {
            Some(record) => Ok(((self.continuation)(record, rest)?, matched)),
            None if rest.is_empty() => Ok((Ordering::Equal, matched)),
            None => Ok((Ordering::Greater, matched)),
        }
    }
}

/// A cursor that expands entries of one page into `key`; going forward within a group is cheapest.
#[derive(Debug)]
pub(super) struct EntryCursor<'p, 'a> {
    page: &'p EntryPage<'a>,
    group: EntryGroup,
    group_index: usize,
    /// The entry within the group that `key` holds.
    at: Option<usize>,
}

impl<'p, 'a> EntryCursor<'p, 'a> {
    /// Returns a cursor before the first entry.
    pub(super) fn new(page: &'p EntryPage<'a>) -> Self {
        Self {
            page,
            group: EntryGroup::default(),
            group_index: usize::MAX,
            at: None,
        }
    }

    /// Puts the key of `entry` (of a large one: its prefix) into `key`, which must hold the result of the last call.
    pub(super) fn seek(&mut self, entry: usize, key: &mut Vec<u8>) -> Result<(), Damage> {
        if entry >= self.page.len() {
            return Err(Damage("as many entries as the directory says"));
        }
        let (group_index, index) = (entry / GROUP_ENTRIES, entry % GROUP_ENTRIES);
        if group_index != self.group_index {
            self.at = None;
            self.group_index = usize::MAX;
            let restart = self.page.restart(group_index)?;
            self.group = self.page.group(group_index, &restart)?;
            self.group_index = group_index;
        }
        let base = self.at.filter(|&at| at <= index);
        if base == Some(index) {
            return Ok(());
        }
        self.at = None;
        self.assemble(base, index, key)?;
        self.at = Some(index);
        Ok(())
    }

    /// Expands only the bytes that make up the key, found by walking back over the entries: those between are often
    /// long and share little.
    fn assemble(&self, base: Option<usize>, index: usize, key: &mut Vec<u8>) -> Result<(), Damage> {
        let group = &self.group;
        let mut pieces = [(0usize, 0usize); GROUP_ENTRIES];
        let mut piece_count = 0;
        let mut wanted = group.shared[index] as usize;
        let stop = base.map_or(0, |base| base + 1);
        for between in (stop..index).rev() {
            let shared = group.shared[between] as usize;
            if wanted > shared {
                pieces[piece_count] = (between, wanted - shared);
                piece_count += 1;
                wanted = shared;
            }
        }
        if base.is_some() {
            if wanted > key.len() {
                return Err(Damage("no more shared bytes than the entry before has"));
            }
            key.truncate(wanted);
        } else {
            key.clear();
            self.page.expand_exactly(self.page.reference, wanted, key)?;
        }
        for &(between, length) in pieces[..piece_count].iter().rev() {
            let suffix = self.page.suffix(group, between);
            self.page.expand_exactly(suffix, length, key)?;
        }
        self.page
            .expand(self.page.suffix(group, index), usize::MAX, key)
    }
}

/// Reads a LEB128 integer of at most 32 bits. Tuned, instead of [`pythia_io::bytes::take_varint`]: decoding a block reads
/// two of them for each key, most have one byte, and the position is an index that is kept in a register.
#[inline]
fn varint(bytes: &[u8], position: &mut usize) -> Option<u32> {
    let byte = *bytes.get(*position)?;
    *position += 1;
    if byte < 0x80 {
        return Some(u32::from(byte));
    }
    varint_tail(bytes, position, u32::from(byte & 0x7f))
}

fn varint_tail(bytes: &[u8], position: &mut usize, mut value: u32) -> Option<u32> {
    for shift in [7, 14, 21, 28] {
        let byte = *bytes.get(*position)?;
        *position += 1;
        if shift == 28 && byte > 0x0f {
            return None;
        }
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Returns the stored bytes of a suffix with this `length_and_coding` (twice the length, plus one if raw).
#[inline]
fn suffix<'a>(bytes: &'a [u8], position: &mut usize, length_and_coding: u32) -> Option<Suffix<'a>> {
    let end = *position + (length_and_coding >> 1) as usize;
    let stored = bytes.get(*position..end)?;
    *position = end;
    Some(Suffix {
        bytes: stored,
        compressed: length_and_coding & 1 == 0,
    })
}
