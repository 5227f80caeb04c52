//! Findings and tables that pipelines of the same steps share while they run side by side.

use super::distinct::Trials;
use super::table::Tables;

/// Tables and findings that pipelines of the same steps share.
#[derive(Default)]
pub(crate) struct Siblings {
    pub(super) tables: Tables,
    pub(super) trials: Trials,
}
