//! The mix of queries: the values of each template, and random draws from them.

use anyhow::{Context, Result, bail};
use pythia::{Database, Term};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::templates::{Draw, TEMPLATES, Template, fill};
use crate::timed::bound_rows;

/// The queries that clients draw from. The same store and seed give the same mix.
pub(crate) struct Mix {
    entries: Vec<Entry>,
    /// Templates without values in the data.
    pub(crate) absent: Vec<&'static str>,
}

struct Entry {
    /// Index in [`TEMPLATES`].
    template: usize,
    /// Sets of values, each with an answer.
    values: Vec<Vec<String>>,
}

impl Mix {
    /// Queries the data for values that have answers.
    pub(crate) fn draw(database: &Database, seed: u64) -> Result<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut entries = Vec::new();
        let mut absent = Vec::new();
        for (template, description) in TEMPLATES.iter().enumerate() {
            let values = draw_values(database, description, &mut rng)
                .with_context(|| format!("draw parameters for {}", description.title))?;
            if values.is_empty() {
                absent.push(description.name);
            } else {
                entries.push(Entry { template, values });
            }
        }
        if entries.is_empty() {
            bail!(
                "the store has none of the relations the queries ask for; load YAGO, \
                 for example testdata/yago/yago-slice.nt.zst"
            );
        }
        Ok(Self { entries, absent })
    }

    /// Returns the templates that can be drawn, by index in [`TEMPLATES`], with their numbers of sets of values.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (usize, usize)> {
        self.entries
            .iter()
            .map(|entry| (entry.template, entry.values.len()))
    }

    /// Draws a query: all templates are equally likely, and so are the values of each.
    pub(crate) fn next(&self, rng: &mut SmallRng) -> (usize, String) {
        let entry = &self.entries[rng.random_range(0..self.entries.len())];
        let values = entry.values.choose(rng).expect("entries have values");
        (entry.template, entry.query(values))
    }

    /// Draws this many different queries of a template, or all that there are.
    pub(crate) fn sample(&self, template: usize, count: usize, rng: &mut SmallRng) -> Vec<String> {
        let entries = self.entries.iter();
        let entries = entries.filter(|entry| entry.template == template);
        let drawn = entries.flat_map(|entry| {
            let drawn = entry.values.choose_multiple(rng, count);
            drawn.map(|values| entry.query(values)).collect::<Vec<_>>()
        });
        drawn.collect()
    }
}

impl Entry {
    fn query(&self, values: &[String]) -> String {
        let template = &TEMPLATES[self.template];
        fill(template.text, template.parameters, values)
    }
}

fn draw_values(
    database: &Database,
    template: &Template,
    rng: &mut SmallRng,
) -> Result<Vec<Vec<String>>> {
    match template.draw {
        Draw::Rows(rows) => sorted_rows(database, &fill(rows, &[], &[])),
        Draw::Stepwise {
            last,
            other,
            last_max,
        } => {
            let mut lasts = sorted_rows(database, &fill(last, &[], &[]))?;
            lasts.shuffle(rng);
            lasts.truncate(last_max);
            let parameter = &template.parameters[template.parameters.len() - 1..];
            let mut values = Vec::new();
            for last in lasts {
                for mut set in sorted_rows(database, &fill(other, parameter, &last))? {
                    set.extend_from_slice(&last);
                    values.push(set);
                }
            }
            Ok(values)
        }
    }
}

/// Returns the rows of a query in an order that does not depend on its plan. Blank nodes cannot be named in a query,
/// so rows with one are left out.
fn sorted_rows(database: &Database, query: &str) -> Result<Vec<Vec<String>>> {
    let mut rows: Vec<Vec<String>> = bound_rows(database, query)?
        .into_iter()
        .filter(|row| row.iter().all(|term| matches!(term, Term::NamedNode(_))))
        .map(|row| row.iter().map(ToString::to_string).collect())
        .collect();
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}
