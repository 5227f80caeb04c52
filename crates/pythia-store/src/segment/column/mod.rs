//! PSO and POS: the quads as columns, one page after the other.
//!
//! Rows (p, a, b, g) are sorted and distinct; in PSO a is the subject and b the object, in POS the reverse. A page
//! holds consecutive rows, column by column, so that unused columns cost nothing. [`ColumnWriter`] turns sorted rows
//! into pages and a `ColumnDirectory`; `ColumnFile` finds rows by key through the directory and returns them page by
//! page.
//!
//! Invariants:
//! - rows are numbered through the file, so a range of keys is a range of rows and its length an
//!   exact count;
//! - a key is found by reading at most the two pages in which its rows begin and end;
//! - no byte of a page is trusted, even after its checksum.
//!
//! The format is drawn in `docs/format/column-pages.md`.

mod block;
mod counter;
mod directory;
pub(crate) mod format;
mod pack;
mod page;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use counter::PredicateCounter;
pub use directory::COLUMN_PAGE_BYTES;
pub(crate) use directory::{ColumnDirectory, PageEntry};
pub(crate) use format::{BadPage, Column};
pub use page::minipage_places;
pub(crate) use page::{Block, ColumnPage};
pub(crate) use reader::{ColumnFile, PageGraphs};
pub use writer::ColumnWriter;
