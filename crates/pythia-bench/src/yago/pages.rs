//! The pages that each of the six queries reads from the device, one query at a time, each with an empty cache.

use anyhow::{Context, Result};
use pythia::{Database, QueryOptions};
use rand::{SeedableRng, rngs::SmallRng};
use serde::Serialize;

use super::mix::Mix;
use super::templates::TEMPLATES;
use crate::timed::{self, Output};

/// Runs of each query, with different parameters as far as there are that many.
const RUNS: usize = 32;

/// The pages of a template's queries.
#[derive(Clone, Debug, Serialize)]
pub struct TemplatePages {
    /// The template's name.
    pub name: &'static str,
    /// Number of queries.
    pub queries: usize,
    /// Mean number of results of a query.
    pub rows_mean: f64,
    /// Mean numbers of pages that a query reads, by the group of their files: spo, ops, attribute, dictionary, …
    pub pages_mean: Vec<(&'static str, f64)>,
}

impl TemplatePages {
    /// Returns the mean number of pages of a group.
    pub fn of(&self, group: &str) -> f64 {
        let found = self.pages_mean.iter().find(|(name, _)| *name == group);
        found.map_or(0.0, |(_, pages)| *pages)
    }
}

/// Counts the pages of each template with values.
pub(super) fn count(database: &Database, mix: &Mix, seed: u64) -> Result<Vec<TemplatePages>> {
    let templates = mix.templates().map(|(template, _)| template);
    templates
        .map(|template| count_one(database, mix, template, seed))
        .collect()
}

fn count_one(database: &Database, mix: &Mix, template: usize, seed: u64) -> Result<TemplatePages> {
    let queries = mix.sample(template, RUNS, &mut SmallRng::seed_from_u64(seed));
    let before = database.counters();
    let mut rows = 0;
    for text in &queries {
        database.clear_cache()?;
        let run = timed::run(database, text, &QueryOptions::default(), Output::Terms);
        rows += run
            .with_context(|| format!("the query failed:\n{text}"))?
            .rows;
    }
    let of_query = |count: u64| count as f64 / queries.len() as f64;
    let groups = database.counters().since(&before).groups.into_iter();
    let pages = groups.map(|(name, counters)| (name, of_query(counters.device_pages)));
    Ok(TemplatePages {
        name: TEMPLATES[template].name,
        queries: queries.len(),
        rows_mean: of_query(rows),
        pages_mean: pages.collect(),
    })
}
