//! A B+-tree over the page store: what runs on In-Page Logging in the paper.

use super::devices::Phase;
use super::page::Page;
use super::store::PageStore;
use super::{Layout, RecordStore};

/// A tree of records. The pages of inner nodes have the number of a child for its smallest key.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) store: PageStore,
    root: u32,
    /// Levels above the leaves.
    height: u32,
}

impl Tree {
    /// Returns an empty tree with a buffer of this many pages.
    pub(super) fn new(layout: Layout, buffer_pages: usize) -> Self {
        let mut store = PageStore::new(layout, buffer_pages);
        let root = store.add(Page::new());
        Self {
            store,
            root,
            height: 0,
        }
    }

    /// Returns the page of a key at a level; leaves have level 0.
    fn page_at(&mut self, level: u32, key: u64) -> u32 {
        let mut number = self.root;
        for _ in level..self.height {
            let child = self.store.page(number).floor(key);
            let child = child.expect("the first child has the smallest key");
            number = u32::from_le_bytes(child.try_into().expect("four bytes"));
        }
        number
    }

    fn insert_at(&mut self, level: u32, key: u64, value: &[u8]) {
        loop {
            let number = self.page_at(level, key);
            if self.store.insert(number, key, value) {
                return;
            }
            self.split(level, number);
        }
    }

    fn split(&mut self, level: u32, number: u32) {
        let page = self.store.page(number);
        let middle = page.middle();
        let upper = page.upper(middle);
        self.store.cut(number, middle);
        let new = self.store.add(upper);
        if number == self.root {
            let mut root = Page::new();
            root.insert(0, &number.to_le_bytes());
            root.insert(middle, &new.to_le_bytes());
            self.root = self.store.add(root);
            self.height += 1;
        } else {
            self.insert_at(level + 1, middle, &new.to_le_bytes());
        }
    }
}

impl RecordStore for Tree {
    fn insert(&mut self, key: u64, value: &[u8]) {
        self.insert_at(0, key, value);
    }

    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        let leaf = self.page_at(0, key);
        self.store.page(leaf).get(key).map(<[u8]>::to_vec)
    }

    fn flush(&mut self) {
        self.store.flush();
    }

    fn take_phase(&mut self) -> Phase {
        self.store.meter.take()
    }
}
