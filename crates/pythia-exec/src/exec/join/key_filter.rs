//! A filter of the keys of right solutions that are in files. A left solution whose key is not in it has no match, and is
//! neither written nor read again (Bulletin, "Storage Class Memory Aware Data Management": Bloom filters of joins).

use pythia_store::delta::device::{FilterBuilder, StoredFilter};

use super::matching::Matching;
use crate::limits::governor::Share;

/// Most bytes that a filter takes for each member.
const BYTES_PER_MEMBER: usize = 3;
/// Number of left solutions after which the filter is dropped if it drops few of them.
const JUDGED: u64 = 1 << 16;
/// A filter must drop one of this many solutions.
const DROPS_MIN: u64 = 16;

/// A filter while right solutions are added.
pub(super) struct OpenKeyFilter {
    builder: Option<FilterBuilder>,
    /// Number of right solutions for which it was made.
    members_max: u64,
    share: Share,
}

/// The filter that left solutions are looked up in, as long as that is of use.
pub(super) struct KeyFilter {
    filter: Option<StoredFilter>,
    asked: u64,
    dropped: u64,
    /// The memory of the filter.
    share: Share,
}

impl OpenKeyFilter {
    /// Makes a filter of at most `bytes`, which are not charged before [`Self::charge`]. There is none if the join needs left
    /// solutions without a match.
    pub(super) fn new(matching: &Matching, share: &Share, bytes: usize) -> Self {
        let members_max = (bytes / BYTES_PER_MEMBER) as u64;
        let is_useful = matching.wants_matches() && matching.has_keys() && members_max > 0;
        Self {
            builder: is_useful.then(|| FilterBuilder::new(members_max)),
            members_max,
            share: share.part(),
        }
    }

    /// Charges the filter, or drops it if there is no memory for it.
    pub(super) fn charge(&mut self) {
        let bytes = self.builder.as_ref().map(FilterBuilder::memory_bytes);
        if bytes.is_some_and(|bytes| !self.share.fits(bytes)) {
            self.builder = None;
        }
    }

    /// Adds the hash of a right solution's keys.
    pub(super) fn add(&mut self, hash: u64) {
        if let Some(builder) = &mut self.builder {
            builder.add(hash);
        }
    }

    /// Returns the filter of all right solutions. With more than twice the expected members it would let most solutions pass.
    pub(super) fn finish(self) -> KeyFilter {
        let builder = self.builder;
        let builder = builder.filter(|builder| builder.members() <= 2 * self.members_max);
        KeyFilter {
            filter: builder.map(FilterBuilder::finish),
            asked: 0,
            dropped: 0,
            share: self.share,
        }
    }
}

impl KeyFilter {
    /// Returns whether a left solution may have a match, given the hash of its keys; false is certain.
    pub(super) fn may_match(&mut self, hash: u64) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        let may_match = filter.may_hold(hash);
        self.asked += 1;
        self.dropped += u64::from(!may_match);
        if self.asked == JUDGED && self.dropped < JUDGED / DROPS_MIN {
            self.filter = None;
            // Less memory is always granted.
            let _ = self.share.require(0);
        }
        may_match
    }
}
