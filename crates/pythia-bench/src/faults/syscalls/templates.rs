//! The preloaded library, and the stores that the operations start with.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::super::history::{self, Ledger};
use super::super::session::Script;
use super::super::store::{Settings, StoreFolder, load_options};
use super::super::{Tally, copy_folder, mix};

/// The library's source.
const LIBRARY: &str = include_str!("../failing.c");
/// The format of the store that is upgraded.
const EARLIER: u32 = 4;

/// Compiles the library.
pub(super) fn compile(folder: &Path, library: &Path) -> Result<()> {
    let source = folder.join("failing.c");
    std::fs::File::create(&source)?.write_all(LIBRARY.as_bytes())?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
    let output = compiler.arg(library).arg(&source).arg("-ldl").output();
    let output = output.context("run cc, the C compiler that building Pythia needs, too")?;
    ensure!(
        output.status.success(),
        "cc: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Creates the initial stores. Returns the histories of those with changes and of their backup.
pub(super) fn make(templates: &Path, seed: u64) -> Result<(Ledger, Ledger)> {
    let loaded = StoreFolder::new(&templates.join("loaded"));
    let options = load_options(templates);
    let text = history::load_text(1);
    let source = pythia::Source::from_reader(
        "load 1".to_owned(),
        std::io::Cursor::new(text),
        pythia::RdfFormat::NTriples,
        pythia::Compression::None,
    )?;
    pythia::load(&loaded.store(), vec![source], &options, &Default::default())?;

    StoreFolder::new(&templates.join("earlier")).create(Some(EARLIER))?;

    let work = StoreFolder::new(&templates.join("being-written"));
    work.create(None)?;
    let settings = Settings {
        has_second_log: false,
        has_archive: false,
        has_spare: false,
        ..Settings::draw(seed)
    };
    let store = work.open_for_writing(&settings.write_options(&work, false))?;
    let (mut ledger, mut backup) = (Ledger::new(1), None);
    let mut random = SmallRng::seed_from_u64(mix(seed, 1));
    let back_up = || pythia::backup(&work.store(), &work.backup()).map(|_| ());
    let mut script = Script {
        random: &mut random,
        ledger: &mut ledger,
        back_up: &back_up,
        backup: &mut backup,
        load_options: options,
        tally: &Tally::default(),
    };
    for _ in 0..16 {
        script.step(&store)?;
    }
    back_up()?;
    let backed_up = script.ledger.clone();
    for _ in 0..6 {
        script.step(&store)?;
    }
    history::commit(&store, 0, script.ledger.commits[0] + 1)?;
    script.ledger.commits[0] += 1;
    let backed_up = script.backup.clone().unwrap_or(backed_up);
    // Copied while it is open, as if the writer had been killed.
    copy_folder(work.folder(), &templates.join("backed-up"))?;
    copy_folder(&work.store(), &templates.join("written").join("store"))?;
    Ok((ledger, backed_up))
}

/// Returns the history of the store that is upgraded.
pub(super) fn earlier() -> Ledger {
    Ledger::new(1).begun_in(Some(EARLIER))
}
