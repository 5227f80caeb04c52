//! Damaged, missing and foreign files and folders: `pythia bench damages`.
//!
//! A store is written to and closed, or left as a kill leaves it. Then one damage is done to its files. Afterwards every
//! acknowledged commit is there, or opening, reading or `verify` fails with a message that names the file. A refused
//! store is unchanged. Only the end of a log can be lost unnoticed: groups without any remaining evidence that they were
//! durable ([`groups::Groups::are_undecidable`]).

mod groups;
mod inflict;

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail, ensure};
use pythia_io::DirectStorage;
use pythia_store::Store;
use pythia_store::verify::{VerifyOptions, verify};
use pythia_store::write::WriteOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::history::{self, Ledger, Lost};
use super::session::Script;
use super::store::{Settings, StoreFolder, load_options};
use super::{Campaign, Tally, copy_folder, in_round};
use groups::Groups;
use inflict::Damage;

/// Maximum number of steps before the damage.
const STEPS_MAX: u64 = 40;

/// The campaign.
#[derive(Clone, Copy, Debug)]
pub struct Damages;

impl Campaign for Damages {
    fn run(
        &self,
        rounds: RangeInclusive<u64>,
        seed: u64,
        folder: &Path,
        tally: &Tally,
    ) -> Result<()> {
        let mut random = SmallRng::seed_from_u64(seed);
        let outcome = round(folder, seed, &mut random, tally);
        in_round(*rounds.start(), outcome)
    }
}

fn round(folder: &Path, seed: u64, random: &mut SmallRng, tally: &Tally) -> Result<()> {
    let damaged = DamagedStore::write(&folder.join("home"), Settings::draw(seed), random)?;
    let undamaged = damaged.home.open()?;
    history::find_all(&undamaged, &damaged.ledger).context("before the damage")?;
    drop(undamaged);
    let before = contents(damaged.home.folder())?;
    let damage = Damage::draw(&damaged.home, random)?;
    let foreign = if damage.needs_other_store() {
        // It has the same folders, so that any folder can replace the other store's.
        let settings = damaged.settings.clone();
        let other = DamagedStore::write(&folder.join("other"), settings, random)?;
        Some(other.home)
    } else {
        None
    };
    damage.inflict(&damaged.home, foreign.as_ref(), random)?;
    let after = contents(damaged.home.folder())?;
    let judge = Judge {
        damaged: &damaged,
        damage: &damage,
        is_undecidable: Groups::read(&before).are_undecidable(&before, &after),
        after,
    };
    let outcome = judge
        .judge()
        .with_context(|| format!("{damage:?}, {:?}", damaged.settings))?;
    tally.add(outcome, 1);
    Ok(())
}

/// A store that was written to, and its contents.
struct DamagedStore {
    home: StoreFolder,
    settings: Settings,
    ledger: Ledger,
}

impl DamagedStore {
    fn write(folder: &Path, settings: Settings, random: &mut SmallRng) -> Result<Self> {
        let mut written = Self {
            home: StoreFolder::new(folder),
            settings,
            ledger: Ledger::new(1),
        };
        written.home.create(None)?;
        for _ in 0..random.random_range(1..=3) {
            written.live(random)?;
        }
        Ok(written)
    }

    fn live(&mut self, random: &mut SmallRng) -> Result<()> {
        let store = self.home.open_for_writing(&self.options())?;
        let steps = random.random_range(1..=STEPS_MAX);
        let is_killed = random.random_range(0..3) > 0;
        let mut script = Script {
            random,
            ledger: &mut self.ledger,
            back_up: &|| Ok(()),
            backup: &mut None,
            load_options: load_options(self.home.folder()),
            tally: &Tally::default(),
        };
        for _ in 0..steps {
            script.step(&store)?;
        }
        if is_killed {
            // The files of the open store replace those of the closed store.
            let image = self.home.folder().with_extension("image");
            // The record first: threads of the log's devices may still rewrite groups and begin files for that,
            // and no kill leaves a record that names files without their first group.
            let record = fs::read(self.home.store().join("LOG"))?;
            copy_folder(self.home.folder(), &image)?;
            fs::write(image.join("store/LOG"), record)?;
            drop(store);
            fs::remove_dir_all(self.home.folder())?;
            fs::rename(image, self.home.folder())?;
        }
        Ok(())
    }

    fn options(&self) -> WriteOptions {
        self.settings.write_options(&self.home, false)
    }
}

/// The bytes of the files below a folder, by path.
type Contents = BTreeMap<PathBuf, Vec<u8>>;

fn contents(folder: &Path) -> Result<Contents> {
    let mut all = Contents::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(contents(&path)?);
        } else {
            let bytes = fs::read(&path)?;
            all.insert(path, bytes);
        }
    }
    Ok(all)
}

/// A judge of the behaviour of a damaged store.
struct Judge<'a> {
    damaged: &'a DamagedStore,
    damage: &'a Damage,
    is_undecidable: bool,
    /// The files after the damage.
    after: Contents,
}

impl Judge<'_> {
    fn judge(&self) -> Result<&'static str> {
        let home = &self.damaged.home;
        let sound = self.verify()?;
        let read = home.open();
        let outcome = self.look(read, sound).context("opened for reading")?;
        if outcome == REFUSED {
            self.check_unchanged().context("refused to a reader")?;
        }
        if !home.store().join("MANIFEST").exists() {
            self.check_not_replaced()?;
        }
        let written = home.open_for_writing(&self.damaged.options());
        let outcome = self.look(written, sound).context("opened for writing")?;
        match outcome {
            REFUSED => self.check_unchanged().context("refused to a writer")?,
            UNHARMED => {
                let store = home.open_for_writing(&self.damaged.options())?;
                let found = history::find_all(&store, &self.damaged.ledger)?;
                history::commit(&store, 0, found.commits[0] + 1).context("commit again")?;
            }
            _ => {}
        }
        Ok(outcome)
    }

    /// Returns false if `verify` finds a problem; its message must name the damage.
    fn verify(&self) -> Result<bool> {
        let Ok(storage) = DirectStorage::open(&self.damaged.home.store(), false) else {
            return Ok(false);
        };
        let report = verify(Arc::new(storage), VerifyOptions::default(), &mut |_| {});
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        ensure!(
            problems.is_empty()
                || problems
                    .iter()
                    .any(|problem| self.damage.is_named_by(problem)),
            "verify does not name what is damaged: {problems:?}"
        );
        Ok(problems.is_empty())
    }

    /// Checks a store for all acknowledged commits, if it can be opened.
    fn look(&self, opened: Result<Store>, is_sound: bool) -> Result<&'static str> {
        let found = opened.and_then(|store| history::find_all(&store, &self.damaged.ledger));
        let Err(error) = found else {
            return Ok(if is_sound { UNHARMED } else { FOUND_BY_VERIFY });
        };
        let is_lost = error.downcast_ref::<Lost>().is_some();
        match is_lost {
            true if !is_sound => Ok(FOUND_BY_VERIFY),
            true if self.is_undecidable => Ok(UNDECIDABLE),
            true => Err(error.context("silently lost")),
            false if !is_sound || self.damage.is_named_by(&format!("{error:#}")) => Ok(REFUSED),
            false => Err(Error::context(
                error,
                "the message does not name what is damaged",
            )),
        }
    }

    /// Checks that a refused store's files are unchanged, except that zeros at the end of log files may be gone and, if
    /// the log is intact, its record may show that it was opened.
    fn check_unchanged(&self) -> Result<()> {
        let now = contents(self.damaged.home.folder())?;
        for (path, before) in &self.after {
            let is_lock = path.ends_with("LOCK") || path.ends_with("WRITER");
            let is_record = path.ends_with("LOG") && !self.damage.is_of_log();
            let after = now.get(path).map_or(&[][..], Vec::as_slice);
            if !is_lock && !is_record && without_zeros(after) != without_zeros(before) {
                bail!("{} was changed or removed", path.display());
            }
        }
        let path = self.damage.place(&self.damaged.home);
        ensure!(
            !self.damage.has_removed_folder() || !path.exists(),
            "{} was made again",
            path.display()
        );
        Ok(())
    }

    /// Checks that no new store can be created in the folder of a store that lost its manifest.
    fn check_not_replaced(&self) -> Result<()> {
        let (options, progress) = (load_options(self.damaged.home.folder()), Arc::default());
        let loaded = pythia::load(&self.damaged.home.store(), Vec::new(), &options, &progress);
        ensure!(
            loaded.is_err(),
            "a load makes a new store in place of one that lost its MANIFEST"
        );
        self.check_unchanged()
            .context("a load into what lost its MANIFEST")
    }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    &bytes[..end.map_or(0, |last| last + 1)]
}

const UNHARMED: &str = "damages that did no harm";
const REFUSED: &str = "refused by name";
const FOUND_BY_VERIFY: &str = "named by verify";
const UNDECIDABLE: &str = "ends of logs that nothing shows to be missing";
