//! Content negotiation: picks the format that a client prefers (RFC 9110 §12.5.1).

use http::HeaderValue;
use pythia::ResultFormat;

/// Formats of solutions, in the server's order of preference.
pub(crate) const TABLES: &[ResultFormat] = &[
    ResultFormat::Json,
    ResultFormat::Xml,
    ResultFormat::Csv,
    ResultFormat::Tsv,
    ResultFormat::Arrow,
    ResultFormat::Parquet,
    ResultFormat::Dot,
];

/// Formats of graphs.
pub(crate) const GRAPHS: &[ResultFormat] = &[
    ResultFormat::NTriples,
    ResultFormat::Turtle,
    ResultFormat::RdfXml,
    ResultFormat::JsonLd,
    ResultFormat::NQuads,
    ResultFormat::TriG,
];

/// Formats of whole datasets.
pub(crate) const DATASETS: &[ResultFormat] = &[
    ResultFormat::NQuads,
    ResultFormat::TriG,
    ResultFormat::JsonLd,
];

/// The highest quality, in thousandths.
const QUALITY_MAX: u16 = 1000;

/// Picks a format for an Accept header; without one, the first. `None` if none is acceptable.
pub(crate) fn negotiate(
    accept: Option<&HeaderValue>,
    formats: &[ResultFormat],
) -> Option<ResultFormat> {
    let Some(accept) = accept else {
        return formats.first().copied();
    };
    // Most clients name the server's first choice first.
    let first = accept.as_bytes().split(|byte| *byte == b',').next();
    let named = first.map(<[u8]>::trim_ascii);
    let is_named = |format: &&ResultFormat| {
        let mut names = format.media_types().iter();
        names.any(|name| named.is_some_and(|named| named.eq_ignore_ascii_case(name.as_bytes())))
    };
    if let Some(format) = formats.first().filter(is_named) {
        return Some(*format);
    }
    let ranges: Vec<Range<'_>> = std::str::from_utf8(accept.as_bytes())
        .unwrap_or_default()
        .split(',')
        .filter_map(Range::parse)
        .collect();
    if ranges.is_empty() {
        return formats.first().copied();
    }
    let mut best: Option<(u16, ResultFormat)> = None;
    for format in formats {
        let quality = quality(&ranges, *format);
        if quality > best.map_or(0, |(most, _)| most) {
            best = Some((quality, *format));
        }
        if quality == QUALITY_MAX {
            break;
        }
    }
    best.map(|(_, format)| format)
}

/// Returns the quality of a format in thousandths, as the most specific matching range gives it.
fn quality(ranges: &[Range<'_>], format: ResultFormat) -> u16 {
    let mut found = (0, 0);
    for media_type in format.media_types() {
        for range in ranges {
            if let Some(precision) = range.matches(media_type) {
                found = found.max((precision, range.quality));
            }
        }
    }
    found.1
}

/// A media range of an Accept header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// In thousandths.
    quality: u16,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = match parts.next()? {
            "" => return None,
            "*" => ("*", "*"),
            media_type => media_type.split_once('/')?,
        };
        let quality = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("q")
                .then_some(value.trim())
        });
        let quality = match quality.map(str::parse::<f32>) {
            Some(Ok(quality)) => (quality.clamp(0.0, 1.0) * f32::from(QUALITY_MAX)) as u16,
            Some(Err(_)) => return None,
            None => QUALITY_MAX,
        };
        Some(Self {
            kind,
            subtype,
            quality,
        })
    }

    /// Returns how specifically this range matches a media type, if it does.
    fn matches(&self, media_type: &str) -> Option<u8> {
        let (kind, subtype) = media_type.split_once('/')?;
        match (self.kind, self.subtype) {
            ("*", "*") => Some(1),
            (range, "*") if range.eq_ignore_ascii_case(kind) => Some(2),
            (range, sub)
                if range.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) =>
            {
                Some(3)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(accept: &str) -> Option<&'static str> {
        let accept = HeaderValue::from_str(accept).unwrap();
        negotiate(Some(&accept), TABLES).map(ResultFormat::name)
    }

    #[test]
    fn the_most_liked_format_is_taken() {
        assert_eq!(
            table("text/csv, application/sparql-results+xml;q=0.9"),
            Some("csv")
        );
        assert_eq!(
            table("text/csv;q=0.5, application/sparql-results+xml;q=0.9"),
            Some("xml")
        );
        assert_eq!(
            table("text/*;q=0.3, text/tab-separated-values"),
            Some("tsv")
        );
        assert_eq!(table("*/*"), Some("json"));
        assert_eq!(table("application/json"), Some("json"));
        assert_eq!(table("text/html, */*;q=0.1"), Some("json"));
        assert_eq!(
            table("application/sparql-results+json;q=0, */*"),
            Some("xml")
        );
        assert_eq!(table("image/png"), None);
        assert_eq!(table("TEXT/CSV; Q=0.7"), Some("csv"));
        assert_eq!(table(""), Some("json"));
        assert_eq!(negotiate(None, GRAPHS).map(ResultFormat::name), Some("nt"));
    }
}
