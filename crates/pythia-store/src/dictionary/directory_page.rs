//! A directory page of the dictionary: for some entry pages of a kind, each one's first rank, number and separator.

use std::cmp::Ordering;

use pythia_io::SEAL_BYTES;

use super::common_prefix;
use super::format::Damage;

/// Bytes before the ranks: the seal, a mark, the number of entries, the length of the prefix.
const HEADER_BYTES: usize = 16;
const MARK: [u8; 4] = *b"ddr\x01";
const NUMBER_BYTES: usize = 8;
/// Bytes of an entry without its separator: first rank, page number, end of the separator.
const ENTRY_BYTES: usize = 2 * NUMBER_BYTES + 2;

/// One entry page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageStart {
    /// Rank of its first key.
    pub(super) rank: u64,
    /// Its number in the file.
    pub(super) number: u64,
}

/// A directory page being filled.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenDirectoryPage {
    starts: Vec<PageStart>,
    /// The separators, one after the other, and the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Length of the prefix that all separators share.
    prefix: usize,
}

impl OpenDirectoryPage {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Adds an entry, unless the page has no room for it.
    #[must_use]
    pub(super) fn push(&mut self, start: PageStart, separator: &[u8], page_bytes: usize) -> bool {
        let prefix = match self.ends.first() {
            None => separator.len(),
            // Separators ascend, so those between the first and this one share what these two do.
            Some(&end) => self
                .prefix
                .min(common_prefix(&self.bytes[..end], separator)),
        };
        let count = self.len() + 1;
        let suffixes = self.bytes.len() + separator.len() - count * prefix;
        if HEADER_BYTES + count * ENTRY_BYTES + prefix + suffixes > page_bytes {
            return false;
        }
        self.prefix = prefix;
        self.starts.push(start);
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len());
        true
    }

    /// Returns the page, and begins the next one.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let open = std::mem::take(self);
        let mut page = vec![0; HEADER_BYTES];
        page[SEAL_BYTES..8].copy_from_slice(&MARK);
        page[8..12].copy_from_slice(&(open.len() as u32).to_le_bytes());
        page[12..14].copy_from_slice(&(open.prefix as u16).to_le_bytes());
        for start in &open.starts {
            page.extend_from_slice(&start.rank.to_le_bytes());
        }
        for start in &open.starts {
            page.extend_from_slice(&start.number.to_le_bytes());
        }
        for (index, end) in open.ends.iter().enumerate() {
            let end = end - (index + 1) * open.prefix;
            page.extend_from_slice(&(end as u16).to_le_bytes());
        }
        let first = open.ends.first().map_or(0, |end| open.prefix.min(*end));
        page.extend_from_slice(&open.bytes[..first]);
        let mut begin = 0;
        for end in open.ends {
            page.extend_from_slice(&open.bytes[begin + open.prefix..end]);
            begin = end;
        }
        page
    }
}

/// A directory page. Its entries are not trusted.
pub(super) struct DirectoryPage<'a> {
    ranks: &'a [[u8; NUMBER_BYTES]],
    numbers: &'a [[u8; NUMBER_BYTES]],
    ends: &'a [[u8; 2]],
    prefix: &'a [u8],
    suffixes: &'a [u8],
}

impl<'a> DirectoryPage<'a> {
    /// Returns a view of a page, which must have this number of entries.
    pub(super) fn parse(page: &'a [u8], entries: usize) -> Result<Self, Damage> {
        let stored = u32::from_le_bytes([page[8], page[9], page[10], page[11]]) as usize;
        if page[SEAL_BYTES..8] != MARK || stored != entries {
            return Err(Damage("the directory page that `directory` lists here"));
        }
        let parts = || {
            let prefix = usize::from(u16::from_le_bytes([page[12], page[13]]));
            let rest = &page[HEADER_BYTES..];
            let (ranks, rest) = rest.split_at_checked(entries * NUMBER_BYTES)?;
            let (numbers, rest) = rest.split_at_checked(entries * NUMBER_BYTES)?;
            let (ends, rest) = rest.split_at_checked(entries * 2)?;
            let (prefix, suffixes) = rest.split_at_checked(prefix)?;
            Some(Self {
                ranks: ranks.as_chunks().0,
                numbers: numbers.as_chunks().0,
                ends: ends.as_chunks().0,
                prefix,
                suffixes,
            })
        };
        parts().ok_or(Damage("a directory page with room for its entries"))
    }

    /// Returns the rank of the first key of an entry page.
    pub(super) fn rank(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.ranks[index])
    }

    /// Returns the number of an entry page.
    pub(super) fn number(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.numbers[index])
    }

    /// Returns the number of entry pages whose first rank is at most `rank`.
    pub(super) fn count_up_to(&self, rank: u64) -> usize {
        self.ranks
            .partition_point(|bytes| u64::from_le_bytes(*bytes) <= rank)
    }

    /// Returns the number of separators that compare to `key` as `most` or less.
    pub(super) fn partition(&self, key: &[u8], most: Ordering) -> Result<usize, Damage> {
        let Some(rest) = key.strip_prefix(self.prefix) else {
            // All separators begin with the prefix, so they are on its side of the key.
            return Ok(match self.prefix.cmp(key) {
                Ordering::Less => self.ends.len(),
                _ => 0,
            });
        };
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.suffix(middle)?.cmp(rest) <= most {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    fn suffix(&self, index: usize) -> Result<&'a [u8], Damage> {
        let end = |index: usize| usize::from(u16::from_le_bytes(self.ends[index]));
        let start = index.checked_sub(1).map_or(0, end);
        let suffix = self.suffixes.get(start..end(index));
        suffix.ok_or(Damage("separators within their directory page"))
    }
}
