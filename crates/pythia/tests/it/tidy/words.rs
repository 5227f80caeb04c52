//! Plain English (docs/glossary.md): phrases and beginnings that the style forbids, and the length of the README.

use std::fs;

use regex::Regex;

use super::{each_text, root};

/// Phrases that the style forbids. Each is written in two parts here, so that this file does not have them.
const PHRASES: [(&str, &str); 8] = [
    ("so ", "many"),
    ("ane", "w"),
    ("path ", "paper"),
    ("is told ", "of"),
    ("are told ", "of"),
    ("what there ", "is"),
    ("none of those ", "that"),
    ("Whose turn ", "it is when"),
];
/// Doc comments that may begin with a word that asks instead of a verb or a noun.
const ASKING_MAX: usize = 60;
const README_WORDS_MAX: usize = 600;

#[test]
fn texts_avoid_the_phrases_that_the_style_forbids() {
    let phrases: Vec<Regex> = PHRASES
        .iter()
        .map(|(start, end)| Regex::new(&format!(r"(?i)\b{start}{end}\b")).expect("a pattern"))
        .collect();
    let mut wrong = Vec::new();
    each_text(&mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            if phrases.iter().any(|phrase| phrase.is_match(line)) {
                wrong.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let asking = Regex::new(r"^\s*//[/!] (What|Who|Whose)\b").expect("a pattern");
    let mut found = Vec::new();
    each_text(&mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            if asking.is_match(line) {
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    });
    let count = found.len();
    assert!(
        count <= ASKING_MAX,
        "{count} of at most {ASKING_MAX}:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_readme_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).expect("there");
    let words = readme.split_whitespace().count();
    assert!(
        words <= README_WORDS_MAX,
        "{words} words, of at most {README_WORDS_MAX}"
    );
}
