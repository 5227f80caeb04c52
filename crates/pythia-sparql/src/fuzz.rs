//! Queries and updates with random errors: deleting, doubling or swapping characters or tokens never causes a
//! panic, and every error has a position inside the text.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::error::SparqlError;
use crate::grammar::{self, Language};
use crate::parser::UNEXPLAINED;
use crate::tests::{GOOD, GOOD_UPDATES};
use crate::token::tokens;
use crate::{Query, Update};

const BASE: Option<&str> = Some("http://e/");
const MUTANTS: usize = 20_000;

impl Language {
    fn parse(self, text: &str) -> Result<(), SparqlError> {
        match self {
            Self::Query => Query::parse(text, BASE).map(drop),
            Self::Update => Update::parse(text, BASE).map(drop),
        }
    }

    fn good(self) -> Vec<String> {
        let texts: Vec<&str> = match self {
            Self::Query => GOOD.to_vec(),
            Self::Update => GOOD_UPDATES.iter().map(|(text, _)| *text).collect(),
        };
        texts.into_iter().map(str::to_owned).collect()
    }
}

/// Returns the W3C's queries or updates if this machine has them; prints a notice otherwise.
pub(crate) fn corpus(language: Language) -> Vec<String> {
    let extension = match language {
        Language::Query => "rq",
        Language::Update => "ru",
    };
    let folder = std::env::var_os("PYTHIA_SHARED_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let mut texts = Vec::new();
    collect(&folder.join("rdf-tests/sparql"), extension, &mut texts);
    if texts.is_empty() {
        eprintln!(
            "SKIPPED: no texts below {}; set PYTHIA_SHARED_DATA",
            folder.display()
        );
    }
    texts
}

fn collect(folder: &Path, wanted: &str, texts: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, wanted, texts);
        } else if path
            .extension()
            .is_some_and(|extension| extension == wanted)
        {
            texts.extend(std::fs::read_to_string(&path));
        }
    }
}

#[test]
fn the_grammar_takes_what_the_parser_takes() {
    let mut refused = Vec::new();
    for language in [Language::Query, Language::Update] {
        for text in corpus(language) {
            if language.parse(&text).is_ok()
                && let (_, Some(fault)) =
                    grammar::read(&text, Some("http://example.org/"), language)
            {
                refused.push(format!("{fault:?} in\n{text}"));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn slips_are_errors_with_a_place_inside_the_text() {
    slips(Language::Query);
}

#[test]
fn slips_in_updates_are_errors_with_a_place_inside_the_text() {
    slips(Language::Update);
}

fn slips(language: Language) {
    let mut seeds = corpus(language);
    seeds.retain(|text| language.parse(text).is_ok() && text.len() < 4000);
    seeds.extend(language.good());
    let mut random = StdRng::seed_from_u64(7);
    let (mut errors, mut unexplained) = (0, Vec::new());
    for _ in 0..MUTANTS {
        let seed = &seeds[random.random_range(0..seeds.len())];
        let text =
            (0..random.random_range(1..4)).fold(seed.clone(), |text, _| mutant(&text, &mut random));
        let parsed = catch_unwind(|| language.parse(&text));
        let parsed = parsed.unwrap_or_else(|_| panic!("panic in\n{text}"));
        let Err(error) = parsed else { continue };
        errors += 1;
        let SparqlError::Syntax {
            line,
            column,
            message,
        } = &error
        else {
            panic!("{error} in\n{text}");
        };
        let source = text
            .split('\n')
            .nth(line - 1)
            .unwrap_or_else(|| panic!("{error} in\n{text}"));
        assert!(
            (1..=source.chars().count() + 1).contains(column),
            "{error} in\n{text}"
        );
        assert!(
            !message.is_empty() && error.snippet(&text).is_some(),
            "{error} in\n{text}"
        );
        if message.starts_with(UNEXPLAINED) {
            unexplained.push(format!("{error} in\n{text}\n"));
        }
    }
    assert!(errors > MUTANTS as i32 / 4, "{errors} errors");
    assert!(
        unexplained.is_empty(),
        "{} of {errors} not explained: {}",
        unexplained.len(),
        unexplained.join("---\n")
    );
}

/// Returns the text with one random change.
fn mutant(text: &str, random: &mut StdRng) -> String {
    match random.random_range(0..8) {
        0..4 => mutate_characters(text, random),
        _ => mutate_tokens(text, random),
    }
}

fn mutate_characters(text: &str, random: &mut StdRng) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if chars.is_empty() {
        return "?".to_owned();
    }
    let (at, other) = (
        random.random_range(0..chars.len()),
        random.random_range(0..chars.len()),
    );
    match random.random_range(0..4) {
        0 => drop(chars.remove(at)),
        1 => chars.insert(at, chars[at]),
        2 => chars.swap(at, other),
        _ => {
            const SIGNS: &str = "(){}[]<>\"'\\?$:.,;|&^!*+-=#@_aé\u{0}\n";
            let sign = random.random_range(0..SIGNS.chars().count());
            chars[at] = SIGNS.chars().nth(sign).unwrap_or('?');
        }
    }
    chars.into_iter().collect()
}

fn mutate_tokens(text: &str, random: &mut StdRng) -> String {
    let tokens: Vec<(usize, usize)> = tokens(text).map(|token| (token.start, token.end)).collect();
    if tokens.is_empty() {
        return text.to_owned();
    }
    let mut pick = || tokens[random.random_range(0..tokens.len())];
    let ((from, to), (other_from, other_to)) = (pick(), pick());
    let replaced = |with: &str| format!("{}{with}{}", &text[..from], &text[to..]);
    match random.random_range(0..3) {
        0 => replaced(""),
        1 => replaced(&format!("{0} {0}", &text[from..to])),
        _ => replaced(&text[other_from..other_to]),
    }
}
