//! Pythia, an RDF database for solid-state storage, as a library.
//!
//! A store is a folder. [`load`] builds one from RDF files, [`Database::open`] opens it, and
//! [`Database::query`] answers SPARQL queries. If it is opened with [`Database::open_for_writing`],
//! [`Database::update`] and [`Transaction`] change it.
//!
//! ```
//! use pythia::{Database, LoadOptions, Results, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let text = "<http://ex.org/Zeus> <http://ex.org/hasChild> <http://ex.org/Apollo> .\n\
//!             <http://ex.org/Apollo> <http://ex.org/hasChild> <http://ex.org/Asclepius> .\n";
//! let source = Source::from_reader(
//!     "family".to_owned(),
//!     text.as_bytes(),
//!     pythia::RdfFormat::NTriples,
//!     pythia::Compression::None,
//! )?;
//! pythia::load(folder.path(), vec![source], &LoadOptions::default(), &Default::default())?;
//!
//! let database = Database::open(folder.path())?;
//! let query = "SELECT ?ancestor { ?ancestor <http://ex.org/hasChild>+ <http://ex.org/Asclepius> }";
//! let Results::Solutions(solutions) = database.query(query)? else { unreachable!() };
//! let mut ancestors: Vec<String> = Vec::new();
//! for solution in pythia::solutions(solutions) {
//!     ancestors.push(solution?.get_as("ancestor")?);
//! }
//! ancestors.sort();
//! assert_eq!(ancestors, ["http://ex.org/Apollo", "http://ex.org/Zeus"]);
//! # Ok(())
//! # }
//! ```

mod advise;
mod backup;
pub mod completion;
mod database;
mod dump;
mod feed;
pub mod ids;
mod moment;
mod optimize;
mod solution;
mod transaction;
mod update;
mod write;

pub use advise::{Advice, Advised, advise};
pub use backup::{
    BackupError, BackupReport, RestoreOptions, RestoreReport, Until, backup, backup_storage,
    restore, restore_storage,
};
pub use database::{Database, Options};
pub use dump::{check_dump, dump, dump_graph, dump_within};
pub use feed::{Feed, FeedError, changed_quads, write_patch};
pub use moment::{format_time, parse_time};
pub use optimize::{
    Added, Auxiliary, CachedAttribute, IndexState, OptimizeOptions, compact, describe_auxiliary,
    drop_auxiliary, index_states, optimize, predicate_named, upgrade,
};
pub use solution::{FromTerm, Solution, SolutionError, Solutions, solutions};
pub use transaction::Transaction;
pub use update::{Precondition, UpdateReport};
pub use write::{
    ResultFormat, WriteError, WriteReport, record_batches, write_json_term, write_results,
};

pub use oxrdf::{Quad, Term, Triple, Variable};
pub use pythia_io::{Counters, DeviceProfile, DirectStorage, GroupCounters};
pub use pythia_log::{Commit, LogError, Position, Salvage, StoreId};
pub use pythia_query::{
    Cores, CustomFunction, CustomFunctions, GraphRules, HttpService, JoinOrder, LoadHandler,
    Loader, Measured, Overstay, Path, PathEdge, PlanNode, PreparedQuery, QueryError, QueryOptions,
    Results, ServiceError, ServiceHandler, ServiceSolutions, SolutionBatch, SolutionStream,
    SourceError, SpilledBytes, SpilledPiece, SpooledSolutions, TripleStream, UpdateOptions,
    Updated, Usage,
};
pub use pythia_rdf::{Compression, ParseReport, RdfFormat, RdfWriter, Source};
pub use pythia_sparql::{
    Query, QueryForm, SparqlError, Update, nearest as nearest_word, well_known_prefixes,
};
pub use pythia_store::Pace;
pub use pythia_store::auxiliary::reachability::ReachabilityReport;
pub use pythia_store::compact::CompactionOptions;
pub use pythia_store::folders::{
    FolderChanges, FolderReport, FolderState, change_log_folders, log_folders,
};
pub use pythia_store::load::{LoadError, LoadOptions, LoadProgress, LoadReport, parse_only};
pub use pythia_store::manifest::FORMATS_READ as STORE_FORMATS;
pub use pythia_store::report::{DegreeDistribution, OrderContents, OrderReport, StoreReport};
pub use pythia_store::salvage::{salvage, salvage_storage};
pub use pythia_store::store::load_into as load;
pub use pythia_store::verify::{Problem, VerifyOptions, VerifyProgress, VerifyReport};
pub use pythia_store::write::{Committed, Compacted, MaintenanceOptions, Replaced, WriteOptions};
pub use pythia_store::{
    ChangesReport, End, Isolation, NextStep, RunReport, Snapshot, Store, StoreError,
    UnknownIsolation, Version, check_folder as check_store, device,
};

/// Checks the store in a folder, which must not be loaded into at the same time.
pub fn verify(
    path: &std::path::Path,
    options: VerifyOptions,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport, StoreError> {
    if !path.is_dir() {
        return Err(StoreError::NotAStore {
            path: path.display().to_string(),
            message: "there is no such folder".to_owned(),
        });
    }
    let storage = pythia_io::DirectStorage::open(path, false)?;
    let _lock = pythia_store::StoreLock::shared(&storage)?;
    // A store of another format is not damaged.
    if let Err(error @ StoreError::Format { .. }) = pythia_store::manifest::Manifest::read(&storage)
    {
        return Err(error);
    }
    Ok(pythia_store::verify::verify(
        std::sync::Arc::new(storage),
        options,
        progress,
    ))
}
