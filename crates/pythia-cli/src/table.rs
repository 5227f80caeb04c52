//! Solutions as an aligned table.

use std::io::Write;

use anyhow::Result;
use oxrdf::{Literal, NamedNode, Term};
use pythia::completion::CompletionContext;
use pythia::{Path, SolutionStream};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum display width of a cell and of a path; the rest is truncated.
const CELL_WIDTH_MAX: usize = 100;
const PATH_WIDTH_MAX: usize = 1000;
/// Number of rows that column widths are computed from; later rows may be wider.
const ROWS_MEASURED: usize = 1000;

/// Prefixes that shorten IRIs.
pub(crate) struct Prefixes {
    /// Names and IRIs, the longest IRI first.
    prefixes: Vec<(String, String)>,
}

impl Prefixes {
    /// Returns the prefixes that a query declares.
    pub(crate) fn of_query(text: &str) -> Self {
        let mut prefixes = CompletionContext::at(text, 0).prefixes;
        prefixes.retain(|(_, iri)| !iri.is_empty());
        prefixes.sort_by_key(|(_, iri)| std::cmp::Reverse(iri.len()));
        Self { prefixes }
    }

    /// Returns the IRI as a prefixed name, if one stands for it without escapes; otherwise in full.
    fn shorten(&self, node: &NamedNode) -> String {
        let named = self.prefixes.iter().find_map(|(prefix, start)| {
            let local = node.as_str().strip_prefix(start.as_str())?;
            is_local_name(local).then(|| format!("{prefix}:{local}"))
        });
        named.unwrap_or_else(|| node.to_string())
    }
}

/// Returns whether a text may follow a prefix as it is.
fn is_local_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    text.chars().all(is_inner) && !text.starts_with(['-', '.']) && !text.ends_with('.')
}

/// Writes the solutions as they come, with columns as wide as the first rows need, and IRIs shortened.
pub(crate) fn write(
    mut solutions: SolutionStream,
    prefixes: &Prefixes,
    mut out: impl Write,
) -> Result<u64> {
    let header: Vec<String> = solutions
        .variables()
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut widths: Vec<usize> = Vec::new();
    let mut count = 0_u64;
    loop {
        let batch = solutions.next_batch();
        let batch = match (batch, count) {
            (Err(error), 1..) => {
                out.flush()?;
                let message = format!("the output is cut after {count} results");
                return Err(anyhow::Error::new(error).context(message));
            }
            (batch, _) => batch?,
        };
        let finished = batch.is_none();
        if let Some(batch) = batch {
            for row in 0..batch.len() {
                rows.push(
                    batch
                        .row(row)
                        .map(|(_, term)| cell(term, prefixes))
                        .collect(),
                );
            }
        }
        if widths.is_empty() && (finished || rows.len() >= ROWS_MEASURED) {
            widths = header.iter().map(|name| name.width()).collect();
            for row in &rows {
                for (width, cell) in widths.iter_mut().zip(row) {
                    *width = (*width).max(cell.width());
                }
            }
            write_row(&mut out, &header, &widths)?;
            let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
            write_row(&mut out, &rule, &widths)?;
            if widths.is_empty() {
                widths.push(0);
            }
        }
        if !widths.is_empty() {
            for row in rows.drain(..) {
                write_row(&mut out, &row, &widths)?;
                count += 1;
            }
            out.flush()?;
        }
        if finished {
            break;
        }
    }
    out.flush()?;
    Ok(count)
}

fn write_row(out: &mut impl Write, cells: &[String], widths: &[usize]) -> Result<()> {
    for (i, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if i + 1 == cells.len() {
            write!(out, "{cell}")?;
        } else {
            let padding = width.saturating_sub(cell.width());
            write!(out, "{cell}{:padding$}  ", "")?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Formats a term for display: N-Triples syntax, but IRIs shortened, plain strings and numbers without quotes,
/// paths as drawings, and control characters as spaces.
fn cell(term: Option<&Term>, prefixes: &Prefixes) -> String {
    let path = term.and_then(Path::of_term);
    let width_max = match path {
        Some(_) => PATH_WIDTH_MAX,
        None => CELL_WIDTH_MAX,
    };
    let text = match term {
        None => return String::new(),
        Some(_) if path.is_some() => path.map(|path| path.drawing()).unwrap_or_default(),
        Some(Term::Literal(literal)) if literal.language().is_none() => {
            let datatype = literal.datatype().as_str();
            match datatype.strip_prefix("http://www.w3.org/2001/XMLSchema#") {
                Some(
                    "string" | "integer" | "decimal" | "double" | "boolean" | "date" | "dateTime",
                ) => literal.value().to_owned(),
                _ => {
                    let value = Literal::new_simple_literal(literal.value());
                    format!(
                        "{value}^^{}",
                        prefixes.shorten(&literal.datatype().into_owned())
                    )
                }
            }
        }
        Some(Term::NamedNode(node)) => prefixes.shorten(node),
        Some(term) => term.to_string(),
    };
    let mut shown = String::with_capacity(text.len());
    let mut width = 0;
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        width += c.width().unwrap_or(0);
        if width > width_max {
            shown.push('…');
            break;
        }
        shown.push(c);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iris_become_prefixed_names_that_sparql_can_read() {
        let text = "prefix : <http://a/>\nPREFIX b: <http://a/b#>\nSELECT * { ?s a :C }";
        let prefixes = Prefixes::of_query(text);
        let shown = |iri: &str| prefixes.shorten(&NamedNode::new_unchecked(iri));
        for (iri, expected) in [
            ("http://a/x", ":x"),
            ("http://a/", ":"),
            ("http://a/b#ä-1", "b:ä-1"),
            ("http://a/b#x/y", "<http://a/b#x/y>"),
            ("http://a/x.", "<http://a/x.>"),
            ("http://a/(x)", "<http://a/(x)>"),
            ("http://b/x", "<http://b/x>"),
        ] {
            assert_eq!(shown(iri), expected);
        }
        let cell = |term: Term| cell(Some(&term), &prefixes);
        let typed = Literal::new_typed_literal("1", NamedNode::new_unchecked("http://a/t"));
        assert_eq!(cell(typed.into()), "\"1\"^^:t");
        assert_eq!(cell(Literal::new_simple_literal("x").into()), "x");
    }
}
