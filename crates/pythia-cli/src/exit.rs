//! Messages and exit codes of errors.

use std::io;
use std::process::ExitCode;

use pythia::{BackupError, FeedError, LoadError, LogError, QueryError, StoreError, WriteError};
use pythia_io::IoError;
use pythia_rdf::ParseError;
use pythia_server::ServerError;

/// Runtime error.
const RUNTIME: u8 = 1;
/// Usage error; also clap's code.
const USAGE: u8 = 2;
/// Data error: a syntax error in the input, or a damaged store.
const DATA: u8 = 3;

/// A mistake in the command's arguments.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Problems in data, which are already printed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DataError(pub(crate) String);

/// Prints an error with its causes and returns the exit code. A closed pipe is not an error: the
/// reader of the output has stopped reading.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {}", message(error));
    ExitCode::from(code(error))
}

/// Returns the error with its causes, without those that a text before them already has.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !message.contains(&cause) {
            message.push_str(": ");
            message.push_str(&cause);
        }
    }
    message
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
            } else if let Some(error) = cause.downcast_ref::<ParseError>() {
                Some(parse_code(error))
            } else if let Some(error) = cause.downcast_ref::<QueryError>() {
                query_code(error)
            } else if let Some(WriteError::Query(error)) = cause.downcast_ref::<WriteError>() {
                query_code(error)
            } else if let Some(
                WriteError::Format { .. }
                | WriteError::Character { .. }
                | WriteError::NamedGraphs { .. },
            ) = cause.downcast_ref::<WriteError>()
            {
                Some(USAGE)
            } else if let Some(ServerError::Config(_)) = cause.downcast_ref::<ServerError>() {
                Some(USAGE)
            } else if let Some(error) = cause.downcast_ref::<BackupError>() {
                backup_code(error)
            } else if let Some(FeedError::Store(error)) = cause.downcast_ref::<FeedError>() {
                store_code(error)
            } else {
                cause.downcast_ref::<StoreError>().and_then(store_code)
            }
        })
        .unwrap_or(RUNTIME)
}

fn load_code(error: &LoadError) -> Option<u8> {
    match error {
        LoadError::Parse(error) => Some(parse_code(error)),
        LoadError::Store(error) => store_code(error),
        _ => None,
    }
}

fn parse_code(error: &ParseError) -> u8 {
    use io::ErrorKind::{InvalidData, InvalidInput, IsADirectory, NotFound, Other, UnexpectedEof};
    match error {
        ParseError::Io { error, read, .. } => match error.kind() {
            NotFound | IsADirectory => USAGE,
            InvalidData | InvalidInput | UnexpectedEof => DATA,
            // A decompressor's error about its input.
            Other if *read > 0 => DATA,
            _ => RUNTIME,
        },
        ParseError::Format { .. } | ParseError::Base { .. } => USAGE,
        _ => DATA,
    }
}

fn query_code(error: &QueryError) -> Option<u8> {
    match error {
        QueryError::Syntax { .. } | QueryError::Unsupported { .. } => Some(USAGE),
        QueryError::Store(error) => store_code(error),
        QueryError::Load { .. } => Some(DATA),
        _ => None,
    }
}

fn backup_code(error: &BackupError) -> Option<u8> {
    match error {
        BackupError::Store(error) => store_code(error),
        BackupError::Damaged { .. } | BackupError::Archive { .. } => Some(DATA),
        BackupError::Changing => None,
        _ => Some(USAGE),
    }
}

fn store_code(error: &StoreError) -> Option<u8> {
    match error {
        StoreError::Corrupt { .. } | StoreError::Format { .. } | StoreError::LogFolder { .. } => {
            Some(DATA)
        }
        StoreError::NotAStore { .. }
        | StoreError::NotEmpty { .. }
        | StoreError::ForeignFiles { .. }
        | StoreError::NotOptimizable { .. }
        | StoreError::MemoryTooSmall { .. }
        | StoreError::NoLog
        | StoreError::Io(IoError::CacheTooSmall { .. }) => Some(USAGE),
        // A file of the store that is damaged, or named by the manifest but missing.
        StoreError::Io(error) if error.is_corruption() || error.is_not_found() => Some(DATA),
        StoreError::Log(error) if error.is_corruption() => Some(DATA),
        StoreError::Log(
            LogError::Missing { .. } | LogError::Ahead { .. } | LogError::TooManyDevices { .. },
        ) => Some(USAGE),
        _ => None,
    }
}
