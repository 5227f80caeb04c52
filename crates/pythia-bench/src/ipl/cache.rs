//! The buffer: pages in memory, of which the one not used for long is given up (second chance).

use rustc_hash::FxHashMap;

/// Values by page number, up to a capacity.
#[derive(Debug)]
pub(super) struct Cache<T> {
    capacity: usize,
    frames: Vec<Frame<T>>,
    places: FxHashMap<u32, usize>,
    hand: usize,
}

#[derive(Debug)]
struct Frame<T> {
    page: u32,
    value: T,
    /// Used since the hand was last here.
    is_used: bool,
}

impl<T> Cache<T> {
    /// Returns an empty cache for at least one page.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            frames: Vec::new(),
            places: FxHashMap::default(),
            hand: 0,
        }
    }

    /// Returns the value of a page.
    pub(super) fn get(&mut self, page: u32) -> Option<&mut T> {
        let frame = &mut self.frames[*self.places.get(&page)?];
        frame.is_used = true;
        Some(&mut frame.value)
    }

    /// Adds the value of a page that is not there. Returns the page that it replaces, if the cache is full.
    pub(super) fn insert(&mut self, page: u32, value: T) -> Option<(u32, T)> {
        let frame = Frame {
            page,
            value,
            is_used: true,
        };
        if self.frames.len() < self.capacity {
            self.places.insert(page, self.frames.len());
            self.frames.push(frame);
            return None;
        }
        while std::mem::take(&mut self.frames[self.hand].is_used) {
            self.hand = (self.hand + 1) % self.frames.len();
        }
        let old = std::mem::replace(&mut self.frames[self.hand], frame);
        self.places.remove(&old.page);
        self.places.insert(page, self.hand);
        self.hand = (self.hand + 1) % self.frames.len();
        Some((old.page, old.value))
    }

    /// Changes the capacity. Pages that no longer fit are dropped.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
        for frame in self.frames.drain(self.capacity.min(self.frames.len())..) {
            self.places.remove(&frame.page);
        }
        self.hand %= self.frames.len().max(1);
    }

    /// Returns the numbers of the pages.
    pub(super) fn pages(&self) -> Vec<u32> {
        self.frames.iter().map(|frame| frame.page).collect()
    }
}
