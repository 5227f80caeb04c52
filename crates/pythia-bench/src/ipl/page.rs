//! A page of records sorted by key: the image in memory is the one on the device.
//!
//! | bytes | content |
//! |---|---|
//! | 0–1 | number of records |
//! | 2–3 | first byte of the heap |
//! | 4… | place of each record in the heap, by key; 2 bytes each |
//! | …8191 | heap: for each record the length of its value (1 byte), the key (8) and the value |

use std::ops::{Deref, DerefMut};

/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = 8192;
const HEADER_BYTES: usize = 4;
const PLACE_BYTES: usize = 2;
/// Bytes of a record besides its value.
const RECORD_BYTES: usize = 9;

/// A page over its image: its own, or bytes of a block.
#[derive(Clone, Debug)]
pub(super) struct Page<B = Box<[u8]>>(B);

impl Page {
    /// Returns an empty page.
    pub(super) fn new() -> Self {
        let mut page = Self(vec![0; PAGE_BYTES].into());
        page.set_number(2, PAGE_BYTES);
        page
    }

    /// Returns a page with a copy of this image.
    pub(super) fn copy_of(image: &[u8]) -> Self {
        Self(image.into())
    }
}

impl<B: Deref<Target = [u8]>> Page<B> {
    /// Returns its image.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.number(0)
    }

    /// Returns the record at an index below [`Self::len`].
    pub(super) fn record(&self, index: usize) -> (u64, &[u8]) {
        let place = self.place(index);
        let value = place + RECORD_BYTES;
        (
            self.key(index),
            &self.0[value..value + usize::from(self.0[place])],
        )
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: u64) -> Option<&[u8]> {
        let index = self.find(key).ok()?;
        Some(self.record(index).1)
    }

    /// Returns the value of the greatest key up to this one.
    pub(super) fn floor(&self, key: u64) -> Option<&[u8]> {
        let index = match self.find(key) {
            Ok(index) => index,
            Err(next) => next.checked_sub(1)?,
        };
        Some(self.record(index).1)
    }

    /// Returns the key that halves the records.
    pub(super) fn middle(&self) -> u64 {
        self.key(self.len() / 2)
    }

    /// Returns a page of the records from this key on.
    pub(super) fn upper(&self, key: u64) -> Page {
        let (Ok(index) | Err(index)) = self.find(key);
        self.copy_from(index)
    }

    fn copy_from(&self, index: usize) -> Page {
        let mut copy = Page::new();
        for index in index..self.len() {
            let (key, value) = self.record(index);
            copy.insert(key, value);
        }
        copy
    }

    fn find(&self, key: u64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn key(&self, index: usize) -> u64 {
        let start = self.place(index) + 1;
        let bytes = self.0[start..start + 8].try_into();
        u64::from_be_bytes(bytes.expect("eight bytes"))
    }

    fn place(&self, index: usize) -> usize {
        self.number(place_at(index))
    }

    fn record_bytes(&self, index: usize) -> usize {
        RECORD_BYTES + usize::from(self.0[self.place(index)])
    }

    fn live_bytes(&self) -> usize {
        (0..self.len()).map(|index| self.record_bytes(index)).sum()
    }

    fn number(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }
}

impl<B: DerefMut<Target = [u8]>> Page<B> {
    /// Returns the page whose image these bytes are.
    pub(super) fn over(image: B) -> Self {
        Self(image)
    }

    /// Inserts a record, or replaces the one with this key. Returns false, without a change, if there is no room.
    pub(super) fn insert(&mut self, key: u64, value: &[u8]) -> bool {
        let found = self.find(key);
        let bytes = RECORD_BYTES + value.len();
        let places = HEADER_BYTES + PLACE_BYTES * (self.len() + usize::from(found.is_err()));
        if self.number(2) < places + bytes {
            let old = found.map_or(0, |index| self.record_bytes(index));
            if places + self.live_bytes() - old + bytes > PAGE_BYTES {
                return false;
            }
            if let Ok(index) = found {
                self.remove(index);
            }
            self.compact();
            return self.insert(key, value);
        }
        let heap = self.number(2) - bytes;
        self.0[heap] = value.len() as u8;
        self.0[heap + 1..heap + RECORD_BYTES].copy_from_slice(&key.to_be_bytes());
        self.0[heap + RECORD_BYTES..heap + bytes].copy_from_slice(value);
        self.set_number(2, heap);
        let index = found.unwrap_or_else(|index| {
            let (start, end) = (place_at(index), place_at(self.len()));
            self.0.copy_within(start..end, start + PLACE_BYTES);
            self.set_number(0, self.len() + 1);
            index
        });
        self.set_number(place_at(index), heap);
        true
    }

    /// Removes the records from this key on.
    pub(super) fn cut(&mut self, key: u64) {
        let (Ok(index) | Err(index)) = self.find(key);
        self.set_number(0, index);
    }

    fn compact(&mut self) {
        let copy = self.copy_from(0);
        self.0.copy_from_slice(&copy.0);
    }

    fn remove(&mut self, index: usize) {
        let (next, end) = (place_at(index + 1), place_at(self.len()));
        self.0.copy_within(next..end, next - PLACE_BYTES);
        self.set_number(0, self.len() - 1);
    }

    fn set_number(&mut self, at: usize, number: usize) {
        self.0[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
    }
}

fn place_at(index: usize) -> usize {
    HEADER_BYTES + PLACE_BYTES * index
}
