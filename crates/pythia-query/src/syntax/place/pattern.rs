//! From triples around a place to the bodies of groups that ask for what fits there.

use super::SOUGHT;

/// Triples of the query that a pattern has at most: those nearest to the place.
const TRIPLES_MAX: usize = 12;
/// Solutions of what is around that are gone on from.
const SAMPLE: usize = 1000;

/// The body of a group that has what is sought.
pub(super) struct Pattern {
    pub(super) whole: String,
    /// The same after the first solutions of what is around.
    pub(super) sampled: Option<String>,
}

/// Subject, path and object of each, as they are written.
pub(super) type Triples<'t> = Vec<&'t [String; 3]>;

/// The triples as text.
pub(super) fn written(triples: &[&[String; 3]]) -> String {
    let text = |[subject, path, object]: &&[String; 3]| format!("{subject} {path} {object} . ");
    triples.iter().map(text).collect()
}

/// Those of the triples that are to be kept.
pub(super) fn kept<'t>(triples: &[&'t [String; 3]], keep: &[bool]) -> Triples<'t> {
    let both = triples.iter().zip(keep);
    both.filter(|(_, keep)| **keep)
        .map(|(triple, _)| *triple)
        .collect()
}

/// A pattern in which triples that what is sought hangs on are matched first, and only so often. `None` if
/// it hangs on none.
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

/// Which of the triples have to do, directly or through others, with the known variables.
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
