//! `pythia bench`: benchmarks of this database.

mod amplification;
mod bsbm;
mod compact;
mod ctdb;
mod endpoints;
mod faults;
mod graph;
mod hops;
mod http;
mod ipl;
mod masm;
mod meld;
mod operators;
mod pages;
mod queries;
mod reachability;
mod search;
mod spill;
mod systems;
mod updates;
mod yago;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::amplification::Amplification;
use self::bsbm::Bsbm;
use self::compact::Compact;
use self::ctdb::Ctdb;
use self::endpoints::Endpoints;
use self::faults::{Damages, Kills, PowerCuts, Syscalls};
use self::graph::Graph;
use self::hops::Hops;
use self::http::Http;
use self::ipl::Ipl;
use self::meld::Meld;
use self::operators::Operators;
use self::pages::Pages;
use self::queries::Queries;
use self::reachability::Reachability;
use self::search::Search;
use self::spill::Spill;
use self::updates::Updates;
use self::yago::Yago;

/// Run benchmarks of this database on this machine
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Yago(Yago),
    Bsbm(Bsbm),
    Ctdb(Ctdb),
    Queries(Queries),
    Endpoints(Endpoints),
    Reachability(Reachability),
    Spill(Spill),
    Updates(Updates),
    Meld(Meld),
    Amplification(Amplification),
    Operators(Operators),
    Pages(Pages),
    Ipl(Ipl),
    Compact(Compact),
    Kills(Kills),
    PowerCuts(PowerCuts),
    Syscalls(Syscalls),
    Damages(Damages),
    Hops(Hops),
    Graph(Graph),
    Search(Search),
    Http(Http),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self.workload {
            Workload::Yago(command) => command.run(),
            Workload::Bsbm(command) => command.run(),
            Workload::Ctdb(command) => command.run(),
            Workload::Queries(command) => command.run(),
            Workload::Endpoints(command) => command.run(),
            Workload::Reachability(command) => command.run(),
            Workload::Spill(command) => command.run(),
            Workload::Updates(command) => command.run(),
            Workload::Meld(command) => command.run(),
            Workload::Amplification(command) => command.run(),
            Workload::Operators(command) => command.run(),
            Workload::Pages(command) => command.run(),
            Workload::Ipl(command) => command.run(),
            Workload::Compact(command) => command.run(),
            Workload::Kills(command) => command.run(),
            Workload::PowerCuts(command) => command.run(),
            Workload::Syscalls(command) => command.run(),
            Workload::Damages(command) => command.run(),
            Workload::Hops(command) => command.run(),
            Workload::Graph(command) => command.run(),
            Workload::Search(command) => command.run(),
            Workload::Http(command) => command.run(),
        }
    }
}
