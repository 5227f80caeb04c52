//! One query asked of both engines, and what to make of their answers.
//!
//! Without LIMIT both must give the same rows, whatever their order. The order, and what LIMIT
//! takes, are checked against SPARQL's rules rather than against Oxigraph, because most of the
//! order of terms is left to the engine.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use pythia::{Database, QueryError, QueryOptions};

use crate::support::{Answer, Peer, answer_of, reread};

/// Queries that run longer are left alone: random joins may be cartesian.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Both engines with one graph.
pub(crate) struct Pair {
    pub(crate) pythia: Database,
    pub(crate) oxigraph: Peer,
}

pub(crate) enum Verdict {
    Agree,
    /// We say that we do not support it.
    Unsupported,
    /// There is nothing to compare: it is no query, or takes too long.
    Skipped,
    /// What is wrong.
    Differ(String),
}

/// Asks both engines.
pub(crate) fn check(pair: &Pair, lines: &[String]) -> Verdict {
    let is_slice = |line: &&String| line.starts_with("LIMIT ");
    let whole: Vec<&str> = lines
        .iter()
        .filter(|line| !is_slice(line))
        .map(String::as_str)
        .collect();
    let whole = whole.join("\n");
    let Ok(expected) = pair.oxigraph.answer(&whole) else {
        return Verdict::Skipped;
    };
    let options = QueryOptions {
        timeout: Some(TIMEOUT),
        ..QueryOptions::default()
    };
    let ask = |text: &str| {
        let prepared = pair.pythia.prepare(text, &options)?;
        answer_of(reread(&pair.pythia, &prepared, &options).execute()?)
    };
    let answer = match ask(&whole).map(|answer| answer.with_columns(&expected.variables)) {
        Ok(Some(answer)) => answer,
        Ok(None) => return Verdict::Differ("other variables".to_owned()),
        Err(QueryError::Unsupported { .. }) => return Verdict::Unsupported,
        Err(QueryError::Timeout) => return Verdict::Skipped,
        Err(error) => return Verdict::Differ(error.to_string()),
    };
    let order = lines.iter().find_map(|line| line.strip_prefix("ORDER BY "));
    let order = order.map_or_else(Vec::new, |text| keys(text, &expected.variables));
    if let Some(problem) = unordered(&answer, &order) {
        return Verdict::Differ(problem);
    }
    if let Some(slice) = lines.iter().find(is_slice) {
        let sliced = match ask(&lines.join("\n")) {
            Ok(sliced) => sliced.with_columns(&expected.variables),
            Err(error) => return Verdict::Differ(error.to_string()),
        };
        let sliced = sliced.expect("the variables of the whole");
        if let Some(problem) = missliced(&sliced, &answer, slice, &order) {
            return Verdict::Differ(problem);
        }
    }
    let (answer, expected) = (answer.sorted(), expected.sorted());
    if answer == expected {
        Verdict::Agree
    } else {
        Verdict::Differ(format!("OURS {answer:#?}\nOXIGRAPH {expected:#?}"))
    }
}

/// A column and whether it goes from the largest to the smallest.
type Key = (usize, bool);

fn keys(text: &str, variables: &[String]) -> Vec<Key> {
    let key = |word: &str| {
        let descending = word.starts_with("DESC");
        let name = word
            .trim_start_matches("DESC")
            .trim_matches(['(', ')', '?']);
        let column = variables.iter().position(|variable| variable == name)?;
        Some((column, descending))
    };
    text.split(' ').map_while(key).collect()
}

/// A pair of rows in the wrong order.
fn unordered(answer: &Answer, order: &[Key]) -> Option<String> {
    let rows: Vec<Vec<&str>> = answer
        .lines
        .iter()
        .map(|l| l.split('\t').collect())
        .collect();
    for window in rows.windows(2) {
        if compare(&window[0], &window[1], order) == Some(Ordering::Greater) {
            return Some(format!("{:?} comes before {:?}", window[0], window[1]));
        }
    }
    None
}

/// What is wrong with some rows that LIMIT and OFFSET took from the whole answer.
fn missliced(sliced: &Answer, whole: &Answer, slice: &str, order: &[Key]) -> Option<String> {
    let numbers: Vec<usize> = slice
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [limit, offset] = numbers[..] else {
        panic!("LIMIT and OFFSET: {slice}");
    };
    let count = whole.lines.len().saturating_sub(offset).min(limit);
    if sliced.lines.len() != count {
        return Some(format!(
            "{} rows for {slice}, not {count}",
            sliced.lines.len()
        ));
    }
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in &whole.lines {
        *left.entry(line).or_default() += 1;
    }
    for (place, line) in sliced.lines.iter().enumerate() {
        let there = left.entry(line).or_default();
        if *there == 0 {
            return Some(format!("{line} is not in the whole answer so often"));
        }
        *there -= 1;
        let cells: Vec<&str> = line.split('\t').collect();
        let same: Vec<&str> = whole.lines[offset + place].split('\t').collect();
        if compare(&cells, &same, order).is_some_and(Ordering::is_ne) {
            return Some(format!("{line} stands for {same:?} in {slice}"));
        }
    }
    None
}

/// The order of two rows, where SPARQL gives one (§15.1).
fn compare(left: &[&str], right: &[&str], order: &[Key]) -> Option<Ordering> {
    for (column, descending) in order {
        let ordering = compare_terms(left[*column], right[*column])?;
        match ordering {
            Ordering::Equal => {}
            other if *descending => return Some(other.reverse()),
            other => return Some(other),
        }
    }
    Some(Ordering::Equal)
}

/// Unbound, blank nodes, IRIs, literals; numbers by value, plain strings and IRIs by code points.
fn compare_terms(left: &str, right: &str) -> Option<Ordering> {
    let rank = |term: &str| match term.as_bytes() {
        [b'-', ..] => Some(0),
        [b'_', ..] => Some(1),
        [b'<', b'<', ..] => None,
        [b'<', ..] => Some(2),
        _ => Some(3),
    };
    let (left_rank, right_rank) = (rank(left)?, rank(right)?);
    if left_rank != right_rank {
        return Some(left_rank.cmp(&right_rank));
    }
    match left_rank {
        0 => Some(Ordering::Equal),
        2 => Some(left.trim_end_matches('>').cmp(right.trim_end_matches('>'))),
        3 if left == right => Some(Ordering::Equal),
        3 => match (number(left), number(right)) {
            (Some(left), Some(right)) => left.partial_cmp(&right),
            (None, None) => plain(left)?.partial_cmp(plain(right)?),
            _ => None,
        },
        _ => None,
    }
}

fn number(literal: &str) -> Option<f64> {
    let (lexical, datatype) = literal.strip_prefix('"')?.rsplit_once("\"^^")?;
    let numeric = ["#integer>", "#decimal>", "#double>", "#float>"];
    let is_numeric = numeric.iter().any(|end| datatype.ends_with(end));
    is_numeric.then(|| lexical.parse().ok()).flatten()
}

fn plain(literal: &str) -> Option<&str> {
    let text = literal.strip_prefix('"')?.strip_suffix('"')?;
    // Escapes do not sort like what they stand for.
    (!text.contains('\\')).then_some(text)
}
