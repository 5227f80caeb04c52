//! Term ids: every RDF term as 64 bits, 8 of kind and 56 of payload (Clustered TDB §4.1, §5.4).
//!
//! The payload of a dictionary kind is the term's rank among the terms of its kind, so ids of one kind compare
//! like their keys (see [`crate::key`]). The payload of an inline kind is the value itself. Kinds are numbered in
//! SPARQL `ORDER BY` order: nothing, blank nodes, IRIs, literals, triple terms.

use std::fmt;

/// The representation of a term: in the dictionary, or inside its id.
///
/// The numbers are part of the store format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TermKind {
    /// No term: an unbound variable, or the default graph in a graph column.
    Nothing = 0x00,
    /// Dictionary: a blank node, by label.
    BlankNode = 0x08,
    /// Dictionary: an IRI.
    Iri = 0x10,
    /// Dictionary: an `xsd:string` literal.
    String = 0x20,
    /// Dictionary: a language-tagged string, with or without base direction (RDF 1.2).
    LangString = 0x21,
    /// Dictionary: a literal of any other datatype whose lexical form does not fit in an id.
    TypedLiteral = 0x22,
    /// Inline: `xsd:boolean`.
    Boolean = 0x28,
    /// Inline: `xsd:integer`, in value order.
    Integer = 0x29,
    /// Inline: an XSD type derived from `xsd:integer`.
    DerivedInteger = 0x2a,
    /// Inline: `xsd:decimal`, mantissa and scale.
    Decimal = 0x2b,
    /// Inline: `xsd:double`.
    Double = 0x2c,
    /// Inline: `xsd:float`.
    Float = 0x2d,
    /// Inline: `xsd:date`.
    Date = 0x30,
    /// Inline: `xsd:dateTime`.
    DateTime = 0x31,
    /// Inline: `xsd:gYear`.
    GYear = 0x32,
    /// Dictionary: a triple term (RDF 1.2).
    Triple = 0x60,
    /// A term computed by a running query and held in its term table; never stored.
    Computed = 0x7f,
}

impl TermKind {
    /// The dictionary kinds, in id order.
    pub const DICTIONARY: [Self; 6] = [
        Self::BlankNode,
        Self::Iri,
        Self::String,
        Self::LangString,
        Self::TypedLiteral,
        Self::Triple,
    ];

    /// Returns the kind with this number, if there is one.
    pub const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            0x00 => Self::Nothing,
            0x08 => Self::BlankNode,
            0x10 => Self::Iri,
            0x20 => Self::String,
            0x21 => Self::LangString,
            0x22 => Self::TypedLiteral,
            0x28 => Self::Boolean,
            0x29 => Self::Integer,
            0x2a => Self::DerivedInteger,
            0x2b => Self::Decimal,
            0x2c => Self::Double,
            0x2d => Self::Float,
            0x30 => Self::Date,
            0x31 => Self::DateTime,
            0x32 => Self::GYear,
            0x60 => Self::Triple,
            0x7f => Self::Computed,
            _ => return None,
        })
    }

    /// Returns whether terms of this kind are in the dictionary.
    pub const fn is_dictionary(self) -> bool {
        matches!(
            self,
            Self::BlankNode
                | Self::Iri
                | Self::String
                | Self::LangString
                | Self::TypedLiteral
                | Self::Triple
        )
    }

    /// Returns whether the value is inside the id.
    pub const fn is_inline(self) -> bool {
        !self.is_dictionary() && !matches!(self, Self::Nothing | Self::Computed)
    }

    /// Returns whether this is a literal, inline or not. False for computed terms, whose kind is unknown.
    pub const fn is_literal(self) -> bool {
        let number = self as u8;
        number >= Self::String as u8 && number < Self::Triple as u8
    }
}

/// A term as 64 bits: kind in the top 8, payload in the lower 56.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Deserialize, serde::Serialize,
)]
#[repr(transparent)]
pub struct TermId(pub u64);

impl TermId {
    /// An unbound variable.
    pub const UNBOUND: Self = Self(0);
    /// The default graph, in a graph column.
    pub const DEFAULT_GRAPH: Self = Self(0);
    /// Number of bits of the payload.
    pub const PAYLOAD_BITS: u32 = 56;
    /// The largest payload.
    pub const PAYLOAD_MAX: u64 = (1 << Self::PAYLOAD_BITS) - 1;

    /// Makes the id of `kind` with `payload`, which must fit in 56 bits.
    pub const fn new(kind: TermKind, payload: u64) -> Self {
        debug_assert!(payload <= Self::PAYLOAD_MAX);
        Self(((kind as u64) << Self::PAYLOAD_BITS) | payload)
    }

    /// Returns the kind's number, for [`TermKind::from_u8`].
    pub const fn kind_number(self) -> u8 {
        (self.0 >> Self::PAYLOAD_BITS) as u8
    }

    /// Returns the kind; [`TermKind::Nothing`] for an unused number (possible only in corrupt data).
    pub const fn kind(self) -> TermKind {
        match TermKind::from_u8(self.kind_number()) {
            Some(kind) => kind,
            None => TermKind::Nothing,
        }
    }

    /// Returns the lower 56 bits.
    pub const fn payload(self) -> u64 {
        self.0 & Self::PAYLOAD_MAX
    }

    /// Returns whether this is a term at all.
    pub const fn is_bound(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Debug for TermId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{}", self.kind(), self.payload())
    }
}
