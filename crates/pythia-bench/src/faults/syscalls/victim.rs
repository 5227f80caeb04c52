//! The processes that continue after errors.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::super::history::{self, Ledger};
use super::super::session::{Acknowledged, Script, WHOLE_GRAPHS};
use super::super::store::{Settings, StoreFolder, TRANSACTION_BYTES, load_options};
use super::super::{Tally, mix};
use super::LOST;

/// Steps of a process of all kinds.
const STEPS: u64 = 12;
/// Steps of a process that changes whole graphs: those of a cycle.
const GRAPH_STEPS: u64 = 7;

/// Runs as a process that continues after errors: does some steps of all kinds, or changes of whole graphs only, prints
/// acknowledgements on standard output and failures on standard error.
///
/// # Errors
/// Fails if a step failed, or if less is read in the end than was acknowledged.
pub fn be_the_victim(folder: &Path, seed: u64, has_only_graphs: bool) -> Result<()> {
    let home = StoreFolder::new(folder);
    let mut settings = Settings::draw(seed);
    if has_only_graphs {
        // Each graph is large enough to be changed as a whole, and each change in parts is not.
        settings.transaction_bytes = TRANSACTION_BYTES[1] as usize;
    }
    let steps = if has_only_graphs { GRAPH_STEPS } else { STEPS };
    let store = home.open_for_writing(&settings.write_options(&home, false))?;
    let nothing = Ledger::new(1);
    let mut ledger = history::find(&store, &nothing, &nothing)?;
    let mut random = SmallRng::seed_from_u64(mix(seed, 2));
    let mut backup = None;
    let back_up = || pythia::backup(&home.store(), &home.backup()).map(|_| ());
    let tally = Tally::default();
    let mut failed = 0;
    for _ in 0..steps {
        let (before, had_backup) = (ledger.clone(), backup.clone());
        let whole = tally.get(WHOLE_GRAPHS);
        let mut script = Script {
            random: &mut random,
            ledger: &mut ledger,
            back_up: &back_up,
            backup: &mut backup,
            load_options: load_options(folder),
            tally: &tally,
        };
        let outcome = match has_only_graphs {
            true => script.change_graphs(&store),
            false => script.step(&store),
        };
        if let Err(error) = outcome {
            eprintln!("{:#}", anyhow::Error::from(error));
            failed += 1;
        }
        let [number] = ledger.commits[..] else {
            unreachable!("one client")
        };
        if number > before.commits[0] {
            Acknowledged::Commit { client: 0, number }.print()?;
        }
        if ledger.loads > before.loads {
            let number = ledger.loads;
            Acknowledged::Load { number }.print()?;
        }
        if ledger.graphs > before.graphs {
            let (number, whole) = (ledger.graphs, tally.get(WHOLE_GRAPHS) - whole);
            Acknowledged::Graphs { number, whole }.print()?;
        }
        if let Some(backup) = backup
            .as_ref()
            .filter(|backup| had_backup.as_ref() != Some(backup))
        {
            Acknowledged::Backup(backup.clone()).print()?;
        }
    }
    if let Err(error) = history::find(&store, &nothing, &ledger) {
        ensure!(!error.is::<history::Lost>(), "{LOST}: {error:#}");
        // The failing call was one of these. It fails once.
        eprintln!("{error:#}");
        failed += 1;
        history::find(&store, &nothing, &ledger).context(LOST)?;
    }
    ensure!(failed == 0, "{failed} of {steps} steps failed");
    Ok(())
}
