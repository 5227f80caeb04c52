//! Several databases that answer the same questions in turn.
//!
//! First, [`check`] asks each system each question and compares the answers by content. Then each turn asks one system
//! all questions, by one client or by several. Turns of the systems alternate, so that a disturbance of the machine
//! affects all of them. A template that a system does not answer, or answers differently, does not count for it.
//!
//! Questions may be updates. Each is taken back after the check and after each turn, outside of the measured time, so that
//! all turns of all systems change the same data.

mod check;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use pythia::QueryForm;
use serde::Serialize;

pub use self::check::{Found, LeftOut};
use crate::latency::Latencies;
use crate::system::{Client, System, form_of};
use crate::table::{Table, count, figure};

/// A query of a contest, or an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The template that its times count for.
    pub template: String,
    /// The level of its product type in a drill-down of BSBM; `None` otherwise.
    pub level: Option<usize>,
    /// Its text.
    pub text: String,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A query of this form.
    Query(QueryForm),
    /// An update.
    Update(Change),
}

/// The effect of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The update that takes it back.
    pub undo: String,
    /// A query for the triples that it adds or removes.
    pub triples: String,
}

impl Question {
    /// Creates a question. Returns an error for a text that is not a query.
    pub fn new(template: &str, level: Option<usize>, text: String) -> Result<Self> {
        let form = form_of(&text).map_err(|error| anyhow!("{template}: {error}\n{text}"))?;
        Ok(Self {
            template: template.to_owned(),
            level,
            text,
            kind: Kind::Query(form),
        })
    }

    /// Creates an update.
    pub fn update(template: &str, text: String, change: Change) -> Self {
        Self {
            template: template.to_owned(),
            level: None,
            text,
            kind: Kind::Update(change),
        }
    }

    /// Has a system answer it or make its change. Returns the time.
    pub(crate) fn time(&self, client: &mut Client<'_>) -> Result<Duration, String> {
        match &self.kind {
            Kind::Query(form) => client.time(&self.text, *form),
            Kind::Update(_) => client.update(&self.text),
        }
    }

    /// Takes its change back, if it is an update. Without this, what follows is measured on other data.
    pub(crate) fn take_back(&self, client: &mut Client<'_>) -> Result<()> {
        let Kind::Update(change) = &self.kind else {
            return Ok(());
        };
        let undone = client.update(&change.undo);
        undone.map(|_| ()).map_err(|error| {
            let name = client.name();
            anyhow!(
                "{name} still has the change of an update ({}), because its counterpart failed: {error}; load its data again",
                self.template
            )
        })
    }
}

/// A system in reports.
#[derive(Clone, Debug, Serialize)]
pub struct SystemName {
    /// Its name.
    pub name: String,
    /// Its URL; `None` in process.
    pub url: Option<String>,
}

/// A contest whose questions have been checked.
pub struct Contest<'c> {
    systems: &'c [System<'c>],
    /// Questions in parts that one client asks in order: BSBM's mixes.
    parts: &'c [Vec<Question>],
    left_out: LeftOut,
    found: BTreeMap<String, Found>,
}

/// A template, and the level of its product type.
pub type Key = (String, Option<usize>);

/// The measured times of a system in one turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Time from the start of the first question to the end of the last one.
    pub elapsed: Duration,
    /// Number of asked parts.
    pub parts: usize,
    /// Times of the answered questions.
    pub times: BTreeMap<Key, Latencies>,
    failed: BTreeMap<String, String>,
}

impl<'c> Contest<'c> {
    /// Asks each system each different question once, and compares the answers with those of `reference`. Also warms the
    /// systems up. Fails if the reference does not answer.
    pub fn check(
        reference: &System<'_>,
        systems: &'c [System<'c>],
        parts: &'c [Vec<Question>],
    ) -> Result<Self> {
        let (left_out, found) = check::check(reference, systems, parts)?;
        Ok(Self {
            systems,
            parts,
            left_out,
            found,
        })
    }

    /// Asks each system a number of parts whose times are not counted.
    pub fn warm_up(&mut self, parts: usize) -> Result<()> {
        for (number, system) in self.systems.iter().enumerate() {
            let mut client = system.client();
            for question in self.parts.iter().cycle().take(parts).flatten() {
                if !self.left_out.counts(number, &question.template) {
                    continue;
                }
                if let Err(error) = question.time(&mut client) {
                    self.left_out.add(number, &question.template, error);
                }
                question.take_back(&mut client)?;
            }
        }
        Ok(())
    }

    /// Runs rounds, in each of which every system has one turn. A system whose turns have taken the time budget has no
    /// further one. Returns the turns by system.
    pub fn rounds(
        &mut self,
        clients: usize,
        rounds: usize,
        budget: Option<Duration>,
        progress: impl Fn(&str),
    ) -> Result<Vec<Vec<Turn>>> {
        let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); self.systems.len()];
        for round in 0..rounds {
            for place in 0..self.systems.len() {
                // No system always has the first turn.
                let number = (place + round) % self.systems.len();
                let spent: Duration = turns[number].iter().map(|turn| turn.elapsed).sum();
                if round > 0 && budget.is_some_and(|budget| spent >= budget) {
                    continue;
                }
                let system = &self.systems[number];
                let name = &system.name;
                progress(&format!(
                    "clients {clients}, round {} of {rounds}: {name}",
                    round + 1
                ));
                let asked = self.asked(number, clients);
                let turn = measure(system, &asked, clients);
                let mut client = system.client();
                let asked = asked.iter().flatten();
                let undone = asked.map(|question| question.take_back(&mut client));
                // One that fails does not keep the others from being taken back.
                undone.fold(Ok(()), Result::and)?;
                for (template, error) in &turn.failed {
                    self.left_out.add(number, template, error.clone());
                }
                turns[number].push(turn);
            }
        }
        Ok(turns)
    }

    /// Ends the contest: returns the templates that do not count, and statistics of the answers by template.
    pub fn end(self) -> (LeftOut, BTreeMap<String, Found>) {
        (self.left_out, self.found)
    }

    /// Returns the parts without the questions that a system is not asked: with one client, those of templates that do
    /// not count for it. With several clients, whose questions compete, all systems get the same questions.
    fn asked(&self, system: usize, clients: usize) -> Vec<Vec<&'c Question>> {
        let is_asked = |question: &&Question| {
            let template = &question.template;
            self.left_out.is_common(template)
                || (clients == 1 && self.left_out.counts(system, template))
        };
        let parts = self.parts.iter();
        parts
            .map(|part| part.iter().filter(is_asked).collect())
            .collect()
    }
}

impl Turn {
    /// Returns the time of the common templates in seconds. The questions of one client do not overlap, so the others'
    /// time is not counted; several clients are asked the common ones only.
    pub fn seconds(&self, clients: usize, left_out: &LeftOut) -> f64 {
        if clients > 1 {
            return self.elapsed.as_secs_f64();
        }
        let common = (self.times.iter()).filter(|(key, _)| left_out.is_common(&key.0));
        common.map(|(_, times)| times.total_us()).sum::<f64>() / 1e6
    }

    /// Returns the number of answered questions of the common templates.
    pub fn questions(&self, left_out: &LeftOut) -> u64 {
        let common = (self.times.iter()).filter(|(key, _)| left_out.is_common(&key.0));
        common.map(|(_, times)| times.count()).sum()
    }
}

/// Asks the parts once, shared by the clients; each client begins with another part and asks at least one.
fn measure(system: &System<'_>, parts: &[Vec<&Question>], clients: usize) -> Turn {
    let each = parts.len().div_ceil(clients);
    let start = Barrier::new(clients);
    let run = |number: usize| {
        let mut client = system.client();
        let own = (0..each).map(|place| &parts[(number * each + place) % parts.len()]);
        let mut turn = Turn::default();
        start.wait();
        let started = Instant::now();
        for question in own.flatten() {
            match question.time(&mut client) {
                Ok(time) => {
                    let key = (question.template.clone(), question.level);
                    turn.times.entry(key).or_default().record(time);
                }
                Err(error) => {
                    turn.failed.insert(question.template.clone(), error);
                }
            }
        }
        (turn, started, Instant::now())
    };
    let turns: Vec<(Turn, Instant, Instant)> = thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|turn| turn.expect("no panic while asking"))
            .collect()
    });
    let started = turns.iter().map(|(_, started, _)| *started).min();
    let ended = turns.iter().map(|(_, _, ended)| *ended).max();
    let mut all = Turn {
        elapsed: ended.zip(started).map_or(Duration::ZERO, |(e, s)| e - s),
        parts: each * clients,
        ..Turn::default()
    };
    for (turn, _, _) in turns {
        for (key, latencies) in &turn.times {
            all.times.entry(key.clone()).or_default().merge(latencies);
        }
        all.failed.extend(turn.failed);
    }
    all
}

impl From<&System<'_>> for SystemName {
    fn from(system: &System<'_>) -> Self {
        Self {
            name: system.name.clone(),
            url: system.url().map(str::to_owned),
        }
    }
}

/// Returns a table of the statistics of the answers, by template in this order.
pub fn found_table<'t>(
    templates: impl IntoIterator<Item = &'t str>,
    found: &BTreeMap<String, Found>,
) -> Table {
    let header = ["template", "different queries", "find nothing", "rows each"];
    let mut table = Table::new("What the queries find", &header);
    for template in templates {
        let Some(found) = found.get(template) else {
            continue;
        };
        table.row(vec![
            template.to_owned(),
            count(found.queries as u64),
            count(found.empty as u64),
            figure(found.rows as f64 / found.queries as f64),
        ]);
        if let Some(why) = found.differs_because {
            table.note(format!("{template} is not compared by content: {why}."));
        }
    }
    table
}

/// Returns a table of the templates that do not count; `None` if all count.
pub fn left_out_table(systems: &[SystemName], left_out: &LeftOut) -> Option<Table> {
    let mut table = Table::new("Left out", &["system", "template", "reason"]);
    let mut is_empty = true;
    for (system, reasons) in systems.iter().zip(left_out.reasons()) {
        for (template, reason) in reasons {
            is_empty = false;
            table.row(vec![system.name.clone(), template.clone(), reason.clone()]);
        }
    }
    table.note(
        "Not answered, or answered differently than by the store that provided the right answers.",
    );
    (!is_empty).then_some(table)
}

/// Returns the median; NaN of no values.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Returns the geometric mean; NaN of no values.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut number) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        number += 1.0;
    }
    (sum / number).exp()
}
