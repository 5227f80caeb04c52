//! RDF formats and compression, detected from file names.

use std::ffi::OsStr;
use std::path::Path;

pub use oxrdfio::RdfFormat;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip, one or more members (`.gz`).
    Gzip,
    /// bzip2, one or more streams (`.bz2`).
    Bzip2,
    /// Zstandard, one or more frames (`.zst`).
    Zstd,
}

impl Compression {
    /// Returns the compression that a file name's last extension stands for.
    fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "gz" | "gzip" => Some(Self::Gzip),
            "bz2" | "bzip2" => Some(Self::Bzip2),
            "zst" | "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the compression of data that starts with these bytes ([`Self::SIGNATURE_BYTES`] are enough).
    pub fn of_signature(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Number of bytes at the start of data that tell its compression.
    pub const SIGNATURE_BYTES: usize = 4;
}

/// Detects the format and compression of a file by its name: `data.ttl.gz` is Turtle with gzip.
///
/// The format is `None` if the extension is unknown.
pub fn detect(path: &Path) -> (Option<RdfFormat>, Compression) {
    let extension = |path: &Path| {
        path.extension()
            .and_then(OsStr::to_str)
            .map(ToOwned::to_owned)
    };
    let Some(last) = extension(path) else {
        return (None, Compression::None);
    };
    match Compression::from_extension(&last) {
        None => (format_from_name(&last), Compression::None),
        Some(compression) => {
            let inner = path.file_stem().map(Path::new);
            let format = inner.and_then(extension).and_then(|e| format_from_name(&e));
            (format, compression)
        }
    }
}

/// Returns the format of a file extension (`nt`), a media type (`text/turtle`) or a common name (`N-Triples`).
///
/// N3 is not supported: it is not an RDF format.
pub fn format_from_name(name: &str) -> Option<RdfFormat> {
    let lower = name.trim().to_ascii_lowercase();
    let format = match lower.as_str() {
        "ntriples" | "n-triples" | "nt11" | "nt12" => RdfFormat::NTriples,
        "nquads" | "n-quads" => RdfFormat::NQuads,
        "turtle" => RdfFormat::Turtle,
        "owl" | "rdfs" | "rdfxml" | "rdf/xml" => RdfFormat::RdfXml,
        "json-ld" => RdfFormat::from_extension("jsonld")?,
        // Its keys come in an order in which a document of any size can be read.
        "streaming-json-ld" => RdfFormat::from_media_type(
            "application/ld+json;profile=\"http://www.w3.org/ns/json-ld#streaming\"",
        )?,
        other if other.contains('/') => RdfFormat::from_media_type(other)?,
        other => RdfFormat::from_extension(other)?,
    };
    (format != RdfFormat::N3).then_some(format)
}

/// Returns whether each line of the format is a statement of its own, so that files can be cut at line ends.
pub fn is_line_based(format: RdfFormat) -> bool {
    matches!(format, RdfFormat::NTriples | RdfFormat::NQuads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_tell_format_and_compression() {
        let of = |name: &str| detect(Path::new(name));
        assert_eq!(of("a/b.nt"), (Some(RdfFormat::NTriples), Compression::None));
        assert_eq!(of("b.nq.gz"), (Some(RdfFormat::NQuads), Compression::Gzip));
        assert_eq!(
            of("b.TTL.BZ2"),
            (Some(RdfFormat::Turtle), Compression::Bzip2)
        );
        assert_eq!(of("b.trig.zst"), (Some(RdfFormat::TriG), Compression::Zstd));
        assert_eq!(of("b.owl"), (Some(RdfFormat::RdfXml), Compression::None));
        assert_eq!(of("b.zst"), (None, Compression::Zstd));
        assert_eq!(of("b.n3"), (None, Compression::None));
        assert_eq!(of("b.pdf"), (None, Compression::None));
        assert_eq!(of("b"), (None, Compression::None));
        assert!(matches!(of("b.jsonld").0, Some(RdfFormat::JsonLd { .. })));
    }

    #[test]
    fn first_bytes_tell_the_compression() {
        assert_eq!(
            Compression::of_signature(b"\x1f\x8b\x08\x00"),
            Compression::Gzip
        );
        assert_eq!(Compression::of_signature(b"BZh9"), Compression::Bzip2);
        assert_eq!(
            Compression::of_signature(b"\x28\xb5\x2f\xfd"),
            Compression::Zstd
        );
        for plain in [b"<a> ".as_slice(), b"BZh ", b"\x1f", b""] {
            assert_eq!(Compression::of_signature(plain), Compression::None);
        }
    }

    #[test]
    fn names_and_media_types_are_formats() {
        assert_eq!(format_from_name("text/turtle"), Some(RdfFormat::Turtle));
        assert_eq!(format_from_name("N-Quads"), Some(RdfFormat::NQuads));
        assert_eq!(
            format_from_name("application/rdf+xml"),
            Some(RdfFormat::RdfXml)
        );
        assert_eq!(format_from_name("csv"), None);
    }
}
