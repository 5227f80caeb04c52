//! The Berlin SPARQL Benchmark's queries, with parameters drawn from the store they are asked of.
//!
//! A file of queries whose parameters belong to other data measures how fast nothing is found: types
//! and features have other numbers at another scale, so that hardly any product has what is asked for.
//! Here a store, whatever wrote it, gives the parameters: [`data`] knows what it has, [`templates`] the
//! queries and the benchmark's rule for each parameter. By these rules alone some queries still find
//! nothing (a feature that no product shares with another); each of them is drawn again a few times.
//!
//! The same store contents, options and seed give the same queries, in whatever order a store keeps
//! its terms.

mod data;
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
use self::templates::{BUSINESS_INTELLIGENCE, EXPLORE, EXPLORE_MIX, Rule};
pub use self::templates::{Levels, Template};
use crate::queries::NamedQuery;
use crate::table::{Table, count};

/// The benchmark's two sets of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseCase {
    /// Q1 to Q12 without Q6, which version 3 took out of the mix: a customer looks for a product.
    Explore,
    /// BI1 to BI8: analyses of all products, offers and reviews.
    BusinessIntelligence,
}

/// How many queries of which templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// So many of each template, one template after the other.
    Each(usize),
    /// So many of the benchmark's mixes.
    Mixes(usize),
}

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which queries.
    pub use_case: UseCase,
    /// How many.
    pub selection: Selection,
    /// Another seed draws other parameters.
    pub seed: u64,
    /// How often a query that finds nothing is drawn again. With 0, the benchmark's rules alone decide.
    pub redraws: u32,
}

/// Queries, and what it took to find them.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// In the order they are to be asked.
    pub queries: Vec<NamedQuery>,
    /// Each template, in the use case's order.
    pub templates: Vec<DrawnTemplate>,
}

/// How the queries of a template were drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrawnTemplate {
    /// Its name.
    pub template: String,
    /// How many queries there are of it.
    pub queries: usize,
    /// How often parameters were drawn for them.
    pub draws: usize,
    /// How many find nothing for all that.
    pub empty: usize,
}

impl UseCase {
    /// Its templates, each once.
    pub fn templates(self) -> &'static [Template] {
        match self {
            Self::Explore => &EXPLORE,
            Self::BusinessIntelligence => &BUSINESS_INTELLIGENCE,
        }
    }

    /// One mix: the templates by their names, in the order they are asked.
    pub fn mix(self) -> Vec<&'static str> {
        match self {
            Self::Explore => EXPLORE_MIX.to_vec(),
            Self::BusinessIntelligence => self.templates().iter().map(|one| one.name).collect(),
        }
    }

    /// Names and templates of a selection.
    fn list(self, selection: Selection) -> Vec<(String, &'static Template)> {
        match selection {
            Selection::Each(count) => {
                let named = |template: &'static Template| {
                    (0..count).map(move |number| (format!("{}-{number}", template.name), template))
                };
                self.templates().iter().flat_map(named).collect()
            }
            Selection::Mixes(count) => {
                let template = |name: &str| {
                    let mut all = self.templates().iter();
                    all.find(|one| one.name == name)
                        .expect("mixes name templates")
                };
                let mix = self.mix();
                let named = |number: usize| {
                    let places = mix.iter().enumerate();
                    let query = move |(place, name): (usize, &&'static str)| {
                        (format!("{name}-{number}.{place}"), template(name))
                    };
                    places.map(query).collect::<Vec<_>>()
                };
                (0..count).flat_map(named).collect()
            }
        }
    }
}

/// Draws queries from what a store has.
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

/// Queries without end, of any template.
pub struct QuerySource<'d> {
    database: &'d Database,
    data: Data<'d>,
    rng: SmallRng,
}

impl<'d> QuerySource<'d> {
    /// Looks at the types of a store's products; what else is needed is read when it is.
    pub fn new(database: &'d Database, seed: u64) -> Result<Self> {
        Ok(Self {
            database,
            data: Data::new(database, seed)?,
            rng: SmallRng::seed_from_u64(seed),
        })
    }

    /// A query by the benchmark's rules, whatever it finds.
    pub fn next(&mut self, template: &Template) -> Result<String> {
        let mut values = FxHashMap::default();
        let mut product_type = None;
        let mut features: Vec<String> = Vec::new();
        let mut first_month = None;
        for &(name, rule) in template.parameters {
            let value = match rule {
                Rule::Type(levels) => {
                    let features_min = template.features();
                    let drawn = self.product_type(levels, features_min)?;
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

    /// A query that finds something, if so many draws more than one give one; with the number of draws,
    /// and if it does.
    pub fn answered(&mut self, template: &Template, redraws: u32) -> Result<(String, usize, bool)> {
        for draws in 1.. {
            let query = self.next(template)?;
            let found = finds(self.database, &query)?;
            if found || draws > redraws as usize {
                return Ok((query, draws, found));
            }
        }
        unreachable!("draws have an end");
    }

    /// A type of one of the levels, each as likely as another, whose products have enough features.
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

/// Asks a query for its first result. An answer of yes or no is one.
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
    /// One JSON object a line: what `pythia bench queries` and `bench/compare` read.
    pub fn lines(&self) -> Result<String> {
        ensure!(!self.queries.is_empty(), "no queries were asked for");
        let mut text = String::new();
        for query in &self.queries {
            text.push_str(&serde_json::to_string(query)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// How they were drawn, for people.
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
