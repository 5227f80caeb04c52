//! Scans and queries while a compaction moves the changes into a new base, which is the product's migration.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use super::changes;
use super::compare::{Condition, Side, WorkTimes};
use super::work::Work;
use crate::updates::store::copy_store;

/// Least number of migrations. Each gives only as many runs as there is time for, and before each, the work is run without.
const MIGRATIONS_MIN: u32 = 3;

/// The store, and its copies.
pub(super) struct Migrations<'m> {
    /// A store with changes that is not open; it is not changed.
    pub(super) changed: &'m Path,
    /// The folder of the copy of it that is migrated.
    pub(super) copy: &'m Path,
    pub(super) cache_bytes: usize,
    pub(super) memory_bytes: usize,
    pub(super) rounds: u32,
}

impl Migrations<'_> {
    /// Runs work on copies of the store, without and during migrations, until each has been run `rounds` times during one; or,
    /// if it is too long for that, until there were `rounds` migrations. Returns also the duration of each migration.
    pub(super) fn run(
        &self,
        works: &[Work],
        condition: Condition,
    ) -> Result<(Vec<WorkTimes>, Vec<f64>)> {
        let mut times: Vec<WorkTimes> = works.iter().map(WorkTimes::new).collect();
        let mut seconds = Vec::new();
        let runs = |times: &[WorkTimes]| {
            let during = times.iter().map(|work| work.times_us[1].len());
            during.min().unwrap_or(0)
        };
        let most = self.rounds.max(MIGRATIONS_MIN) as usize;
        while seconds.len() < MIGRATIONS_MIN as usize
            || (seconds.len() < most && runs(&times) < self.rounds as usize)
        {
            copy_store(self.changed, self.copy)?;
            let once = self.once(works, condition, &mut times);
            std::fs::remove_dir_all(self.copy)?;
            seconds.push(once?);
        }
        Ok((times, seconds))
    }

    /// Runs the work without and during one migration. Returns the duration of the migration.
    fn once(&self, works: &[Work], condition: Condition, times: &mut [WorkTimes]) -> Result<f64> {
        let database = changes::open(self.copy, self.cache_bytes, self.memory_bytes, true)?;
        let side = Side::of(&database);
        for round in 0..=self.rounds.div_ceil(MIGRATIONS_MIN) {
            for (work, times) in works.iter().zip(&mut *times) {
                let run = side.run(work, condition, 0.0)?;
                // The first round fills the caches.
                if round > 0 {
                    times.record(0, run);
                }
            }
        }
        std::thread::scope(|scope| {
            let migration = scope.spawn(|| {
                let begun = Instant::now();
                let outcome = database.store().maintain();
                outcome.map(|()| begun.elapsed().as_secs_f64())
            });
            let has_ended = || migration.is_finished();
            let measured = during(works, side, condition, times, &has_ended);
            let migrated = migration.join();
            let migrated = migrated.map_err(|_| anyhow::anyhow!("the migration panicked"))?;
            measured?;
            Ok(migrated?)
        })
    }
}

/// Runs work until the migration ends. A run that is not over by then does not count: the rest of it was not beside the
/// migration, or it was on the new base.
fn during(
    works: &[Work],
    side: Side<'_>,
    condition: Condition,
    times: &mut [WorkTimes],
    has_ended: &dyn Fn() -> bool,
) -> Result<()> {
    let goes_on = || !has_ended() && side.database.snapshot().has_changes();
    // Work that has been run least often comes first, as the last migration may have ended in the middle.
    let mut order: Vec<usize> = (0..works.len()).collect();
    order.sort_by_key(|&place| times[place].times_us[1].len());
    for &place in order.iter().cycle() {
        if !goes_on() {
            return Ok(());
        }
        let run = side.run(&works[place], condition, 0.0)?;
        if goes_on() {
            times[place].record(1, run);
        }
    }
    Ok(())
}
