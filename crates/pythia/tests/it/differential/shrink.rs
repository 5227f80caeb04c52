//! Cutting a failing case down: fewer quads, fewer lines of the query, smaller expressions, as
//! long as the engines still differ.

use super::check::Pair;
use super::{Case, differ};

/// The smallest case found that still fails.
pub(crate) fn shrink(mut case: Case) -> Case {
    loop {
        let size = (case.data.len(), case.query.len(), text_len(&case));
        shrink_data(&mut case);
        shrink_query(&mut case);
        if (case.data.len(), case.query.len(), text_len(&case)) == size {
            return case;
        }
    }
}

fn text_len(case: &Case) -> usize {
    case.query.iter().map(String::len).sum()
}

/// Leaves out quads, halves first, then single ones.
fn shrink_data(case: &mut Case) {
    let mut width = case.data.len().div_ceil(2);
    while width > 0 {
        let mut start = 0;
        while start < case.data.len() {
            let mut fewer = case.clone();
            let end = (start + width).min(fewer.data.len());
            fewer.data.drain(start..end);
            if differ(&fewer.load(), &fewer.query).is_some() {
                *case = fewer;
            } else {
                start += width;
            }
        }
        width /= 2;
    }
}

/// Takes every smaller query on which the engines differ.
fn shrink_query(case: &mut Case) {
    let pair = case.load();
    while let Some(smaller) = smaller_query(&pair, &case.query) {
        case.query = smaller;
    }
}

fn smaller_query(pair: &Pair, query: &[String]) -> Option<Vec<String>> {
    candidates(query)
        .into_iter()
        .find(|candidate| differ(pair, candidate).is_some())
}

/// Smaller texts, most of which are no queries: without a block, without the braces around one,
/// without a line, with a bracketed part in place of the whole.
fn candidates(query: &[String]) -> Vec<Vec<String>> {
    let without = |places: &[usize]| -> Vec<String> {
        let lines = query.iter().enumerate();
        lines
            .filter(|(place, _)| !places.contains(place))
            .map(|(_, line)| line.clone())
            .collect()
    };
    let mut smaller = Vec::new();
    for (open, line) in query.iter().enumerate() {
        if !line.ends_with('{') {
            continue;
        }
        if let Some(close) = closing(query, open) {
            let block: Vec<usize> = (open..=close).collect();
            smaller.push(without(&block));
            smaller.push(without(&[open, close]));
        }
    }
    smaller.extend((0..query.len()).map(|place| without(&[place])));
    // The brackets of a path stay: without them it may be one whose routes Oxigraph counts less.
    let is_pattern = |line: &str| line.ends_with(" .");
    for (place, line) in query.iter().enumerate() {
        if is_pattern(line) {
            continue;
        }
        for shorter in shorter_lines(line) {
            let mut candidate = query.to_vec();
            candidate[place] = shorter;
            smaller.push(candidate);
        }
    }
    smaller
}

/// The line that closes the block which this line opens.
fn closing(query: &[String], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, line) in query.iter().enumerate().skip(open) {
        if line.starts_with('}') {
            depth -= 1;
            if depth == 0 {
                return Some(place);
            }
        }
        if line.ends_with('{') {
            depth += 1;
        }
    }
    None
}

/// The line with a bracketed part, or an argument, in place of a larger one.
fn shorter_lines(line: &str) -> Vec<String> {
    let spans = spans(line);
    let mut shorter = Vec::new();
    for (outer_start, outer_end) in &spans {
        // What a bracket holds stands for the call around it.
        let name = line[..*outer_start]
            .rfind(|sign: char| !(sign.is_ascii_alphanumeric() || ":_".contains(sign)))
            .map_or(0, |place| place + 1);
        let inside = &line[outer_start + 1..outer_end - 1];
        for operand in operands(inside) {
            let text = format!("{}{operand}{}", &line[..name], &line[*outer_end..]);
            if text.len() < line.len() {
                shorter.push(text);
            }
        }
    }
    shorter
}

/// The operands of an operator or the arguments of a call.
fn operands(inside: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut start, mut quoted) = (0_i32, 0, false);
    for (place, sign) in inside.char_indices() {
        match sign {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' | ' ' if depth == 0 => {
                found.push(&inside[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    found.push(&inside[start..]);
    found.retain(|operand| operand.len() > 1 && !["&&", "||", "IN", "NOT", "AS"].contains(operand));
    found
}

/// Where brackets open and end, outside strings.
fn spans(line: &str) -> Vec<(usize, usize)> {
    let (mut open, mut found, mut quoted) = (Vec::new(), Vec::new(), false);
    for (place, sign) in line.char_indices() {
        match sign {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => open.push(place),
            ')' => {
                if let Some(start) = open.pop() {
                    found.push((start, place + 1));
                }
            }
            _ => {}
        }
    }
    found
}
