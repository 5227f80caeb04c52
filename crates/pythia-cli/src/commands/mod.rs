//! One module per command.

pub(crate) mod generate;
pub(crate) mod load;
pub(crate) mod query;
