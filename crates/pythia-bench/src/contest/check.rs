//! Comparison of the answers of the systems, before anything is measured.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use rustc_hash::FxHashSet;
use serde::Serialize;

use super::{Kind, Question};
use crate::system::answer::Answer;
use crate::system::{Client, System};

/// Templates that do not count for a system, with the reason.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct LeftOut {
    /// By system, in the systems' order, and template.
    systems: Vec<BTreeMap<String, String>>,
    /// Number of all templates.
    #[serde(skip)]
    templates: usize,
}

/// Statistics of the answers to a template's queries.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Found {
    /// Number of different queries.
    pub queries: usize,
    /// Number of queries that find nothing.
    pub empty: usize,
    /// Rows or triples of all queries together.
    pub rows: u64,
    /// Why right answers may differ, if they may. They are compared by whether they are empty.
    pub differs_because: Option<&'static str>,
}

impl LeftOut {
    /// Returns whether a template counts for a system.
    pub fn counts(&self, system: usize, template: &str) -> bool {
        !self.systems[system].contains_key(template)
    }

    /// Returns whether a template counts for all systems. A system for which no template counts is ignored.
    pub fn is_common(&self, template: &str) -> bool {
        let mut systems = self.systems.iter();
        systems.all(|one| one.len() >= self.templates || !one.contains_key(template))
    }

    /// Returns whether every template counts for every system.
    pub fn is_empty(&self) -> bool {
        self.systems.iter().all(BTreeMap::is_empty)
    }

    /// Returns the reasons by system and template.
    pub fn reasons(&self) -> &[BTreeMap<String, String>] {
        &self.systems
    }

    pub(super) fn add(&mut self, system: usize, template: &str, reason: String) {
        let reasons = &mut self.systems[system];
        reasons.entry(template.to_owned()).or_insert(reason);
    }
}

pub(super) fn check(
    reference: &System<'_>,
    systems: &[System<'_>],
    parts: &[Vec<Question>],
) -> Result<(LeftOut, BTreeMap<String, Found>)> {
    let questions = || parts.iter().flatten();
    let templates: FxHashSet<&str> = questions().map(|one| one.template.as_str()).collect();
    let mut left_out = LeftOut {
        systems: vec![BTreeMap::new(); systems.len()],
        templates: templates.len(),
    };
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut asked = FxHashSet::default();
    let mut reference = reference.client();
    let mut clients: Vec<Client<'_>> = systems.iter().map(System::client).collect();
    for question in questions() {
        if !asked.insert(question.text.as_str()) {
            continue;
        }
        let Question { template, text, .. } = question;
        let failed = |error| anyhow!("{template}: {error}\n{text}");
        if let Kind::Update(change) = &question.kind {
            let triples = &change.triples;
            let right = Changed::by(&mut reference, question, triples)?.map_err(failed)?;
            right.is_taken_back().map_err(failed)?;
            let found = found.entry(template.clone()).or_default();
            found.queries += 1;
            found.empty += usize::from(right.rows() == 0);
            found.rows += right.rows();
            for (number, client) in clients.iter_mut().enumerate() {
                if !left_out.counts(number, template) {
                    continue;
                }
                let changed = Changed::by(client, question, triples)?;
                if let Err(reason) = changed.and_then(|changed| changed.compare(&right)) {
                    left_out.add(number, template, reason);
                }
            }
            continue;
        }
        let right = Answers::of_reference(&mut reference, text).map_err(failed)?;
        let differs_because = differs_because(text).or(right.unchecked_because());
        let found = found.entry(template.clone()).or_default();
        found.queries += 1;
        found.empty += usize::from(right.limited.is_empty());
        found.rows += right.limited.rows() as u64;
        found.differs_because = found.differs_because.or(differs_because);
        for (number, client) in clients.iter_mut().enumerate() {
            if !left_out.counts(number, template) {
                continue;
            }
            let reason = match Answers::ask(client, text, &right) {
                Err(error) => Some(error),
                Ok(answers) => right.difference(&answers, differs_because.is_none()),
            };
            if let Some(reason) = reason {
                left_out.add(number, template, reason);
            }
        }
    }
    Ok((left_out, found))
}

/// The triples that an update changes: before it, after it, and when it is taken back.
struct Changed([Answer; 3]);

impl Changed {
    /// Makes a change and takes it back. The outer error is that it is not taken back, the inner one that the system does
    /// not do what is asked.
    fn by(
        client: &mut Client<'_>,
        question: &Question,
        triples: &str,
    ) -> Result<Result<Self, String>> {
        let before = client.answer(triples);
        let done = question.time(client);
        let after = done.clone().and_then(|_| client.answer(triples));
        // An update that failed, say for its time, may have made its change.
        let undone = question.take_back(client);
        let taken_back = client.answer(triples);
        if let Err(error) = undone {
            let states = before.as_ref().ok().zip(taken_back.as_ref().ok());
            let is_unchanged = states.is_some_and(|(before, now)| now.difference(before).is_none());
            // A system that refuses updates refuses this one, too.
            return match done {
                Err(refused) if is_unchanged => Ok(Err(refused)),
                _ => Err(error),
            };
        }
        let all = || Ok(Self([before?, after?, taken_back?]));
        Ok(all())
    }

    /// Returns the number of triples added or removed.
    fn rows(&self) -> u64 {
        let [before, after, _] = &self.0;
        before.rows().abs_diff(after.rows()) as u64
    }

    fn is_taken_back(&self) -> Result<(), String> {
        let [before, _, taken_back] = &self.0;
        let difference = taken_back.difference(before);
        difference.map_or(Ok(()), |difference| {
            Err(format!("the change is not taken back: {difference}"))
        })
    }

    /// Compares the effect with that of the reference.
    fn compare(&self, right: &Self) -> Result<(), String> {
        let differences = (self.0.iter().zip(&right.0)).map(|(one, right)| one.difference(right));
        differences.flatten().next().map_or(Ok(()), Err)
    }
}

/// Answers to a query with and without its LIMIT and OFFSET: they cut rows with equal sort keys at will.
struct Answers {
    limited: Answer,
    /// `Some(None)` if the answer without LIMIT takes too long.
    whole: Option<Option<Answer>>,
}

impl Answers {
    fn of_reference(client: &mut Client<'_>, query: &str) -> Result<Self, String> {
        let limited = client.answer(query)?;
        let whole = without_limit(query).map(|text| client.answer(text).ok());
        Ok(Self { limited, whole })
    }

    /// Asks another system what the reference has answered.
    fn ask(client: &mut Client<'_>, query: &str, right: &Self) -> Result<Self, String> {
        let limited = client.answer(query)?;
        let whole = match (without_limit(query), &right.whole) {
            (Some(text), Some(Some(_))) => Some(Some(client.answer(text)?)),
            _ => None,
        };
        Ok(Self { limited, whole })
    }

    /// Returns why the content cannot be compared, if it cannot.
    fn unchecked_because(&self) -> Option<&'static str> {
        let is_unchecked = matches!(self.whole, Some(None));
        is_unchecked.then_some("without its LIMIT, the query takes too long")
    }

    /// Returns how another system's answers differ where they must not.
    fn difference(&self, other: &Self, by_content: bool) -> Option<String> {
        let (rows, right) = (other.limited.rows(), self.limited.rows());
        if !by_content {
            return (self.limited.is_empty() != other.limited.is_empty())
                .then(|| format!("{rows} rows, not {right}"));
        }
        match (&self.whole, &other.whole) {
            (Some(Some(one)), Some(Some(two))) => {
                let cut = || format!("{rows} rows after LIMIT, not {right}");
                two.difference(one).or_else(|| (rows != right).then(cut))
            }
            _ => other.limited.difference(&self.limited),
        }
    }
}

/// Returns why two right answers to a query may differ, if they may.
fn differs_because(query: &str) -> Option<&'static str> {
    let upper = query.to_ascii_uppercase();
    let mut words = upper.split_whitespace();
    if words.any(|word| word == "DESCRIBE") {
        return Some("each database describes in its own way");
    }
    let body = &upper[..upper.rfind('}').unwrap_or(0)];
    let has_limit = body.split_whitespace().any(|word| word == "LIMIT");
    has_limit.then_some("an inner LIMIT may cut rows with equal sort keys at will")
}

/// Returns a query's text up to its LIMIT and OFFSET; `None` if it has neither at its end.
fn without_limit(query: &str) -> Option<&str> {
    let tail = query.rfind('}')? + 1;
    let upper = query[tail..].to_ascii_uppercase();
    let cuts = ["LIMIT", "OFFSET"].into_iter();
    let cut = cuts.filter_map(|word| upper.find(word)).min()?;
    Some(&query[..tail + cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_cut_at_the_end_of_a_query_alone() {
        let inner = "SELECT * { { SELECT * { ?s ?p ?o } LIMIT 5 } } ORDER BY ?s\nOFFSET 3 limit 2";
        assert_eq!(
            without_limit(inner),
            Some("SELECT * { { SELECT * { ?s ?p ?o } LIMIT 5 } } ORDER BY ?s\n")
        );
        assert_eq!(without_limit("SELECT * { ?s ?p ?o }"), None);
        assert_eq!(without_limit("DESCRIBE <http://e/limit>"), None);
        assert!(differs_because(inner).is_some());
        assert!(differs_because("describe ?x { ?x a ?y }").is_some());
        assert_eq!(differs_because("SELECT * { ?s ?p ?o } LIMIT 3"), None);
    }
}
