//! The operations of the campaign: commands with their arguments, and the stores that they start with.

use std::ffi::OsString;
use std::path::Path;

use super::super::store::StoreFolder;
use super::super::{history, indexes};

/// The operation during which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// `pythia load` into a new store.
    Load,
    /// `pythia load` into a store with changes.
    LoadMore,
    /// `pythia update` of a store that was only loaded.
    FirstUpdate,
    /// `pythia update` of a store with changes, whose last writer was killed.
    Update,
    /// `pythia compact`.
    Compact,
    /// `pythia backup` into a new folder.
    Backup,
    /// `pythia backup` into a folder with an older backup.
    BackupMore,
    /// `pythia restore`.
    Restore,
    /// `pythia upgrade` of a store of an earlier format.
    Upgrade,
    /// `pythia optimize` of a store with changes.
    Optimize,
    /// A process that makes, copies, moves and drops whole graphs and continues after errors.
    Graphs,
    /// A process that does all kinds of steps and continues after errors.
    Session,
}

/// The files of an operation.
pub(super) struct Paths<'a> {
    pub(super) home: &'a StoreFolder,
    /// The store that is made of the backup.
    pub(super) restored: &'a StoreFolder,
    /// The file to load.
    pub(super) input: &'a Path,
}

impl Operation {
    pub(super) const ALL: [Self; 12] = [
        Self::Load,
        Self::LoadMore,
        Self::FirstUpdate,
        Self::Update,
        Self::Compact,
        Self::Backup,
        Self::BackupMore,
        Self::Restore,
        Self::Upgrade,
        Self::Optimize,
        Self::Graphs,
        Self::Session,
    ];

    /// Returns the folder of the template that the operation starts with.
    pub(super) fn template(self) -> &'static str {
        match self {
            Self::Load => "nothing",
            Self::FirstUpdate => "loaded",
            Self::Backup => "written",
            Self::Upgrade => "earlier",
            _ => "backed-up",
        }
    }
    /// Returns the arguments of the `pythia` command. `number` is that of the commit that an update makes.
    pub(super) fn arguments(self, paths: &Paths<'_>, number: u64, seed: u64) -> Vec<OsString> {
        let store = paths.home.store().into_os_string();
        let backup = paths.home.backup().into_os_string();
        let input = paths.input.as_os_str().to_owned();
        let text = |text: &str| OsString::from(text);
        match self {
            Self::Load | Self::LoadMore => {
                let options = ["--quiet", "--threads", "1", "--memory", "64M"];
                let mut all = vec![text("load"), text("-l"), store];
                all.extend(options.map(OsString::from));
                all.push(input);
                all
            }
            Self::FirstUpdate | Self::Update => {
                let update = history::commit_text(0, number);
                vec![text("update"), text("-l"), store, text("-u"), update.into()]
            }
            Self::Compact => {
                let options = ["--memory", "64M"].map(OsString::from);
                [vec![text("compact"), text("-l"), store], options.into()].concat()
            }
            Self::Backup | Self::BackupMore => {
                vec![text("backup"), text("-l"), store, backup]
            }
            Self::Restore => {
                let target = paths.restored.store().into_os_string();
                vec![text("restore"), backup, text("-l"), target]
            }
            Self::Upgrade => {
                let options = ["--memory", "64M"].map(OsString::from);
                [vec![text("upgrade"), text("-l"), store], options.into()].concat()
            }
            Self::Optimize => {
                let mut all = vec![text("optimize"), text("-l"), store];
                all.extend(indexes::options().map(OsString::from));
                all
            }
            Self::Graphs | Self::Session => {
                let victim = ["bench", "syscalls", "--seed"].map(OsString::from);
                let seed = seed.to_string().into();
                let folder = paths.home.folder().as_os_str().to_owned();
                let graphs = (self == Self::Graphs).then(|| text("--graphs"));
                let rest = vec![seed, text("--victim"), folder];
                victim.into_iter().chain(rest).chain(graphs).collect()
            }
        }
    }
}
