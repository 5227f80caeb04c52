//! Converts the triples around a position to group bodies that query for fitting terms.

use super::SOUGHT;

/// Maximum triples of a pattern; the nearest to the position are kept.
const TRIPLES_MAX: usize = 12;
/// Maximum solutions of the surrounding triples in a sampled pattern.
const SAMPLE: usize = 1000;

/// The body of a group that binds the sought term.
pub(super) struct Pattern {
    pub(super) whole: String,
    /// Variant that starts from the first solutions of the surrounding triples.
    pub(super) sampled: Option<String>,
}

/// Subject, path and object of each triple, as written.
pub(super) type Triples<'t> = Vec<&'t [String; 3]>;

/// Formats the triples.
pub(super) fn written(triples: &[&[String; 3]]) -> String {
    let text = |[subject, path, object]: &&[String; 3]| format!("{subject} {path} {object} . ");
    triples.iter().map(text).collect()
}

/// Returns the triples for which `keep` is true.
pub(super) fn kept<'t>(triples: &[&'t [String; 3]], keep: &[bool]) -> Triples<'t> {
    let both = triples.iter().zip(keep);
    both.filter(|(_, keep)| **keep)
        .map(|(triple, _)| *triple)
        .collect()
}

/// Returns a pattern that matches the triples on which the sought term depends first, and stops after a few
/// solutions. Returns `None` if it depends on none.
pub(super) fn sampled(triples: &[&[String; 3]]) -> Option<String> {
    let sought = format!("?{SOUGHT}");
    let (goal, context): (Triples<'_>, Triples<'_>) =
        triples.iter().partition(|t| t.contains(&sought));
    let is_around = |term: &&String| {
        term.starts_with('?') && **term != sought && context.iter().any(|t| t.contains(term))
    };
    let start = goal
        .iter()
        .flat_map(|triple| triple.iter())
        .find(is_around)?;
    let is_first = linked(&context, vec![start.clone()]);
    let is_rest: Vec<bool> = is_first.iter().map(|first| !first).collect();
    let (first, rest) = (kept(&context, &is_first), kept(&context, &is_rest));
    let outside: Vec<&&[String; 3]> = goal.iter().chain(&rest).collect();
    let mut shared: Vec<&str> = Vec::new();
    for term in first.iter().flat_map(|triple| triple.iter()) {
        let is_outside = outside.iter().any(|triple| triple.contains(term));
        if term.starts_with('?') && is_outside && !shared.contains(&term.as_str()) {
            shared.push(term);
        }
    }
    Some(format!(
        "{{ SELECT {} {{ {}}} LIMIT {SAMPLE} }} {}{}",
        shared.join(" "),
        written(&first),
        written(&goal),
        written(&rest)
    ))
}

/// Marks the triples that are linked to the known variables, directly or through other triples.
pub(super) fn linked(triples: &[&[String; 3]], mut known: Vec<String>) -> Vec<bool> {
    let mut linked = vec![false; triples.len()];
    let mut taken = 0;
    loop {
        let before = taken;
        for (triple, linked) in triples.iter().zip(&mut linked) {
            let has_known = triple.iter().any(|term| known.contains(term));
            if !*linked && has_known && taken < TRIPLES_MAX {
                *linked = true;
                taken += 1;
                known.extend(triple.iter().filter(|term| term.starts_with('?')).cloned());
            }
        }
        if taken == before {
            return linked;
        }
    }
}
