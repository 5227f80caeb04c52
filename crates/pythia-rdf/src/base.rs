//! Base IRIs, against which relative IRIs are resolved (RFC 3986 §5.1).

use std::borrow::Cow;

/// Removes the `.` and `..` from the path of a base IRI (RFC 3986 §5.2.4). Resolution removes them from merged
/// paths, but `<#a>` and `<?b>` take the path of the base as it is.
pub fn without_dot_segments(iri: &str) -> Cow<'_, str> {
    let is_end = |c: char| matches!(c, '?' | '#');
    let end = iri.find(is_end).unwrap_or(iri.len());
    let Some(scheme_end) = iri[..end].find(':').map(|at| at + 1) else {
        return Cow::Borrowed(iri);
    };
    let path_start = match iri[scheme_end..end].strip_prefix("//") {
        Some(rest) => rest.find('/').map(|at| scheme_end + 2 + at),
        None => Some(scheme_end),
    };
    let path = path_start.map(|start| &iri[start..end]);
    let Some(segments) = path.and_then(|path| path.strip_prefix('/')) else {
        return Cow::Borrowed(iri);
    };
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    if !segments.split('/').any(is_dots) {
        return Cow::Borrowed(iri);
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in segments.split('/') {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    // A path that ends in dots ends in a slash.
    if segments.rsplit('/').next().is_some_and(is_dots) {
        kept.push("");
    }
    let start = end - segments.len();
    Cow::Owned(format!(
        "{}{}{}",
        &iri[..start],
        kept.join("/"),
        &iri[end..]
    ))
}

#[test]
fn dot_segments_are_removed_from_paths_only() {
    for (iri, expected) in [
        ("http://a/bb/ccc/../d;p?q", "http://a/bb/d;p?q"),
        ("http://a/bb/ccc/./d;p?q#f", "http://a/bb/ccc/d;p?q#f"),
        ("http://a/bb/ccc/..", "http://a/bb/"),
        ("http://a/bb/.", "http://a/bb/"),
        ("http://a/../../g", "http://a/g"),
        ("http://a/..", "http://a/"),
        ("http://a/b/c/?x=/../y", "http://a/b/c/?x=/../y"),
        ("http://a/b#/../c", "http://a/b#/../c"),
        ("http://a", "http://a"),
        ("http://..", "http://.."),
        ("file:///home/../data/x.ttl", "file:///data/x.ttl"),
        ("http://a/b/...//c", "http://a/b/...//c"),
        ("http://a/b//../c", "http://a/b/c"),
        ("urn:a/../b", "urn:a/../b"),
        ("../relative", "../relative"),
    ] {
        assert_eq!(without_dot_segments(iri), expected, "{iri}");
    }
}
