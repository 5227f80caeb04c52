//! Power and throughput runs: mixes by one client and by several, the systems in turn.

use std::time::Duration;

use anyhow::{Result, ensure};
use pythia::Database;

use super::UseCase;
use super::mixes::{self, MixOptions};
use super::report::{Report, Settings, Test};
use crate::contest::Contest;
use crate::machine::Machine;
use crate::system::System;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The set of queries.
    pub use_case: UseCase,
    /// Each mix begins with updates, which are taken back after each turn: the use case Explore and Update.
    pub updates: bool,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Number of mixes. Several clients share them; each client runs at least one.
    pub mixes: usize,
    /// Number of mixes of each system before the first measured one.
    pub warm_up: usize,
    /// Number of rounds. In each round, all systems run the mixes in turn.
    pub rounds: usize,
    /// True: product types of BI drill down from mix to mix. False: they are drawn at random.
    pub drill_down: bool,
    /// The seed of the parameters.
    pub seed: u64,
    /// Maximum number of redraws of a query that finds nothing.
    pub redraws: u32,
    /// Time after which a system has no further turn with the same number of clients. Each has at least one.
    pub budget: Option<Duration>,
    /// Time after which a query of the store in process has failed.
    pub timeout: Duration,
}

/// Measures the systems with queries whose parameters are from a store that holds the same data.
pub fn run(
    database: &Database,
    systems: &[System<'_>],
    options: &RunOptions,
    progress: impl Fn(&str),
) -> Result<Report> {
    ensure!(!systems.is_empty(), "no system to measure");
    ensure!(
        options.mixes > 0 && options.rounds > 0 && !options.clients.contains(&0),
        "at least one mix, one round and one client"
    );
    let is_multiple = |clients: &usize| options.mixes.is_multiple_of(*clients);
    ensure!(
        !options.updates || options.clients.iter().all(is_multiple),
        "with updates, the number of mixes must be a multiple of each number of clients, so that each update runs once in a \
         turn"
    );
    let machine = Machine::now();
    progress("draw the parameters");
    let mixes = mixes::draw(
        database,
        &MixOptions {
            use_case: options.use_case,
            count: options.mixes,
            updates: options.updates,
            drill_down: options.drill_down && options.use_case == UseCase::BusinessIntelligence,
            seed: options.seed,
            redraws: options.redraws,
        },
    )?;
    progress("compare the answers");
    let reference = System::in_process("the store", database, options.timeout);
    let mut contest = Contest::check(&reference, systems, &mixes)?;
    contest.warm_up(options.warm_up)?;
    let rounds = |clients| {
        let turns = contest.rounds(clients, options.rounds, options.budget, &progress)?;
        Ok((clients, turns))
    };
    let turns = options.clients.iter().copied().map(rounds);
    let turns: Vec<_> = turns.collect::<Result<_>>()?;
    let (left_out, found) = contest.end();
    let settings = Settings::new(options, database.snapshot().statistics().triples);
    let tests = turns
        .iter()
        .map(|(clients, turns)| Test::new(*clients, turns, &left_out, &settings));
    Ok(Report {
        machine,
        tests: tests.collect(),
        settings,
        systems: systems.iter().map(Into::into).collect(),
        found,
        left_out,
    })
}
