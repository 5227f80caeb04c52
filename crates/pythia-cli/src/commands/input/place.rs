//! Shows the line of a file that has a syntax error.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use pythia_rdf::{ParseError, Source, SyntaxProblem, snippet_of_line};

/// Longest line that is shown, in bytes; the place in a longer one is seldom visible anyway.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The part of a file's text in which a line is looked for.
const TEXT_BYTES_MAX: u64 = 1 << 30;

/// Prints the line of a syntax error with a caret at its position, if the line can be read again.
pub(in crate::commands) fn show_line(error: &ParseError) {
    if let ParseError::Syntax(problem) = error
        && let Some(snippet) = snippet_of(problem)
    {
        eprintln!("{snippet}");
    }
}

fn snippet_of(problem: &SyntaxProblem) -> Option<String> {
    let line = line_of(Path::new(&problem.source), problem.line)?;
    let (number, column) = (
        problem.line.try_into().ok()?,
        problem.column.try_into().ok()?,
    );
    (column > 0).then(|| snippet_of_line(&line, number, column))
}

/// Reads a line of a file, from 1. `None` for standard input, and if the line is too long or far from the start.
fn line_of(path: &Path, number: u64) -> Option<String> {
    if !path.is_file() || number == 0 {
        return None;
    }
    // The format does not matter here.
    let format = pythia::RdfFormat::NTriples;
    let source = Source::from_path(path, Some(format), None).ok()?;
    let mut text = BufReader::new(source.reader.take(TEXT_BYTES_MAX));
    for _ in 1..number {
        if text.skip_until(b'\n').ok()? == 0 {
            return None;
        }
    }
    let mut line = Vec::new();
    text.take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .ok()?;
    Some(
        String::from_utf8_lossy(&line)
            .trim_end_matches(['\n', '\r'])
            .to_owned(),
    )
}
