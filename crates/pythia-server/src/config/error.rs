//! Errors of configurations.

use std::path::{Path, PathBuf};

use pythia::nearest_word;

/// An error in a configuration, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read the configuration {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file has an error.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Place {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, in characters from 1.
        column: usize,
        /// The error.
        message: String,
    },
    /// An environment variable has an error.
    #[error("environment variable {variable}: {message}")]
    Variable {
        /// The variable's name; several names if the culprit cannot be determined.
        variable: String,
        /// The error.
        message: String,
    },
    /// Settings contradict each other, or a value makes no sense.
    #[error("configuration: {message}")]
    Invalid {
        /// The error.
        message: String,
    },
}

impl ConfigError {
    /// Makes an error about settings that make no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Invalid { message }
    }

    /// Makes an error about a place in a file.
    pub(super) fn at(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let offset = error.span().map_or(0, |span| span.start.min(text.len()));
        let before = &text[..text.floor_char_boundary(offset)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self::Place {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: explained(error.message()),
        }
    }
}

/// Returns an error's message; for an unknown key, with the key that was probably meant.
pub(super) fn explained(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message.replace('\n', " ");
    };
    // unknown field `x`, expected one of `a`, `b`
    let mut names = rest.split('`');
    let unknown = names.next().unwrap_or_default();
    let known: Vec<&str> = names.skip(1).step_by(2).collect();
    let upper: Vec<String> = known.iter().map(|name| name.to_ascii_uppercase()).collect();
    let meant = nearest_word(unknown, upper.iter().map(String::as_str));
    match meant {
        Some(meant) => format!(
            "there is no setting {unknown}; did you mean {}?",
            meant.to_ascii_lowercase()
        ),
        None => format!(
            "there is no setting {unknown} here, but {}",
            known.join(", ")
        ),
    }
}
