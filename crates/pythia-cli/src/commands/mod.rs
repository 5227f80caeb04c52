//! One module per command.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod compact;
pub(crate) mod convert;
pub(crate) mod dump;
pub(crate) mod generate;
mod input;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod log_folders;
pub(crate) mod manual;
pub(crate) mod optimize;
pub(crate) mod password;
pub(crate) mod ping;
pub(crate) mod probe;
pub(crate) mod query;
pub(crate) mod restore;
pub(crate) mod salvage;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod stats;
pub(crate) mod token;
pub(crate) mod update;
pub(crate) mod upgrade;
pub(crate) mod verify;
