//! Values from a store for the parameters of BSBM's queries.

use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use oxsdatatypes::{Date, DayTimeDuration};
use pythia::{Database, QueryOptions, Results, Term};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::templates::PROLOGUE;
use crate::timed::bound_rows;

/// Sample size for each kind; a larger sample would be indistinguishable from all instances.
const SAMPLE: usize = 10_000;
/// Days of a month, as the benchmark counts them.
const MONTH_DAYS: u32 = 28;
/// Months that a query compares.
const MONTHS: u32 = 2;

/// Kinds of instances that parameters name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Product,
    Producer,
    Vendor,
    Offer,
    Review,
    Reviewer,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Product => "bsbm:Product",
            Self::Producer => "bsbm:Producer",
            Self::Vendor => "bsbm:Vendor",
            Self::Offer => "bsbm:Offer",
            Self::Review => "rev:Review",
            Self::Reviewer => "foaf:Person",
        }
    }
}

/// Values read from a store once, on demand.
pub(super) struct Data<'d> {
    database: &'d Database,
    seed: u64,
    /// Product types that have products, from the root's level down, each level sorted.
    levels: Vec<Vec<String>>,
    /// The supertype of each type that has one.
    above: FxHashMap<String, String>,
    features: FxHashMap<String, Vec<String>>,
    samples: FxHashMap<(Kind, bool), Vec<String>>,
    review_dates: Option<(Date, u32)>,
}

impl<'d> Data<'d> {
    pub(super) fn new(database: &'d Database, seed: u64) -> Result<Self> {
        let (levels, above) = levels(database).context("read the product types")?;
        ensure!(
            !levels.is_empty(),
            "the store has no products with a bsbm:ProductType, so it holds no BSBM data; \
             `pythia generate bsbm` makes some"
        );
        Ok(Self {
            database,
            seed,
            levels,
            above,
            features: FxHashMap::default(),
            samples: FxHashMap::default(),
            review_dates: None,
        })
    }

    pub(super) fn levels(&self) -> &[Vec<String>] {
        &self.levels
    }

    /// Returns the level of a type; the root's is 0.
    pub(super) fn level_of(&self, product_type: &str) -> Option<usize> {
        let holds = |level: &Vec<String>| level.iter().any(|one| one == product_type);
        self.levels.iter().position(holds)
    }

    /// Returns the direct subtypes of a type that have products.
    pub(super) fn subtypes(&self, product_type: &str) -> Vec<&str> {
        let below = self.level_of(product_type).map_or(0, |level| level + 1);
        let types = self.levels.get(below).into_iter().flatten();
        let is_subtype =
            |one: &&String| (self.above.get(*one)).is_some_and(|up| up == product_type);
        types.filter(is_subtype).map(String::as_str).collect()
    }

    /// Returns the features of a type's products: those of the type and of its supertypes.
    pub(super) fn features(&mut self, product_type: &str) -> Result<&[String]> {
        if !self.features.contains_key(product_type) {
            let query = format!(
                "{PROLOGUE}SELECT DISTINCT ?feature {{ \
                 ?product a {product_type} ; bsbm:productFeature ?feature }}"
            );
            let found = column(self.database, &query)?;
            self.features.insert(product_type.to_owned(), found);
        }
        Ok(&self.features[product_type])
    }

    /// Returns all instances of a kind, or a sample of them.
    pub(super) fn instances(&mut self, kind: Kind) -> Result<&[String]> {
        let pattern = format!("SELECT ?thing {{ ?thing a {} }}", kind.class());
        self.sample(kind, false, &pattern)
    }

    /// Returns the countries of instances of a kind, each as often as it occurs.
    pub(super) fn countries(&mut self, kind: Kind) -> Result<&[String]> {
        let pattern = format!(
            "SELECT ?thing ?country {{ ?thing a {} ; bsbm:country ?country }}",
            kind.class()
        );
        self.sample(kind, true, &pattern)
    }

    fn sample(&mut self, kind: Kind, countries: bool, query: &str) -> Result<&[String]> {
        let key = (kind, countries);
        if !self.samples.contains_key(&key) {
            let found = sample(self.database, self.seed, &format!("{PROLOGUE}{query}"))?;
            let what = if countries { "with a country" } else { "" };
            ensure!(
                !found.is_empty(),
                "the store has no {} {what}",
                kind.class()
            );
            self.samples.insert(key, found);
        }
        Ok(&self.samples[&key])
    }

    /// Returns the first day of a month of 28 days, counted from a day such that two whole months lie between the first
    /// review and the last. `fraction`, in 0..1, chooses that day.
    pub(super) fn month(&mut self, fraction: f64, number: u32) -> Result<String> {
        let (first, days) = match self.review_dates {
            Some(range) => range,
            None => *self.review_dates.insert(review_dates(self.database)?),
        };
        let choice = days.saturating_sub(MONTHS * MONTH_DAYS) + 1;
        let day = (fraction * f64::from(choice)) as u32 + number * MONTH_DAYS;
        Ok(after(first, day)?.to_string())
    }
}

/// Returns the date `days` days later.
fn after(date: Date, days: u32) -> Result<Date> {
    let duration = DayTimeDuration::from_str(&format!("P{days}D")).expect("a duration");
    date.checked_add_day_time_duration(duration)
        .context("a date that is too late")
}

/// Returns the day of the first review, and the number of days to the last.
fn review_dates(database: &Database) -> Result<(Date, u32)> {
    let query = format!(
        "{PROLOGUE}SELECT (MIN(?date) AS ?first) (MAX(?date) AS ?last) {{ \
         ?review bsbm:reviewFor ?product ; dc:date ?date }}"
    );
    let rows = bound_rows(database, &query)?;
    let row = rows
        .first()
        .context("the store has no reviews with a dc:date")?;
    let [first, last] = [0, 1].map(|column| match &row[column] {
        Term::Literal(literal) => Date::from_str(literal.value()).context("dc:date of a review"),
        other => anyhow::bail!("dc:date of a review: {other} is no date"),
    });
    let (first, last) = (first?, last?);
    let mut days = 0;
    while after(first, days)? < last {
        days += 1;
    }
    Ok((first, days))
}

/// Product types by level, and the supertype of each type that has one.
type TypeTree = (Vec<Vec<String>>, FxHashMap<String, String>);

/// Returns product types that have products, by their depth below the types without a supertype.
fn levels(database: &Database) -> Result<TypeTree> {
    let types = format!(
        "{PROLOGUE}SELECT DISTINCT ?type {{ ?type a bsbm:ProductType . ?product a ?type }}"
    );
    let types = column(database, &types)?;
    let edges = format!(
        "{PROLOGUE}SELECT ?type ?above {{ ?type a bsbm:ProductType ; rdfs:subClassOf ?above . \
         ?above a bsbm:ProductType }}"
    );
    let above: FxHashMap<String, String> = bound_rows(database, &edges)?
        .iter()
        .map(|row| (row[0].to_string(), row[1].to_string()))
        .collect();
    let mut levels: Vec<Vec<String>> = Vec::new();
    for one in types {
        let mut depth = 0;
        let mut next = above.get(&one);
        // A cycle of types is not a tree; its depth is limited.
        while let Some(parent) = next.filter(|_| depth < above.len()) {
            depth += 1;
            next = above.get(parent);
        }
        if levels.len() <= depth {
            levels.resize(depth + 1, Vec::new());
        }
        levels[depth].push(one);
    }
    levels.retain(|level| !level.is_empty());
    Ok((levels, above))
}

/// Returns the only column of a query, as SPARQL terms, sorted.
fn column(database: &Database, query: &str) -> Result<Vec<String>> {
    let rows = bound_rows(database, query)?;
    let mut found: Vec<String> = rows.iter().map(|row| row[0].to_string()).collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns a uniform sample of a query's rows: the last column of the rows whose first column has the smallest hashes.
/// The sample does not depend on the order of the rows, and needs little memory.
fn sample(database: &Database, seed: u64, query: &str) -> Result<Vec<String>> {
    let Results::Solutions(mut solutions) = database
        .prepare(query, &QueryOptions::default())?
        .execute()?
    else {
        unreachable!("only used with SELECT");
    };
    let mut kept: BinaryHeap<(u64, String, String)> = BinaryHeap::new();
    while let Some(batch) = solutions.next_batch()? {
        let last = batch.variables().len() - 1;
        for row in 0..batch.len() {
            let (Some(thing @ Term::NamedNode(_)), Some(value)) =
                (batch.term(row, 0), batch.term(row, last))
            else {
                continue; // What has no name cannot be asked about.
            };
            let thing = thing.to_string();
            let hash = hash(seed, &thing);
            if kept.len() < SAMPLE || kept.peek().is_some_and(|most| hash < most.0) {
                kept.push((hash, thing, value.to_string()));
                if kept.len() > SAMPLE {
                    kept.pop();
                }
            }
        }
    }
    let kept = kept.into_sorted_vec();
    Ok(kept.into_iter().map(|(_, _, value)| value).collect())
}

fn hash(seed: u64, text: &str) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    seed.hash(&mut hasher);
    text.hash(&mut hasher);
    // The hash is for tables, where some bits suffice; here all bits matter.
    let mut mixed = hasher.finish();
    for shift in [30, 27] {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    mixed
}
