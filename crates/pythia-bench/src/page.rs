//! A report as a self-contained page of HTML.

use crate::table::{Table, escape};

/// A page with a heading, a line about the machine, and the added elements in order.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// Creates an empty page.
    pub fn new(title: &str, machine: &str) -> Self {
        Self {
            title: escape(title).into_owned(),
            body: format!("<h1>{}</h1>\n<p>{}</p>\n", escape(title), escape(machine)),
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        self.body += &format!("<h2>{}</h2>\n", escape(text));
    }

    /// Adds a plot (an `<svg>` element).
    pub fn plot(&mut self, svg: &str) {
        self.body += svg;
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) {
        self.body += &table.html();
    }

    /// Renders the page.
    pub fn html(&self) -> String {
        let Self { title, body } = self;
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )
    }
}

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
svg { max-width: 100%; height: auto; display: block; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th:first-child, td:first-child { text-align: left; }
.note { margin: .3rem 0; opacity: .75; font-size: .9em; }
";
