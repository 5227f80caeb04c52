//! A small table, as aligned text or as HTML.

use std::borrow::Cow;
use std::fmt::Write;

use indicatif::HumanCount;

/// A table with text in the first column and figures in the others.
#[derive(Clone, Debug, Default)]
pub struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(title: impl Into<String>, header: &[&str]) -> Self {
        Self {
            title: title.into(),
            header: header.iter().map(|cell| (*cell).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.header.len(), String::new());
        self.rows.push(cells);
    }

    /// Adds a line below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Renders aligned text: title, header, rows, notes.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]);
            cells
                .chain([&self.header[column]])
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        for row in [&self.header, &rule].into_iter().chain(&self.rows) {
            let mut line = String::from(" ");
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = if column == 0 {
                    write!(line, " {cell:<width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text
    }

    /// Renders a heading, the table and its notes as HTML.
    pub fn html(&self) -> String {
        let mut html = format!("<h2>{}</h2>\n<table>\n<tr>", escape(&self.title));
        for cell in &self.header {
            let _ = write!(html, "<th>{}</th>", escape(cell));
        }
        html.push_str("</tr>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for cell in row {
                let _ = write!(html, "<td>{}</td>", escape(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table>\n");
        for note in &self.notes {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(note));
        }
        html
    }
}

/// Escapes text for HTML, SVG and their attributes.
pub fn escape(text: &str) -> Cow<'_, str> {
    quick_xml::escape::escape(text)
}

/// Formats a count with thousands separators.
pub fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Formats a figure with about three significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => count(value.round() as u64),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Formats microseconds as milliseconds.
pub fn milliseconds(microseconds: f64) -> String {
    format!("{:.3}", microseconds / 1e3)
}

/// Formats a report as text: its title, the machine, and tables.
pub(crate) fn plain_text(title: &str, machine: &str, tables: &[Table]) -> String {
    let tables: Vec<String> = tables.iter().map(Table::text).collect();
    format!("{title}\n{machine}\n\n{}", tables.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_html_is_escaped() {
        let mut table = Table::new("Fruit & more", &["name", "n"]);
        table.row(vec!["<apple>".to_owned(), "3".to_owned()]);
        table.row(vec!["pear".to_owned()]);
        table.note("counted twice");
        assert_eq!(
            table.text(),
            "Fruit & more\n  name     n\n  ───────  ─\n  <apple>  3\n  pear\n  counted twice\n"
        );
        let html = table.html();
        assert!(html.contains("<h2>Fruit &amp; more</h2>"));
        assert!(html.contains("<td>&lt;apple&gt;</td><td>3</td>"));
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(figure(12_345.6), "12,346");
        assert_eq!(figure(123.4), "123");
        assert_eq!(figure(1.234), "1.23");
        assert_eq!(figure(0.0123), "0.0123");
        assert_eq!(figure(0.0), "0.00");
        assert_eq!(milliseconds(1234.5), "1.234");
    }
}
