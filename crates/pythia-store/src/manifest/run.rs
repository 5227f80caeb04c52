//! Manifest entries of runs on the device.

use pythia_rdf::{TermId, TermKind};
use serde::{Deserialize, Serialize};

use super::{ManifestFile, SegmentEntry};
use crate::pattern::Order;

/// The folder of added quads.
pub(crate) const ADDED: &str = "added";
/// The folder of removed quads.
pub(crate) const REMOVED: &str = "removed";

/// The number of a run's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub u64);

impl RunId {
    /// Returns the folder.
    pub fn folder(self) -> String {
        format!("run-{:06}", self.0)
    }

    /// Returns the number in a folder's name.
    pub fn from_folder(name: &str) -> Option<Self> {
        let number = name.strip_prefix("run-")?.parse().ok()?;
        Some(Self(number))
    }
}

/// The new terms of one kind in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermSpan {
    /// The kind's number.
    pub kind: u8,
    /// The payload of the first.
    pub first: u64,
    /// Number of terms; their payloads are consecutive.
    pub count: u64,
    /// Whether their payloads are in the order of their keys.
    pub sorted: bool,
}

impl TermSpan {
    /// Returns the span's term with this serial number, from 0.
    pub(crate) fn id(&self, serial: u64) -> TermId {
        TermId(u64::from(self.kind) << TermId::PAYLOAD_BITS | (self.first + serial))
    }

    /// Returns the serial number of an id that is one of these terms.
    pub(crate) fn serial(&self, id: TermId) -> Option<u64> {
        let serial = id.payload().checked_sub(self.first)?;
        (id.kind_number() == self.kind && serial < self.count).then_some(serial)
    }

    /// Returns the payload after the last.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }
}

/// A run on the device, as a manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEntry {
    /// Its folder.
    pub id: RunId,
    /// Quads that were added.
    pub added: SegmentEntry,
    /// Quads that were removed.
    pub removed: SegmentEntry,
    /// Its own files, without those of the two segments.
    pub files: Vec<ManifestFile>,
    /// Its new terms, for each of [`TermKind::DICTIONARY`].
    pub terms: Vec<TermSpan>,
}

impl RunEntry {
    /// Returns the bytes of all its files.
    pub fn bytes(&self) -> u64 {
        let own: u64 = self.files.iter().map(|file| file.bytes).sum();
        own + self.added.bytes() + self.removed.bytes()
    }

    /// Returns the folders and entries of its two segments.
    pub(crate) fn segments(&self) -> [(String, &SegmentEntry); 2] {
        let folder = |name| format!("{}/{name}", self.id.folder());
        [
            (folder(ADDED), &self.added),
            (folder(REMOVED), &self.removed),
        ]
    }

    /// Returns the orders that the run has: runs of earlier programs lack GPSO.
    pub(crate) fn orders(&self) -> impl Iterator<Item = Order> + '_ {
        let has = |order: &Order| {
            let name = format!("{}.pages", order.name());
            self.added.files.iter().any(|file| file.name == name)
        };
        Order::ALL.into_iter().filter(has)
    }

    /// Returns the number of added and removed quads together.
    pub fn changes(&self) -> u64 {
        self.added.quads + self.removed.quads
    }

    /// Returns the number of new terms.
    pub fn term_count(&self) -> u64 {
        self.terms.iter().map(|span| span.count).sum()
    }

    /// Raises payloads, for each of [`TermKind::DICTIONARY`], to those after the run's new terms.
    pub(crate) fn raise(&self, ends: &mut [u64; TermKind::DICTIONARY.len()]) {
        for (end, kind) in ends.iter_mut().zip(TermKind::DICTIONARY) {
            if let Some(span) = self.span(kind) {
                *end = (*end).max(span.end());
            }
        }
    }

    /// Returns the new terms of the kind, if the entry is sound.
    pub(crate) fn span(&self, kind: TermKind) -> Option<&TermSpan> {
        self.terms.iter().find(|span| span.kind == kind as u8)
    }
}
