//! Transactions of one shape over items of 32 bytes, as many as a quad of four ids has.

use std::fmt;
use std::str::FromStr;

use anyhow::Result;
use pythia_log::meld::{Decision, Intention, Melder, State, Transaction, Write};
use pythia_store::Isolation;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::{Options, Run};

const VALUE_BYTES: usize = 24;
/// Items of each intention that fills the tree.
const FILLED_TOGETHER: u64 = 1000;
/// Nothing is removed, so that any snapshot will do.
const WINDOW: u64 = u64::MAX;

/// The items of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Items that are only read.
    pub reads: u64,
    /// Items that are read and written.
    pub writes: u64,
}

/// The error for text that is not a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a number of reads and one of writes, such as 8+2")]
pub struct NotAShape(String);

/// Everything that a run's transactions have in common.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) shape: Shape,
    isolation: Isolation,
    conflicts: f64,
    pub(super) behind: u64,
    pub(super) transactions: u64,
    items: u64,
    draw: Draw,
    seed: u64,
}

/// The items that a transaction may have.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// Each of this number, evenly spread over all items.
    Among(u64),
    /// One of this number of stripes, by turns: no two transactions that may conflict have the same.
    Stripes(u64),
}

impl Shape {
    /// Makes a shape.
    pub const fn new(reads: u64, writes: u64) -> Self {
        Self { reads, writes }
    }

    /// Returns the number of all items.
    pub(super) fn accesses(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.reads, self.writes)
    }
}

impl FromStr for Shape {
    type Err = NotAShape;

    fn from_str(text: &str) -> Result<Self, NotAShape> {
        let parse = || {
            let (reads, writes) = text.split_once('+')?;
            let count = |part: &str| part.parse::<u32>().ok().map(u64::from);
            Some(Self::new(count(reads)?, count(writes)?))
        };
        parse().ok_or_else(|| NotAShape(text.to_owned()))
    }
}

/// Returns the number of stripes for transactions that run at the same time.
pub(super) fn stripes(behind: u64, executors: u64) -> u64 {
    behind.saturating_add(2 * executors + 1)
}

/// Returns a melder that has melded a value of each item.
pub(super) fn fill(items: u64) -> Result<Melder> {
    let mut melder = Melder::new(WINDOW);
    let value = value(0);
    for first in (0..items).step_by(FILLED_TOGETHER as usize) {
        let keys: Vec<[u8; 8]> = (first..items.min(first + FILLED_TOGETHER))
            .map(u64::to_be_bytes)
            .collect();
        let writes = keys.iter().map(|key| Write {
            key,
            value: Some(&value),
        });
        let intention = Intention {
            snapshot: melder.state().next(),
            reads: None,
            writes: writes.collect(),
        };
        let decision = melder.meld(&intention.encode())?;
        assert_eq!(decision, Decision::Committed, "no other has run");
    }
    Ok(melder)
}

impl Workload {
    pub(super) fn new(
        options: &Options,
        shape: Shape,
        isolation: Isolation,
        conflicts: f64,
    ) -> Self {
        let executors = options.executors.iter().copied().max().unwrap_or(1) as u64;
        let compared = match isolation {
            Isolation::Snapshot => shape.writes,
            Isolation::Serializable => shape.accesses(),
        };
        // Each of the compared items must not be among the writes of the intentions between: a share of
        // e^(-compared · written / n) does not conflict.
        let written = (shape.writes * options.behind) as f64 * (1.0 - conflicts);
        let among = compared as f64 * written / -(-conflicts).ln_1p();
        let draw = match conflicts > 0.0 {
            true => Draw::Among((among as u64).clamp(shape.accesses(), options.items)),
            false => Draw::Stripes(stripes(options.behind, executors)),
        };
        Self {
            shape,
            isolation,
            conflicts,
            behind: options.behind,
            transactions: options.transactions,
            items: options.items,
            draw,
            seed: options.seed,
        }
    }

    pub(super) fn run(&self) -> Run {
        Run {
            shape: self.shape,
            isolation: self.isolation.name(),
            conflicts: self.conflicts,
        }
    }

    pub(super) fn describe(&self) -> String {
        let percent = self.conflicts * 100.0;
        format!("{}, {}, {percent} % conflicts", self.shape, self.isolation)
    }

    /// Returns the random numbers of an executor.
    pub(super) fn random(&self, executor: usize) -> SmallRng {
        SmallRng::seed_from_u64(self.seed ^ (executor as u64) << 40)
    }

    /// Executes a transaction, and returns its intention. It reads all of its items and writes to some of them a value
    /// that depends on everything that it has read.
    pub(super) fn execute(&self, state: State, serial: u64, random: &mut SmallRng) -> Vec<u8> {
        let mut transaction = match self.isolation {
            Isolation::Snapshot => Transaction::snapshot(state),
            Isolation::Serializable => Transaction::serializable(state),
        };
        let items = self.draw(serial, random);
        let mut sum = serial;
        for item in &items {
            let found = transaction.get(&item.to_be_bytes());
            let found = found.as_deref().and_then(|value| value.first_chunk());
            sum = sum.wrapping_add(u64::from_be_bytes(*found.expect("all items have values")));
        }
        for item in items.iter().take(self.shape.writes as usize) {
            transaction.put(&item.to_be_bytes(), &value(sum));
        }
        transaction.finish().expect("a shape has writes")
    }

    /// Draws the items of a transaction, all different.
    fn draw(&self, serial: u64, random: &mut SmallRng) -> Vec<u64> {
        let mut items = Vec::with_capacity(self.shape.accesses() as usize);
        while items.len() < self.shape.accesses() as usize {
            let item = match self.draw {
                Draw::Among(count) => random.random_range(0..count) * (self.items / count),
                Draw::Stripes(count) => {
                    random.random_range(0..self.items / count) * count + serial % count
                }
            };
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items
    }
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}
