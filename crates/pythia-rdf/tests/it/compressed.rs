//! Compressed files: whole, in several members, cut short and broken.

use std::io::Write;

use pythia_rdf::{Compression, ParseError, RdfFormat, Source};

use crate::collect::{options, parse_all};

const ALL: [Compression; 3] = [Compression::Gzip, Compression::Bzip2, Compression::Zstd];

fn text(lines: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for line in 0..lines {
        writeln!(text, "<http://e/{line}> <http://e/p> \"{}\" .", line * 7919).expect("memory");
    }
    text
}

fn compress(text: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).expect("memory");
            encoder.finish().expect("memory")
        }
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(text).expect("memory");
            encoder.finish().expect("memory")
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("memory");
            encoder.include_checksum(true).expect("known");
            encoder.write_all(text).expect("memory");
            encoder.finish().expect("memory")
        }
        other => panic!("{other:?}"),
    }
}

fn parse(bytes: Vec<u8>, compression: Compression) -> Result<u64, ParseError> {
    let source = Source::from_reader(
        "data".to_owned(),
        std::io::Cursor::new(bytes),
        RdfFormat::NTriples,
        compression,
    )?;
    parse_all(vec![source], &options(1 << 14), 2).map(|(_, report)| report.quads)
}

#[test]
fn every_compression_is_read() {
    for compression in ALL {
        assert_eq!(
            parse(compress(&text(3000), compression), compression).expect("whole"),
            3000
        );
        assert_eq!(
            parse(compress(b"", compression), compression).expect("empty text"),
            0
        );
    }
}

#[test]
fn members_follow_each_other_and_lines_may_span_them() {
    let text = text(2000);
    for compression in ALL {
        let (one, two) = text.split_at(text.len() / 2 + 3);
        let mut bytes = compress(one, compression);
        bytes.extend(compress(two, compression));
        assert_eq!(
            parse(bytes, compression).expect("whole"),
            2000,
            "{compression:?}"
        );
    }
}

#[test]
fn files_cut_short_name_the_place() {
    for compression in ALL {
        let mut bytes = compress(&text(20_000), compression);
        bytes.truncate(bytes.len() - 9);
        let length = bytes.len() as u64;
        let error = parse(bytes, compression).expect_err("cut short");
        let ParseError::Io {
            read, source_name, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(
            (source_name.as_str(), *read),
            ("data", length),
            "{compression:?}"
        );
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}

#[test]
fn broken_files_are_refused() {
    for compression in ALL {
        let whole = compress(&text(20_000), compression);
        for at in [0, 1, 5, whole.len() / 2, whole.len() - 3] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x5a;
            let outcome = parse(bytes, compression);
            // Some header bytes (a time stamp) mean nothing for the text.
            assert!(
                outcome.is_err() || (compression == Compression::Gzip && at == 5),
                "{compression:?} at {at}"
            );
        }
        let error =
            parse(b"<a:a> <a:a> <a:a> .\n".to_vec(), compression).expect_err("not compressed");
        assert!(matches!(error, ParseError::Io { .. }), "{error}");
    }
}

#[test]
fn files_are_opened_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, compression) in [
        ("a.nt", Compression::None),
        ("b.nt.gz", Compression::Gzip),
        ("c.nq.zst", Compression::Zstd),
    ] {
        let path = directory.path().join(name);
        let bytes = if compression == Compression::None {
            text(10)
        } else {
            compress(&text(10), compression)
        };
        std::fs::write(&path, &bytes).expect("written");
        let source = Source::from_path(&path, None, None).expect("opened");
        assert_eq!(source.size_bytes(), Some(bytes.len() as u64));
        let read = std::sync::Arc::clone(source.bytes_read());
        assert_eq!(
            parse_all(vec![source], &options(100), 1)
                .expect("whole")
                .1
                .quads,
            10
        );
        assert_eq!(
            read.load(std::sync::atomic::Ordering::Relaxed),
            bytes.len() as u64
        );
    }
    let missing = Source::from_path(&directory.path().join("none.nt"), None, None)
        .err()
        .expect("missing");
    assert!(missing.to_string().contains("none.nt"), "{missing}");
    let unknown = Source::from_path(&directory.path().join("a.pdf"), None, None)
        .err()
        .expect("unknown");
    assert!(unknown.to_string().contains("format"), "{unknown}");
    let folder = Source::from_path(directory.path(), Some(RdfFormat::NTriples), None)
        .err()
        .expect("a folder");
    assert!(folder.to_string().contains("directory"), "{folder}");
}
