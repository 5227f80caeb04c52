//! The module `pythiadb._pythiadb`: what the Python package `pythiadb` has in Rust.
//!
//! [`terms`] are RDF terms as Python objects, [`database`] an open store, [`transaction`] its transactions, and
//! [`solutions`] the results of queries. Work of the store is done without the interpreter's lock; [`interrupt`] lets
//! Ctrl-C end it, and [`scope`] refuses what is used after it was closed. `python/pythiadb` has the rest: the classes that
//! people use, with defaults and conversions to other libraries.

mod database;
mod errors;
mod feed;
mod foreign;
mod interrupt;
mod load;
mod matching;
mod output;
mod scope;
mod solutions;
mod terms;
mod transaction;

/// Pythia's own part of the package `pythiadb`.
#[pyo3::pymodule]
mod _pythiadb {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::database::{LocalDatabase, verify};
    #[pymodule_export]
    use crate::feed::Commits;
    #[pymodule_export]
    use crate::load::{parse, serialize};
    #[pymodule_export]
    use crate::matching::Matching;
    #[pymodule_export]
    use crate::solutions::{ArrowStream, Solution, Solutions, Triples};
    #[pymodule_export]
    use crate::terms::{
        PyBaseDirection, PyBlankNode, PyDefaultGraph, PyLiteral, PyNamedNode, PyQuad, PyTriple,
        PyVariable, path_parts,
    };
    #[pymodule_export]
    use crate::transaction::LocalTransaction;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::interrupt::remember_main_thread(module.py())
    }
}
