//! The formats of results.

use std::path::Path;

use oxrdfio::{JsonLdProfileSet, RdfFormat};
use sparesults::QueryResultsFormat;

/// A format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultFormat {
    /// SPARQL Query Results JSON.
    Json,
    /// SPARQL Query Results XML.
    Xml,
    /// SPARQL CSV.
    Csv,
    /// SPARQL TSV.
    Tsv,
    /// An Arrow IPC stream, for tables.
    Arrow,
    /// Parquet, for tables.
    Parquet,
    /// Graphviz, for paths.
    Dot,
    /// N-Triples, for graphs.
    NTriples,
    /// N-Quads, for graphs.
    NQuads,
    /// Turtle, for graphs.
    Turtle,
    /// TriG, for graphs.
    TriG,
    /// RDF/XML, for graphs.
    RdfXml,
    /// JSON-LD (streaming profile), for graphs.
    JsonLd,
}

/// The writer of a format.
pub(super) enum Kind {
    Text(QueryResultsFormat),
    Arrow,
    Parquet,
    Dot,
    Graph(RdfFormat),
}

impl ResultFormat {
    const ALL: [Self; 13] = [
        Self::Json,
        Self::Xml,
        Self::Csv,
        Self::Tsv,
        Self::Arrow,
        Self::Parquet,
        Self::Dot,
        Self::NTriples,
        Self::NQuads,
        Self::Turtle,
        Self::TriG,
        Self::RdfXml,
        Self::JsonLd,
    ];
    /// The names of the formats for tables and the answer of an ASK.
    pub(super) const TABLES: &str = "json, xml, csv, tsv, arrow or parquet";
    /// The names of the formats for graphs.
    pub(super) const GRAPHS: &str = "nt, nq, ttl, trig, rdfxml or jsonld";

    /// Returns the format's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Xml => "xml",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Dot => "dot",
            Self::NTriples => "nt",
            Self::NQuads => "nq",
            Self::Turtle => "ttl",
            Self::TriG => "trig",
            Self::RdfXml => "rdfxml",
            Self::JsonLd => "jsonld",
        }
    }

    /// Returns the format of a file's extension.
    pub fn of_file(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "json" | "srj" => Self::Json,
            "xml" | "srx" => Self::Xml,
            "csv" => Self::Csv,
            "tsv" => Self::Tsv,
            "arrow" | "arrows" => Self::Arrow,
            "parquet" => Self::Parquet,
            "dot" | "gv" => Self::Dot,
            "nt" => Self::NTriples,
            "nq" => Self::NQuads,
            "ttl" => Self::Turtle,
            "trig" => Self::TriG,
            "rdf" | "owl" => Self::RdfXml,
            "jsonld" => Self::JsonLd,
            _ => return None,
        })
    }

    /// Returns the format's media types, the usual one first.
    pub fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["application/sparql-results+json", "application/json"],
            Self::Xml => &[
                "application/sparql-results+xml",
                "application/xml",
                "text/xml",
            ],
            Self::Csv => &["text/csv"],
            Self::Tsv => &["text/tab-separated-values"],
            Self::Arrow => &["application/vnd.apache.arrow.stream"],
            Self::Parquet => &["application/vnd.apache.parquet"],
            Self::Dot => &["text/vnd.graphviz"],
            Self::NTriples => &["application/n-triples", "text/plain"],
            Self::NQuads => &["application/n-quads", "text/x-nquads"],
            Self::Turtle => &["text/turtle", "application/x-turtle"],
            Self::TriG => &["application/trig", "application/x-trig"],
            Self::RdfXml => &["application/rdf+xml", "application/xml", "text/xml"],
            Self::JsonLd => &["application/ld+json", "application/json"],
        }
    }

    /// Returns the format with this name or media type.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name || format.media_types().contains(&name.as_str()))
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Json => Kind::Text(QueryResultsFormat::Json),
            Self::Xml => Kind::Text(QueryResultsFormat::Xml),
            Self::Csv => Kind::Text(QueryResultsFormat::Csv),
            Self::Tsv => Kind::Text(QueryResultsFormat::Tsv),
            Self::Arrow => Kind::Arrow,
            Self::Parquet => Kind::Parquet,
            Self::Dot => Kind::Dot,
            Self::NTriples => Kind::Graph(RdfFormat::NTriples),
            Self::NQuads => Kind::Graph(RdfFormat::NQuads),
            Self::Turtle => Kind::Graph(RdfFormat::Turtle),
            Self::TriG => Kind::Graph(RdfFormat::TriG),
            Self::RdfXml => Kind::Graph(RdfFormat::RdfXml),
            Self::JsonLd => Kind::Graph(RdfFormat::JsonLd {
                profile: JsonLdProfileSet::empty(),
            }),
        }
    }
}
