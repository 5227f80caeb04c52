//! Cases in `.sparqltest` files: data, queries, and the answers they must have.
//!
//! `CONTRIBUTING.md` describes the format.

use std::path::{Path, PathBuf};

use oxrdfio::{RdfFormat, RdfParser};
use pythia::{QueryOptions, ResultFormat, Results};

use crate::outcome::{Outcome, Rows};
use crate::support::{Peer, database, reread};

/// A file: data, and queries with their answers.
#[derive(Debug)]
struct File {
    data: String,
    cases: Vec<Case>,
}

#[derive(Debug)]
struct Case {
    query: String,
    /// `rows`, `ordered rows`, `boolean`, `graph` or `error`.
    kind: String,
    answer: String,
}

impl File {
    fn parse(text: &str) -> Result<Self, String> {
        let mut sections: Vec<(&str, String)> = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("== ") {
                // The empty line before a section is not of the one above.
                if let Some((_, body)) = sections.last_mut()
                    && body.ends_with("\n\n")
                {
                    body.pop();
                }
                sections.push((name.trim(), String::new()));
            } else if let Some((_, body)) = sections.last_mut() {
                body.push_str(line);
                body.push('\n');
            } else if !line.is_empty() && !line.starts_with('#') {
                return Err(format!("before the first section: {line}"));
            }
        }
        let mut sections = sections.into_iter().peekable();
        let data = sections
            .next_if(|(name, _)| *name == "data")
            .map(|(_, data)| data)
            .unwrap_or_default();
        let is_prefix = |line: &&str| line.starts_with("PREFIX ");
        let prefixes: Vec<&str> = data.lines().filter(is_prefix).collect();
        let prefixes = prefixes.join("\n");
        let mut cases = Vec::new();
        while let Some((name, query)) = sections.next() {
            let (kind, answer) = sections.next().ok_or("a query without its answer")?;
            if name != "query" {
                return Err(format!("a section {name} in place of a query"));
            }
            cases.push(Case {
                query: format!("{prefixes}\n{query}"),
                kind: kind.to_owned(),
                answer,
            });
        }
        Ok(Self { data, cases })
    }

    /// What is wrong with our answers.
    fn run(&self) -> Result<(), String> {
        let mut nquads = String::new();
        for quad in RdfParser::from_format(RdfFormat::TriG).for_slice(self.data.as_bytes()) {
            let quad = quad.map_err(|error| error.to_string())?;
            nquads.push_str(&format!("{quad} .\n"));
        }
        let database = database(&nquads);
        let options = QueryOptions::default();
        for case in &self.cases {
            let prepared = database.prepare(&case.query, &options);
            let answer = prepared.and_then(|query| reread(&database, &query, &options).execute());
            let answer = answer.map_err(|error| error.to_string());
            let outcome = answer.and_then(|results| Ok((format_of(&results)?, written(results)?)));
            case.compare(outcome)
                .map_err(|problem| format!("{}\n{problem}", case.query.trim()))?;
        }
        Ok(())
    }
}

impl Case {
    fn compare(&self, outcome: Result<(ResultFormat, Vec<u8>), String>) -> Result<(), String> {
        let wanted = &self.answer;
        let (format, bytes) = match (outcome, self.kind.as_str()) {
            (Err(error), "error") if error.contains(wanted.trim()) => return Ok(()),
            (Err(error), _) => return Err(error),
            (Ok(_), "error") => return Err("no error".to_owned()),
            (Ok(outcome), _) => outcome,
        };
        let count = match self.kind.as_str() {
            "ordered rows" => Rows::InOrder,
            "rows" | "boolean" | "graph" => Rows::Counted,
            other => return Err(format!("{other} is no kind of answer")),
        };
        let ours = Outcome::parse(&bytes, format)?;
        let expected = Outcome::parse(wanted.as_bytes(), format)?;
        if ours.is(&expected, count) {
            Ok(())
        } else {
            Err(format!("got\n{ours}\nnot\n{expected}"))
        }
    }
}

fn format_of(results: &Results) -> Result<ResultFormat, String> {
    Ok(match results {
        Results::Graph(_) => ResultFormat::NTriples,
        _ => ResultFormat::Tsv,
    })
}

fn written(results: Results) -> Result<Vec<u8>, String> {
    let format = format_of(&results)?;
    let mut bytes = Vec::new();
    pythia::write_results(results, format, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// A file with one query and the answer that Oxigraph gives.
pub(crate) fn write(description: &str, quads: &[String], query: &str, peer: &Peer) -> String {
    let (kind, answer) = peer.section(query);
    let mut text = format!("# {description}\n\n== data\n");
    for quad in quads {
        let (triple, graph) = split_quad(quad);
        match graph {
            Some(graph) => text.push_str(&format!("{graph} {{ {triple} }}\n")),
            None => text.push_str(&format!("{triple} .\n")),
        }
    }
    let ordered = if query.contains("ORDER BY") {
        "ordered "
    } else {
        ""
    };
    text.push_str(&format!(
        "\n== query\n{query}\n\n== {ordered}{kind}\n{answer}"
    ));
    text
}

/// A line of N-Quads as its triple and its graph's name.
fn split_quad(quad: &str) -> (String, Option<String>) {
    let parsed = RdfParser::from_format(RdfFormat::NQuads)
        .for_slice(quad.as_bytes())
        .next()
        .expect("a quad")
        .expect("a quad");
    let graph = match &parsed.graph_name {
        oxrdf::GraphName::DefaultGraph => None,
        name => Some(name.to_string()),
    };
    (oxrdf::Triple::from(parsed).to_string(), graph)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of cases");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|end| end == "sparqltest"))
        .collect();
    files.sort();
    files
}

#[test]
fn the_cases_in_files_have_their_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/queries");
    let files = files(&folder);
    assert!(!files.is_empty(), "no cases in {}", folder.display());
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("readable");
        if let Err(problem) = File::parse(&text).and_then(|file| file.run()) {
            wrong.push(format!("{}: {problem}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
