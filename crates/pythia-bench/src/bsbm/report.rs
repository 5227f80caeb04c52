//! The benchmark's figures (LOD2 D2.1.4 §1.2): average query execution times, time shares, query mixes per hour, power
//! and throughput.

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::RunOptions;
use super::{UseCase, changes, paper};
use crate::contest::{
    Found, Key, LeftOut, SystemName, Turn, found_table, geometric_mean, left_out_table, median,
};
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::page::Page;
use crate::plot::{Plot, PlotSeries, Style};
use crate::table::{Table, count, figure, plain_text};

/// Triples of scale factor 1: the report's 50 and 150 billion triples have factors of about 500 and 1,500.
const SCALE_TRIPLES: f64 = 1e8;
const HOUR_SECONDS: f64 = 3600.0;

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine, which all systems share.
    pub machine: Machine,
    /// Parameters of the run, and the size of the data.
    pub settings: Settings,
    /// The systems in the order of all lists.
    pub systems: Vec<SystemName>,
    /// Statistics of the queries' answers, by template.
    pub found: BTreeMap<String, Found>,
    /// Templates that do not count for a system.
    pub left_out: LeftOut,
    /// One test for each number of clients.
    pub tests: Vec<Test>,
}

/// Parameters of a run, and the size of the data.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// `explore`, `explore-and-update` or `bi`.
    pub use_case: &'static str,
    #[serde(skip)]
    templates: Vec<&'static str>,
    /// Triples of the store that provided the parameters.
    pub triples: u64,
    /// The report's scale factor.
    pub scale_factor: f64,
    /// Mixes of a turn with one client.
    pub mixes: usize,
    /// Mixes before the first measured one.
    pub warm_up: usize,
    /// Rounds.
    pub rounds: usize,
    /// Whether product types drill down.
    pub drill_down: bool,
    /// The seed of the parameters.
    pub seed: u64,
}

/// Results for one number of clients.
#[derive(Clone, Debug, Serialize)]
pub struct Test {
    /// Concurrent clients.
    pub clients: usize,
    /// Results by system.
    pub systems: Vec<TestOfSystem>,
}

/// Results of one system for one number of clients. Rates are of the templates that count for all systems.
#[derive(Clone, Debug, Serialize)]
pub struct TestOfSystem {
    /// Query mixes per hour in each round.
    pub mixes_per_hour: Vec<f64>,
    /// Median of the rounds.
    pub mixes_per_hour_median: f64,
    /// Queries per hour times the scale factor, median of the rounds (LOD2's throughput).
    pub throughput: f64,
    /// 3600 s divided by the geometric mean of the average times, times the scale factor.
    pub power: f64,
    /// Geometric mean of the ratios of its average times to the first system's, over the common templates.
    pub ratio: f64,
    /// Times by template.
    pub templates: Vec<TemplateTimes>,
    /// Times by template and level of product type, for templates that drill down.
    pub levels: Vec<TemplateTimes>,
}

/// Times of one template.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateTimes {
    /// Its name.
    pub template: String,
    /// The level of the product types, if they drill down.
    pub level: Option<usize>,
    /// Whether it counts for all systems.
    pub is_common: bool,
    /// Times of all rounds; the mean is the average query execution time (AQET).
    pub latency: LatencySummary,
    /// Its share of the time of the system's templates.
    pub time_share: f64,
}

impl Settings {
    pub(super) fn new(options: &RunOptions, triples: u64) -> Self {
        let is_bi = options.use_case == UseCase::BusinessIntelligence;
        let updates = changes::TEMPLATES.into_iter().filter(|_| options.updates);
        let queries = options.use_case.templates().iter().map(|one| one.name);
        Self {
            use_case: match (is_bi, options.updates) {
                (true, _) => "bi",
                (false, false) => "explore",
                (false, true) => "explore-and-update",
            },
            templates: updates.chain(queries).collect(),
            triples,
            scale_factor: triples as f64 / SCALE_TRIPLES,
            mixes: options.mixes,
            warm_up: options.warm_up,
            rounds: options.rounds,
            drill_down: options.drill_down && is_bi,
            seed: options.seed,
        }
    }
}

impl Test {
    pub(super) fn new(
        clients: usize,
        turns: &[Vec<Turn>],
        left_out: &LeftOut,
        settings: &Settings,
    ) -> Self {
        let of_system = |(number, turns): (usize, &Vec<Turn>)| {
            TestOfSystem::new(number, clients, turns, left_out, settings)
        };
        let mut systems: Vec<TestOfSystem> = turns.iter().enumerate().map(of_system).collect();
        let means = |system: &TestOfSystem| -> BTreeMap<String, f64> {
            let means = system.means().into_iter();
            means.map(|(name, mean)| (name.to_owned(), mean)).collect()
        };
        let first = systems.first().map(means).unwrap_or_default();
        for system in &mut systems {
            let own = system.means().into_iter();
            let ratios = own.filter_map(|(template, mean)| Some(mean / first.get(template)?));
            system.ratio = geometric_mean(ratios);
        }
        Self { clients, systems }
    }
}

impl TestOfSystem {
    fn new(
        number: usize,
        clients: usize,
        turns: &[Turn],
        left_out: &LeftOut,
        settings: &Settings,
    ) -> Self {
        let mut by_template: BTreeMap<Key, Latencies> = BTreeMap::new();
        let mut by_level: BTreeMap<Key, Latencies> = BTreeMap::new();
        for (key, times) in turns.iter().flat_map(|turn| &turn.times) {
            if left_out.counts(number, &key.0) {
                by_template
                    .entry((key.0.clone(), None))
                    .or_default()
                    .merge(times);
                if key.1.is_some() {
                    by_level.entry(key.clone()).or_default().merge(times);
                }
            }
        }
        let total: f64 = by_template.values().map(Latencies::total_us).sum();
        let times = |(key, latencies): (&Key, &Latencies)| TemplateTimes {
            template: key.0.clone(),
            level: key.1,
            is_common: left_out.is_common(&key.0),
            latency: latencies.summary(),
            time_share: latencies.total_us() / total,
        };
        let in_order = |name: &&str| by_template.get_key_value(&((*name).to_owned(), None));
        let templates: Vec<TemplateTimes> = (settings.templates.iter())
            .filter_map(in_order)
            .map(times)
            .collect();
        let mixes = |turn: &Turn| match turn.questions(left_out) {
            0 => 0.0,
            _ => turn.parts as f64 * HOUR_SECONDS / turn.seconds(clients, left_out),
        };
        let mixes_per_hour: Vec<f64> = turns.iter().map(mixes).collect();
        let queries = |turn: &Turn| {
            let queries = turn.questions(left_out) as f64 / turn.seconds(clients, left_out);
            queries * HOUR_SECONDS * settings.scale_factor
        };
        let mut system = Self {
            mixes_per_hour_median: median(mixes_per_hour.iter().copied()),
            mixes_per_hour,
            throughput: median(turns.iter().map(queries)),
            power: 0.0,
            ratio: 1.0,
            templates,
            levels: by_level.iter().map(times).collect(),
        };
        let mean_seconds = geometric_mean(system.means().into_values()) / 1e6;
        system.power = HOUR_SECONDS / mean_seconds * settings.scale_factor;
        system
    }

    /// Returns the average times of the common templates, in microseconds.
    fn means(&self) -> BTreeMap<&str, f64> {
        let common = self.templates.iter().filter(|times| times.is_common);
        common
            .map(|times| (times.template.as_str(), times.latency.mean_us))
            .collect()
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        plain_text(&self.title(), &self.machine.describe(), &self.tables())
    }

    /// Renders a self-contained page with a plot and tables.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title(), &self.machine.describe());
        page.plot(&self.plot().svg());
        self.tables().iter().for_each(|table| page.table(table));
        page.html()
    }

    fn title(&self) -> String {
        let settings = &self.settings;
        let name = match settings.use_case {
            "bi" if settings.drill_down => "Business Intelligence with drill-down",
            "bi" => "Business Intelligence",
            "explore-and-update" => "Explore and Update",
            _ => "Explore",
        };
        format!(
            "BSBM {name}: {} triples, {} mixes, {} rounds, {} mixes of warm-up, seed {}",
            count(settings.triples),
            settings.mixes,
            settings.rounds,
            settings.warm_up,
            settings.seed
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.rates()];
        tables.extend(self.tests.iter().map(|test| self.times(test)));
        tables.extend((self.tests.iter()).filter_map(|test| self.level_times(test)));
        let templates = self.settings.templates.iter().copied();
        tables.push(found_table(templates, &self.found));
        tables.extend(left_out_table(&self.systems, &self.left_out));
        tables.extend(paper::tables(self));
        tables
    }

    fn rates(&self) -> Table {
        let header = [
            "system",
            "clients",
            "mixes/h",
            "from",
            "to",
            "throughput",
            "power",
            "times the AQET",
        ];
        let mut table = Table::new("Rates", &header);
        for test in &self.tests {
            for (system, name) in test.systems.iter().zip(&self.systems) {
                let rounds = system.mixes_per_hour.iter().copied();
                table.row(vec![
                    name.name.clone(),
                    test.clients.to_string(),
                    figure(system.mixes_per_hour_median),
                    figure(rounds.clone().fold(f64::INFINITY, f64::min)),
                    figure(rounds.fold(0.0, f64::max)),
                    figure(system.throughput),
                    figure(system.power),
                    figure(system.ratio),
                ]);
            }
        }
        table.note(format!(
            "Mixes per hour, from the slowest round to the fastest, with the median; throughput: queries per hour times \
             the scale factor {}; power: 3600 s / geometric mean of the AQET times the scale factor.",
            figure(self.settings.scale_factor)
        ));
        table.note("times the AQET: geometric mean over the templates of its AQET divided by the first system's.");
        if !self.left_out.is_empty() {
            table.note(
                "All of these are of the templates that count for every system; 0: there is none.",
            );
        }
        table
    }

    /// AQET and time share of each template.
    fn times(&self, test: &Test) -> Table {
        let mut header = vec!["template".to_owned(), "runs".to_owned()];
        for system in &self.systems {
            header.extend([format!("{} ms", system.name), "share".to_owned()]);
        }
        let peers = &self.systems[1..];
        header.extend(peers.iter().map(|peer| self.ratio_name(peer)));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let title = match test.clients {
            1 => "AQET by template, 1 client".to_owned(),
            clients => format!("AQET by template, {clients} clients"),
        };
        let mut table = Table::new(title, &header);
        for template in &self.settings.templates {
            let times: Vec<Option<&TemplateTimes>> = (test.systems.iter())
                .map(|system| (system.templates.iter()).find(|t| t.template == *template))
                .collect();
            let runs = times
                .iter()
                .flatten()
                .map(|times| times.latency.count)
                .max();
            let Some(runs) = runs else { continue };
            let mut row = vec![(*template).to_owned(), count(runs)];
            for times in &times {
                row.push(times.map_or_else(dash, |t| figure(t.latency.mean_us / 1e3)));
                row.push(times.map_or_else(dash, |t| format!("{:.1} %", t.time_share * 1e2)));
            }
            row.extend(ratios(&times));
            table.row(row);
        }
        table.note("AQET: average query execution time, from the query's text to the last byte of its results; for updates, to their acknowledgement.");
        table.note(
            "share: of the time of all templates of the system. –: does not count, see below.",
        );
        table
    }

    /// AQET of templates by the level of their product types.
    fn level_times(&self, test: &Test) -> Option<Table> {
        let mut header = vec!["template".to_owned(), "level".to_owned(), "runs".to_owned()];
        header.extend(
            self.systems
                .iter()
                .map(|system| format!("{} ms", system.name)),
        );
        header.extend(self.systems[1..].iter().map(|peer| self.ratio_name(peer)));
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let title = format!("AQET by level of product type, clients: {}", test.clients);
        let mut table = Table::new(title, &header);
        let first = &test.systems.first()?.levels;
        for key in first {
            let of_level = |times: &&TemplateTimes| {
                (&times.template, times.level) == (&key.template, key.level)
            };
            let times: Vec<Option<&TemplateTimes>> = (test.systems.iter())
                .map(|system| system.levels.iter().find(of_level))
                .collect();
            let level = key.level.map_or_else(dash, |level| level.to_string());
            let mut row = vec![key.template.clone(), level, count(key.latency.count)];
            for times in &times {
                row.push(times.map_or_else(dash, |t| figure(t.latency.mean_us / 1e3)));
            }
            row.extend(ratios(&times));
            table.row(row);
        }
        table.note("Level 1 is right below the root of the product types.");
        (!first.is_empty()).then_some(table)
    }

    fn ratio_name(&self, peer: &SystemName) -> String {
        format!("{}/{}", peer.name, self.systems[0].name)
    }

    fn plot(&self) -> Plot {
        let series = self.systems.iter().enumerate().map(|(number, system)| {
            let point = |test: &Test| {
                let rate = test.systems[number].mixes_per_hour_median;
                (test.clients as f64, rate)
            };
            PlotSeries {
                name: system.name.clone(),
                points: self.tests.iter().map(point).collect(),
                style: Style::Line,
                colour: number,
            }
        });
        Plot {
            title: "Query mixes per hour against clients".to_owned(),
            x_label: "clients".to_owned(),
            y_label: "mixes/h".to_owned(),
            series: series.collect(),
        }
    }
}

/// Returns the ratios of the other systems' times to the first one's.
fn ratios(times: &[Option<&TemplateTimes>]) -> Vec<String> {
    let peers = times.iter().skip(1);
    let ratio = |peer: &Option<&TemplateTimes>| {
        let (peer, first) = peer.zip(times[0])?;
        Some(figure(peer.latency.mean_us / first.latency.mean_us))
    };
    peers.map(|peer| ratio(peer).unwrap_or_else(dash)).collect()
}

fn dash() -> String {
    "–".to_owned()
}
