//! From an error to its message and exit code.

use std::io;
use std::process::ExitCode;

use pythia::{LoadError, QueryError, StoreError, WriteError};
use pythia_rdf::ParseError;

/// Failed while running.
const RUNTIME: u8 = 1;
/// Wrong usage; also clap's code.
const USAGE: u8 = 2;
/// Wrong data: a syntax error in the input, or a damaged store.
const DATA: u8 = 3;

/// A mistake in how the command was called.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Found problems in data; they are printed already.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DataError(pub(crate) String);

/// Prints an error with its causes and gives the exit code. A closed pipe is no error: whoever
/// read the output has seen enough.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    ExitCode::from(code(error))
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn code(error: &anyhow::Error) -> u8 {
    error
        .chain()
        .find_map(|cause| {
            if cause.is::<UsageError>() {
                Some(USAGE)
            } else if cause.is::<DataError>() {
                Some(DATA)
            } else if let Some(error) = cause.downcast_ref::<LoadError>() {
                load_code(error)
            } else if let Some(error) = cause.downcast_ref::<QueryError>() {
                query_code(error)
            } else if let Some(WriteError::Query(error)) = cause.downcast_ref::<WriteError>() {
                query_code(error)
            } else if let Some(WriteError::Format { .. }) = cause.downcast_ref::<WriteError>() {
                Some(USAGE)
            } else {
                cause.downcast_ref::<StoreError>().and_then(store_code)
            }
        })
        .unwrap_or(RUNTIME)
}

fn load_code(error: &LoadError) -> Option<u8> {
    match error {
        LoadError::Parse(ParseError::Io { error, .. }) => Some(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => USAGE,
            io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof => DATA,
            _ => RUNTIME,
        }),
        LoadError::Parse(ParseError::Format { .. }) => Some(USAGE),
        LoadError::Parse(_) => Some(DATA),
        LoadError::Store(error) => store_code(error),
        _ => None,
    }
}

fn query_code(error: &QueryError) -> Option<u8> {
    match error {
        QueryError::Syntax { .. } | QueryError::Unsupported { .. } => Some(USAGE),
        QueryError::Store(error) => store_code(error),
        _ => None,
    }
}

fn store_code(error: &StoreError) -> Option<u8> {
    match error {
        StoreError::Corrupt { .. } | StoreError::Format { .. } => Some(DATA),
        StoreError::NotAStore { .. } => Some(USAGE),
        StoreError::Io(error) if error.is_corruption() => Some(DATA),
        _ => None,
    }
}
