//! Hashes of nodes, edges and keys, for the filters of runs and dictionaries. Part of the format.

use pythia_rdf::{TermId, TermKey};

/// Returns the hash of a node.
#[inline]
pub(crate) fn hash_of_node(node: u64) -> u64 {
    mix(node)
}

/// Returns the hash of a node, or of a node with a predicate.
#[inline]
pub(crate) fn hash_of(node: TermId, predicate: Option<TermId>) -> u64 {
    match predicate {
        None => hash_of_node(node.0),
        Some(predicate) => hash_of_edge(node.0, predicate.0),
    }
}

/// Returns the hash of a node with a predicate.
#[inline]
pub(crate) fn hash_of_edge(node: u64, predicate: u64) -> u64 {
    mix(node ^ mix(predicate))
}

/// Returns the hash of a term's key.
#[inline]
pub(crate) fn hash_of_key(key: TermKey<'_>) -> u64 {
    let (words, rest) = key.bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words
        .iter()
        .chain([&last])
        .map(|word| u64::from_le_bytes(*word));
    let start = (key.kind as u64) << 56 ^ key.bytes.len() as u64;
    words.fold(mix(start), |hash, word| mix(hash ^ word))
}

/// Spreads every bit over all others.
#[inline]
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    value = (value ^ (value >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

#[cfg(test)]
mod tests {
    use pythia_rdf::TermKind;

    use super::*;

    #[test]
    fn hashes_tell_keys_apart() {
        let key = |kind, bytes: &'static [u8]| hash_of_key(TermKey { kind, bytes });
        let hashes = [
            key(TermKind::Iri, b""),
            key(TermKind::Iri, b"a"),
            key(TermKind::Iri, b"a\0"),
            key(TermKind::Iri, b"aaaaaaaa"),
            key(TermKind::Iri, b"aaaaaaaa\0"),
            key(TermKind::String, b"a"),
        ];
        let distinct: std::collections::BTreeSet<u64> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }
}
