//! The Pythia paper's experiment on YAGO (§4.3–4.5, Figures 9–11): `pythia bench yago`.
//!
//! [`run`] draws parameters from the data, runs the mix of the six queries with growing numbers of clients, warm and
//! optionally cold, then the three fixed queries one at a time. Everything runs in this process on one [`Database`];
//! latencies are as the caller sees them: parse, plan, run, decode.

mod clients;
mod fixed;
mod mix;
mod modelled;
mod pages;
mod report;
mod templates;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use pythia::Database;
use serde::Serialize;

use crate::machine::Machine;
pub use clients::{Step, TemplateStep};
pub use fixed::FixedReport;
use mix::Mix;
pub use modelled::{Device, Modelled, ModelledStep};
pub use pages::TemplatePages;

/// Times at which the cache is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cold {
    /// Before each number of clients; it warms while they run.
    Step,
    /// Before every query of every client: a query finds only pages that concurrent queries have read.
    Query,
}

/// Parameters of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of clients, one step each.
    pub clients: Vec<usize>,
    /// Duration of each step.
    pub step: Duration,
    /// If set, all steps also run cold.
    pub cold: Option<Cold>,
    /// The seed of the parameters and of each client's draws.
    pub seed: u64,
    /// Runs of each fixed query.
    pub runs: u32,
    /// Parameters of modelled devices, if the mix also runs on them.
    pub modelled: Option<ModelledOptions>,
}

/// Parameters of the modelled devices.
#[derive(Clone, Debug)]
pub struct ModelledOptions {
    /// The devices.
    pub devices: Vec<Device>,
    /// The folder of the store, which is opened once more.
    pub location: PathBuf,
    /// Limits of the queries.
    pub limits: pythia::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clients: vec![1, 2, 4, 8, 16, 32],
            step: Duration::from_secs(5),
            cold: None,
            seed: 1,
            runs: 200,
            modelled: None,
        }
    }
}

/// All steps in one state of the cache.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// `warm`, or `cold` with the time of emptying.
    pub name: &'static str,
    /// One per number of clients.
    pub steps: Vec<Step>,
}

/// Facts about the store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreFacts {
    /// Distinct triples of all graphs.
    pub triples: u64,
    /// Budget of the page cache.
    pub cache_bytes: u64,
    /// Bytes of the store's files by name without extension (spo, ops, pso, pos, dictionary, …). Empty if the caller
    /// does not provide them.
    pub file_bytes: Vec<(String, u64)>,
}

/// A template and its number of sets of parameters.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateFacts {
    /// The template's name.
    pub name: &'static str,
    /// Its question.
    pub title: &'static str,
    /// Its text, with `%parameters%`.
    pub text: &'static str,
    /// Distinct sets of values, all with an answer. With 0 the template is left out.
    pub parameter_sets: usize,
}

/// The experiment's report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The store.
    pub store: StoreFacts,
    /// The seed of parameters and draws.
    pub seed: u64,
    /// Seconds per step.
    pub step_seconds: f64,
    /// The six templates.
    pub templates: Vec<TemplateFacts>,
    /// Warm and, optionally, cold.
    pub series: Vec<Series>,
    /// The mix on modelled devices, if it was asked for.
    pub modelled: Option<Modelled>,
    /// The pages that the queries of each template read, with an empty cache.
    pub pages: Vec<TemplatePages>,
    /// Q1–Q3.
    pub fixed: Vec<FixedReport>,
}

/// Runs the experiment. `progress` gets the name of every part before it begins.
pub fn run(
    database: &Database,
    options: &Options,
    mut progress: impl FnMut(&str),
) -> Result<Report> {
    let machine = Machine::now();
    progress("draw parameters from the data");
    let mix = Mix::draw(database, options.seed)?;
    if !mix.absent.is_empty() {
        progress(&format!("left out, no data: {}", mix.absent.join(", ")));
    }
    let mut series = Vec::new();
    progress("warm up");
    let warm_up = (options.step / 2).min(Duration::from_secs(2));
    clients::run_step(database, &mix, 1, warm_up, options.seed, None)?;
    for cold in [None, options.cold] {
        if cold.is_none() && !series.is_empty() {
            break;
        }
        let name = match cold {
            None => "warm",
            Some(Cold::Step) => "cold before each step",
            Some(Cold::Query) => "cold before each query",
        };
        let mut steps = Vec::new();
        for clients in &options.clients {
            let plural = if *clients == 1 { "" } else { "s" };
            progress(&format!("{clients} client{plural}, {name}"));
            let seed = options.seed.wrapping_add(*clients as u64);
            steps.push(clients::run_step(
                database,
                &mix,
                *clients,
                options.step,
                seed,
                cold,
            )?);
        }
        series.push(Series { name, steps });
    }
    let on_models = options.modelled.as_ref().map(|parameters| {
        progress("modelled devices");
        modelled::run(parameters, &mix, &options.clients, options.seed)
    });
    let modelled = on_models.transpose()?;
    progress("pages of each query");
    let pages = pages::count(database, &mix, options.seed)?;
    progress("Q1, Q2, Q3");
    let fixed = fixed::run(database, options.runs)?;
    Ok(Report {
        machine,
        store: StoreFacts {
            triples: database.snapshot().statistics().triples,
            cache_bytes: database.store().pool().budget_bytes() as u64,
            file_bytes: Vec::new(),
        },
        seed: options.seed,
        step_seconds: options.step.as_secs_f64(),
        templates: template_facts(&mix),
        series,
        modelled,
        pages,
        fixed,
    })
}

fn template_facts(mix: &Mix) -> Vec<TemplateFacts> {
    let sets: Vec<(usize, usize)> = mix.templates().collect();
    let facts = templates::TEMPLATES
        .iter()
        .enumerate()
        .map(|(number, template)| {
            let drawn = sets.iter().find(|(place, _)| *place == number);
            TemplateFacts {
                name: template.name,
                title: template.title,
                text: template.text,
                parameter_sets: drawn.map_or(0, |(_, sets)| *sets),
            }
        });
    facts.collect()
}
