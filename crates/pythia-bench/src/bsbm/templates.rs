//! BSBM's queries with placeholders for parameters, and the rule for each parameter.
//!
//! Texts and rules are those of the benchmark's version 3.1 (Bizer, Schultz), as its driver uses them: product types of
//! the leaves for Explore, features of the type or its supertypes, numbers up to 500, anything else with equal
//! probability. The types of BI queries are from the levels of the tree that the driver's own files draw from.

use std::ops::{Range, RangeInclusive};

use rustc_hash::FxHashMap;

use super::data::Kind;

/// Prefixes of the queries that find parameters.
pub(super) const PROLOGUE: &str = "\
    PREFIX bsbm: <http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/> \
    PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> \
    PREFIX rev: <http://purl.org/stuff/rev#> \
    PREFIX foaf: <http://xmlns.com/foaf/0.1/> \
    PREFIX dc: <http://purl.org/dc/elements/1.1/> ";

/// Numbers to which values of numeric properties, 1 to 2000, are compared.
pub(super) const NUMBERS: RangeInclusive<u32> = 1..=500;

/// A query with placeholders for parameters.
#[derive(Debug)]
pub struct Template {
    /// Its name.
    pub name: &'static str,
    text: &'static str,
    /// The parameters in the order of drawing: a type before its features.
    pub(super) parameters: &'static [(&'static str, Rule)],
}

/// The source of a parameter's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// A product type.
    Type(Levels),
    /// A feature of the type's products, different from the preceding ones.
    Feature,
    /// A number.
    Number,
    /// An instance of a kind.
    Instance(Kind),
    /// The country of an instance of a kind.
    CountryOf(Kind),
    /// The first day of the month with this number among consecutive months, without quotes.
    Month(u32),
}

/// Levels of the tree of product types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// The root.
    Root,
    /// All but the leaves.
    AboveLeaves,
    /// All but the root.
    BelowRoot,
    /// The leaves and the level above them.
    LowestTwo,
    /// The leaves.
    Leaves,
}

impl Levels {
    /// Returns the range of these levels in a tree of `levels` levels; at least one, even in a tree of few levels.
    pub(super) fn of(self, levels: usize) -> Range<usize> {
        match self {
            Self::Root => 0..1,
            Self::AboveLeaves => 0..(levels - 1).max(1),
            Self::BelowRoot => 1.min(levels - 1)..levels,
            Self::LowestTwo => levels.saturating_sub(2)..levels,
            Self::Leaves => levels - 1..levels,
        }
    }
}

impl Template {
    /// Returns the number of its features.
    pub(super) fn features(&self) -> usize {
        let is_feature = |(_, rule): &&(&str, Rule)| matches!(rule, Rule::Feature);
        self.parameters.iter().filter(is_feature).count()
    }

    /// Returns whether its product type is drawn from several levels, so that a drill-down can go through them.
    pub(super) fn drills_down(&self) -> bool {
        let has_levels = |(_, rule): &(&str, Rule)| matches!(rule, Rule::Type(levels) if !matches!(levels, Levels::Root | Levels::Leaves));
        self.parameters.iter().any(has_levels)
    }

    /// Returns the query with values in place of its parameters.
    pub(super) fn fill(&self, values: &FxHashMap<&'static str, String>) -> String {
        let mut text = self.text.trim_end().to_owned();
        for (name, value) in values {
            text = text.replace(&format!("%{name}%"), value);
        }
        text
    }

    /// Returns the text with its placeholders.
    #[cfg(test)]
    pub(super) fn text(&self) -> &'static str {
        self.text
    }
}

macro_rules! template {
    ($name:literal, $file:literal, $parameters:expr) => {
        Template {
            name: $name,
            text: include_str!(concat!("templates/", $file, ".rq")),
            parameters: &$parameters,
        }
    };
}

const TYPE: (&str, Rule) = ("ProductType", Rule::Type(Levels::Leaves));
const PRODUCT: (&str, Rule) = ("Product", Rule::Instance(Kind::Product));
const OFFER: (&str, Rule) = ("Offer", Rule::Instance(Kind::Offer));
const FEATURES: [(&str, Rule); 3] = [
    ("ProductFeature1", Rule::Feature),
    ("ProductFeature2", Rule::Feature),
    ("ProductFeature3", Rule::Feature),
];
const X: (&str, Rule) = ("x", Rule::Number);
const Y: (&str, Rule) = ("y", Rule::Number);

pub(super) const EXPLORE: [Template; 11] = [
    template!("Q1", "q1", [TYPE, FEATURES[0], FEATURES[1], X]),
    template!("Q2", "q2", [PRODUCT]),
    template!("Q3", "q3", [TYPE, FEATURES[0], FEATURES[1], X, Y]),
    template!(
        "Q4",
        "q4",
        [TYPE, FEATURES[0], FEATURES[1], FEATURES[2], X, Y]
    ),
    template!("Q5", "q5", [PRODUCT]),
    template!("Q7", "q7", [PRODUCT]),
    template!("Q8", "q8", [PRODUCT]),
    template!("Q9", "q9", [("Review", Rule::Instance(Kind::Review))]),
    template!("Q10", "q10", [PRODUCT]),
    template!("Q11", "q11", [OFFER]),
    template!("Q12", "q12", [OFFER]),
];

/// One of the driver's mixes.
pub(super) const EXPLORE_MIX: [&str; 25] = [
    "Q1", "Q2", "Q2", "Q3", "Q2", "Q2", "Q4", "Q2", "Q2", "Q5", "Q7", "Q7", "Q5", "Q7", "Q7", "Q8",
    "Q9", "Q9", "Q8", "Q9", "Q9", "Q10", "Q10", "Q11", "Q12",
];

pub(super) const BUSINESS_INTELLIGENCE: [Template; 8] = [
    template!(
        "BI1",
        "bi1",
        [
            ("Country1", Rule::CountryOf(Kind::Producer)),
            ("Country2", Rule::CountryOf(Kind::Reviewer)),
        ]
    ),
    template!("BI2", "bi2", [PRODUCT]),
    template!(
        "BI3",
        "bi3",
        [
            ("Month0", Rule::Month(0)),
            ("Month1", Rule::Month(1)),
            ("Month2", Rule::Month(2)),
        ]
    ),
    template!(
        "BI4",
        "bi4",
        [("ProductType", Rule::Type(Levels::LowestTwo))]
    ),
    template!(
        "BI5",
        "bi5",
        [("ProductType", Rule::Type(Levels::BelowRoot))]
    ),
    template!("BI6", "bi6", [("Producer", Rule::Instance(Kind::Producer))]),
    template!(
        "BI7",
        "bi7",
        [
            ("ProductType", Rule::Type(Levels::Root)),
            ("Country", Rule::CountryOf(Kind::Vendor)),
        ]
    ),
    template!(
        "BI8",
        "bi8",
        [("ProductType", Rule::Type(Levels::AboveLeaves))]
    ),
];
