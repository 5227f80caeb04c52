//! The Berlin SPARQL Benchmark's queries, with parameters drawn from the queried store.
//!
//! A file of queries with parameters of other data measures searches for nothing: types and features have other numbers
//! at another scale, so that hardly any product matches. Here the store, whatever wrote it, provides the parameters:
//! [`data`] has its values, [`templates`] the queries and the benchmark's rule for each parameter. By these rules alone
//! some queries still find nothing (a feature that no product shares with another); each of them is drawn again a few
//! times.
//!
//! The same store contents, options and seed give the same queries, in whatever order a store keeps its terms.
//!
//! [`run`] measures the benchmark's mixes of them (LOD2 D2.1.4 §1), on this database and others in turn.

mod changes;
mod data;
mod mixes;
mod paper;
mod report;
mod run;
mod templates;

#[cfg(test)]
mod tests;

use anyhow::{Context, Result, ensure};
use pythia::{Database, QueryOptions, Results};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use rustc_hash::FxHashMap;
use serde::Serialize;

use self::data::Data;
pub use self::report::{Report, TemplateTimes, Test, TestOfSystem};
pub use self::run::{RunOptions, run};
use self::templates::{BUSINESS_INTELLIGENCE, EXPLORE, EXPLORE_MIX, Rule};
pub use self::templates::{Levels, Template};
use crate::queries::NamedQuery;
use crate::table::{Table, count};

/// The benchmark's two sets of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseCase {
    /// Q1 to Q12 without Q6, which version 3 removed from the mix: a customer looks for a product.
    Explore,
    /// BI1 to BI8: analyses of all products, offers and reviews.
    BusinessIntelligence,
}

/// The templates of the queries, and their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A number of queries of each template, one template after the other.
    Each(usize),
    /// A number of the benchmark's mixes.
    Mixes(usize),
}

/// Parameters of the draw.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The set of queries.
    pub use_case: UseCase,
    /// The selection of queries.
    pub selection: Selection,
    /// The seed of the parameters.
    pub seed: u64,
    /// Maximum number of redraws of a query that finds nothing. With 0, the benchmark's rules alone decide.
    pub redraws: u32,
}

/// Drawn queries, with statistics of the draw.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The queries in the order to run them.
    pub queries: Vec<NamedQuery>,
    /// Statistics of each template, in the use case's order.
    pub templates: Vec<DrawnTemplate>,
}

/// Statistics of the draw of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrawnTemplate {
    /// Its name.
    pub template: String,
    /// Number of queries.
    pub queries: usize,
    /// Number of draws of parameters.
    pub draws: usize,
    /// Number of queries that still find nothing.
    pub empty: usize,
}

impl UseCase {
    /// Returns its templates, each once.
    pub fn templates(self) -> &'static [Template] {
        match self {
            Self::Explore => &EXPLORE,
            Self::BusinessIntelligence => &BUSINESS_INTELLIGENCE,
        }
    }

    /// Returns one mix: the names of the templates in the order to run them.
    pub fn mix(self) -> Vec<&'static str> {
        match self {
            Self::Explore => EXPLORE_MIX.to_vec(),
            Self::BusinessIntelligence => self.templates().iter().map(|one| one.name).collect(),
        }
    }

    /// Returns the template of a name that occurs in its mix.
    fn template(self, name: &str) -> &'static Template {
        let mut all = self.templates().iter();
        all.find(|one| one.name == name)
            .expect("mixes name templates")
    }

    /// Returns names and templates of a selection.
    fn list(self, selection: Selection) -> Vec<(String, &'static Template)> {
        match selection {
            Selection::Each(count) => {
                let named = |template: &'static Template| {
                    (0..count).map(move |number| (format!("{}-{number}", template.name), template))
                };
                self.templates().iter().flat_map(named).collect()
            }
            Selection::Mixes(count) => {
                let mix = self.mix();
                let named = |number: usize| {
                    let places = mix.iter().enumerate();
                    let query = move |(place, name): (usize, &&'static str)| {
                        (format!("{name}-{number}.{place}"), self.template(name))
                    };
                    places.map(query).collect::<Vec<_>>()
                };
                (0..count).flat_map(named).collect()
            }
        }
    }
}

/// Draws queries with parameters from a store.
pub fn draw(database: &Database, options: &Options) -> Result<Drawn> {
    let mut source = QuerySource::new(database, options.seed)?;
    let mut queries = Vec::new();
    let mut templates: Vec<DrawnTemplate> = (options.use_case.templates().iter())
        .map(|template| DrawnTemplate {
            template: template.name.to_owned(),
            ..DrawnTemplate::default()
        })
        .collect();
    for (id, template) in options.use_case.list(options.selection) {
        let (query, draws, found) = source
            .answered(template, options.redraws)
            .with_context(|| format!("draw parameters for {id}"))?;
        let drawn = templates
            .iter_mut()
            .find(|one| one.template == template.name);
        let drawn = drawn.expect("it is of the use case");
        drawn.queries += 1;
        drawn.draws += draws;
        drawn.empty += usize::from(!found);
        let template = template.name.to_owned();
        queries.push(NamedQuery {
            id,
            template,
            query,
        });
    }
    Ok(Drawn { queries, templates })
}

/// An endless source of queries of any template.
pub struct QuerySource<'d> {
    database: &'d Database,
    data: Data<'d>,
    rng: SmallRng,
}

impl<'d> QuerySource<'d> {
    /// Reads the types of a store's products; other values are read on demand.
    pub fn new(database: &'d Database, seed: u64) -> Result<Self> {
        Ok(Self {
            database,
            data: Data::new(database, seed)?,
            rng: SmallRng::seed_from_u64(seed),
        })
    }

    /// Draws a query by the benchmark's rules, whether or not it finds anything.
    pub fn next(&mut self, template: &Template) -> Result<String> {
        self.next_of(template, None)
    }

    /// Draws a query about a product type; without one, by the template's own rule.
    fn next_of(&mut self, template: &Template, given: Option<&str>) -> Result<String> {
        let mut values = FxHashMap::default();
        let mut product_type = None;
        let mut features: Vec<String> = Vec::new();
        let mut first_month = None;
        for &(name, rule) in template.parameters {
            let value = match rule {
                Rule::Type(levels) => {
                    let drawn = match given {
                        Some(given) => given.to_owned(),
                        None => self.product_type(levels, template.features())?,
                    };
                    product_type.insert(drawn).clone()
                }
                Rule::Feature => {
                    let of = product_type
                        .as_deref()
                        .expect("a type comes before its features");
                    let mut others = self.data.features(of)?.to_vec();
                    others.retain(|feature| !features.contains(feature));
                    let drawn = others
                        .choose(&mut self.rng)
                        .expect("the type has enough")
                        .clone();
                    features.push(drawn.clone());
                    drawn
                }
                Rule::Number => self.rng.random_range(templates::NUMBERS).to_string(),
                Rule::Instance(kind) => self.one_of(|data| data.instances(kind))?,
                Rule::CountryOf(kind) => self.one_of(|data| data.countries(kind))?,
                Rule::Month(number) => {
                    let day = match first_month {
                        Some(day) => day,
                        None => *first_month.insert(self.rng.random()),
                    };
                    self.data.month(day, number)?
                }
            };
            values.insert(name, value);
        }
        Ok(template.fill(&values))
    }

    /// Draws a query until it finds something, with at most `redraws` further draws. Also returns the number of draws
    /// and whether the query finds something.
    pub fn answered(&mut self, template: &Template, redraws: u32) -> Result<(String, usize, bool)> {
        self.answered_of(template, None, redraws)
    }

    /// Does the same as [`Self::answered`] for a product type.
    fn answered_of(
        &mut self,
        template: &Template,
        given: Option<&str>,
        redraws: u32,
    ) -> Result<(String, usize, bool)> {
        for draws in 1.. {
            let query = self.next_of(template, given)?;
            let found = finds(self.database, &query)?;
            if found || draws > redraws as usize {
                return Ok((query, draws, found));
            }
        }
        unreachable!("draws have an end");
    }

    /// Draws a type of one of the levels, all equally likely, whose products have enough features.
    fn product_type(&mut self, levels: Levels, features_min: usize) -> Result<String> {
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            let range = levels.of(self.data.levels().len());
            let level = &self.data.levels()[self.rng.random_range(range)];
            let drawn = level
                .choose(&mut self.rng)
                .expect("levels have types")
                .clone();
            if features_min == 0 || self.data.features(&drawn)?.len() >= features_min {
                return Ok(drawn);
            }
        }
        anyhow::bail!(
            "no product type of {TRIES} has products with {features_min} different features"
        );
    }

    fn one_of<'s>(
        &'s mut self,
        values: impl FnOnce(&'s mut Data<'d>) -> Result<&'s [String]>,
    ) -> Result<String> {
        let values = values(&mut self.data)?;
        Ok(values
            .choose(&mut self.rng)
            .expect("empty ones are refused")
            .clone())
    }
}

/// Returns whether a query has a result. An answer of yes or no is one.
fn finds(database: &Database, query: &str) -> Result<bool> {
    match database
        .prepare(query, &QueryOptions::default())?
        .execute()?
    {
        Results::Boolean(_) => Ok(true),
        Results::Graph(mut triples) => Ok(triples.next_triple()?.is_some()),
        Results::Solutions(mut solutions) => {
            while let Some(batch) = solutions.next_batch()? {
                if !batch.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

impl Drawn {
    /// Formats the queries as one JSON object a line, for `pythia bench queries` and `pythia bench endpoints`.
    pub fn lines(&self) -> Result<String> {
        ensure!(!self.queries.is_empty(), "no queries were asked for");
        let mut text = String::new();
        for query in &self.queries {
            text.push_str(&serde_json::to_string(query)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Formats the statistics as text.
    pub fn text(&self) -> String {
        let header = ["template", "queries", "draws", "find nothing"];
        let mut table = Table::new("Queries drawn from the store", &header);
        for one in &self.templates {
            let [queries, draws, empty] =
                [one.queries, one.draws, one.empty].map(|n| count(n as u64));
            table.row(vec![one.template.clone(), queries, draws, empty]);
        }
        table.text()
    }
}
