//! The data set of the Berlin SPARQL Benchmark (BSBM), version 3.1.
//!
//! The data set has products of a tree of types, with features, made by producers, offered by vendors and reviewed by
//! people at rating sites. Schema, names, numbers of instances, value ranges and distributions are those of the
//! official generator with forward chaining (`-fc`: a product also has all supertypes of its type); one million triples
//! for 2,848 products, ten million for 28,480. As in the changes for the Business Intelligence benchmark (BIBM), texts
//! consist of realistic words and any part can be generated alone.
//!
//! The order is the official one: types, features, each producer with its products, each vendor
//! with its offers, each reviewer with their reviews.

mod dates;
mod entities;
mod lines;
mod parameters;
mod scale;
mod schema;
mod types;

use crate::stream::{Pieces, write_pieces};
use crate::text::Vocabulary;
use crate::{GenerateError, Part, Summary, TripleReader};
use entities::Dataset;
use lines::Lines;
use std::io::Write;
use std::ops::Range;

pub use parameters::Parameters;
pub use schema::Country;

/// Largest number of products; with more, numbers of offers would no longer be exact.
const PRODUCTS_MAX: u64 = 1 << 40;

/// A data set to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    products: u64,
    seed: u64,
}

impl Config {
    /// The default seed: the year of the specification.
    pub const DEFAULT_SEED: u64 = 2011;

    /// Configures the data set with `products` products (1 to 2^40): about 355 triples, 92 kB for each.
    pub fn new(products: u64) -> Result<Self, GenerateError> {
        if !(1..=PRODUCTS_MAX).contains(&products) {
            return Err(GenerateError::config(
                "the number of products",
                products,
                "from 1 to 2^40",
            ));
        }
        Ok(Self {
            products,
            seed: Self::DEFAULT_SEED,
        })
    }

    /// Selects another data set of the same size.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the number of products.
    pub fn products(&self) -> u64 {
        self.products
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    fn dataset(&self) -> Dataset {
        Dataset::new(self.seed, self.products)
    }
}

/// Writes a part of the data set as N-Triples.
///
/// Writes in large pieces: the writer needs no buffer.
pub fn write_ntriples(
    config: &Config,
    part: Part,
    out: &mut impl Write,
) -> Result<Summary, GenerateError> {
    write_pieces(&mut Generator::new(config, part), out)
}

/// Returns a reader of a part of the data set as N-Triples.
pub fn reader(config: &Config, part: Part) -> TripleReader<Generator> {
    TripleReader::over(Generator::new(config, part))
}

/// Returns the expected number of triples of the whole data set, accurate to about 1 in 1,000.
///
/// The exact number is known only after the generation: [`Summary::triples`].
pub fn expected_triples(config: &Config) -> u64 {
    let data = config.dataset();
    let (scale, tree) = (&data.scale, &data.tree);
    // Types of a product: its class, its own type, and those above it.
    let types = (tree.depth() + 2) as f64;
    let features = data.features_mean();
    let product = 11.0 + types + features + entities::optional_properties_mean();
    let review = 8.0 + entities::ratings_mean();
    let companies = scale.producers.count() + scale.vendors.count();
    let certain = 6 * tree.types() - 1
        + 5 * tree.features()
        + 7 * companies
        + 10 * scale.offers
        + 6 * scale.reviewers.count();
    certain + (scale.products as f64 * product + scale.reviews as f64 * review) as u64
}

/// Sections of the data set.
#[derive(Clone, Copy, Debug)]
enum Section {
    Types,
    Features,
    Products,
    Offers,
    Reviews,
}

impl Section {
    const ALL: [Self; 5] = [
        Self::Types,
        Self::Features,
        Self::Products,
        Self::Offers,
        Self::Reviews,
    ];

    fn count(self, data: &Dataset) -> u64 {
        match self {
            Self::Types => data.tree.types(),
            Self::Features => data.tree.features(),
            Self::Products => data.scale.products,
            Self::Offers => data.scale.offers,
            Self::Reviews => data.scale.reviews,
        }
    }

    /// Returns the approximate bytes of one entity, for parts of equal size.
    fn weight(self) -> u128 {
        match self {
            Self::Types => 1376,
            Self::Features => 1206,
            Self::Products => 10_324,
            Self::Offers => 2227,
            Self::Reviews => 3527,
        }
    }
}

/// A generator of one part.
#[derive(Debug)]
pub struct Generator {
    data: Dataset,
    /// The rest of this part, by section.
    left: [Range<u64>; Section::ALL.len()],
    section: usize,
    subject: Vec<u8>,
}

impl Generator {
    fn new(config: &Config, part: Part) -> Self {
        // Grown now, not with the first triple.
        Vocabulary::get();
        let data = config.dataset();
        let total = Section::ALL
            .iter()
            .map(|section| u128::from(section.count(&data)) * section.weight())
            .sum();
        let range = part.of(total);
        let mut start = 0;
        let left = Section::ALL.map(|section| {
            let count = section.count(&data);
            let cut = |position: u128| {
                let index = position.saturating_sub(start).div_ceil(section.weight());
                u64::try_from(index).map_or(count, |index| index.min(count))
            };
            let own = cut(range.start)..cut(range.end);
            start += u128::from(count) * section.weight();
            own
        });
        Self {
            data,
            left,
            section: 0,
            subject: Vec::new(),
        }
    }
}

impl Pieces for Generator {
    fn next_piece(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        let number = loop {
            if let Some(number) = self.left.get_mut(self.section)?.next() {
                break number;
            }
            self.section += 1;
        };
        let data = &self.data;
        let lines = &mut Lines::new(out, &mut self.subject);
        match Section::ALL[self.section] {
            Section::Types => data.product_type(number + 1, lines),
            Section::Features => data.product_feature(number + 1, lines),
            Section::Products => {
                for producer in data.scale.producers.beginning_at(number) {
                    data.producer(producer, lines);
                }
                data.product(number, lines);
            }
            Section::Offers => {
                for vendor in data.scale.vendors.beginning_at(number) {
                    data.vendor(vendor, lines);
                }
                data.offer(number, lines);
            }
            Section::Reviews => {
                for reviewer in data.scale.reviewers.beginning_at(number) {
                    data.reviewer(reviewer, lines);
                }
                data.review(number, lines);
            }
        }
        Some(lines.triples)
    }
}
