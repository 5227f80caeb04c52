//! Paths as a Graphviz drawing: the nodes and edges of all paths of a result, each once.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use oxrdf::Term;
use pythia_query::{Path, SolutionStream};

use super::{ResultFormat, WriteError, WriteReport};

/// Writes a directed graph. It remembers eight bytes for each written line.
pub(super) fn write_dot(
    mut solutions: SolutionStream,
    mut out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut report = WriteReport::default();
    let mut next = solutions.next_batch()?;
    let hasher = RandomState::new();
    let mut written: HashSet<u64> = HashSet::new();
    writeln!(out, "digraph paths {{\n  rankdir=LR;")?;
    while let Some(batch) = next {
        for row in 0..batch.len() {
            let terms = batch.row(row).filter_map(|(_, term)| term);
            let paths: Vec<Path> = terms.filter_map(Path::of_term).collect();
            if paths.is_empty() {
                return Err(WriteError::Format {
                    format: ResultFormat::Dot,
                    result: "solutions without paths",
                    instead: ResultFormat::TABLES,
                });
            }
            for line in paths.iter().flat_map(lines) {
                if written.insert(hasher.hash_one(&line)) {
                    writeln!(out, "  {line}")?;
                }
            }
        }
        report.rows += batch.len() as u64;
        next = solutions
            .next_batch()
            .map_err(|error| WriteError::cut(report.rows, error))?;
    }
    writeln!(out, "}}")?;
    out.flush()?;
    Ok(report)
}

/// Returns the nodes and edges of a path in Graphviz syntax.
fn lines(path: &Path) -> Vec<String> {
    let node = |node: &Term| {
        let (name, label) = (quoted(&node.to_string()), quoted(&Path::label(node)));
        format!("{name} [label={label}];")
    };
    let mut lines: Vec<String> = path.nodes.iter().map(node).collect();
    for (place, edge) in path.edges.iter().enumerate() {
        let (mut from, mut to) = (&path.nodes[place], &path.nodes[place + 1]);
        if edge.inverse {
            std::mem::swap(&mut from, &mut to);
        }
        let predicate = edge.predicate.clone().map(Term::from);
        let label = predicate.map_or_else(String::new, |predicate| Path::label(&predicate));
        let (from, to) = (quoted(&from.to_string()), quoted(&to.to_string()));
        lines.push(format!("{from} -> {to} [label={}];", quoted(&label)));
    }
    lines
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
