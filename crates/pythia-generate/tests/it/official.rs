//! The generator against the official one: its file of one million triples.

use crate::profile::{Profile, Property, Values};
use pythia_generate::{Part, bsbm};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

/// What the official file was generated for.
const PRODUCTS: u64 = 2848;

fn official() -> Option<Profile> {
    let folder = std::env::var_os("PYTHIA_SHARED_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = folder.join("bsbm-1m.nt.zst");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => {
            // Not by `eprintln`, which is only shown of tests that fail.
            let message = format!(
                "\nSKIPPED: not compared with the official generator: {}: {error}; \
                 set PYTHIA_SHARED_DATA\n\n",
                path.display()
            );
            std::io::stderr()
                .write_all(message.as_bytes())
                .expect("standard error");
            return None;
        }
    };
    let decoder = zstd::Decoder::new(file).expect("a decoder");
    Some(Profile::read(BufReader::with_capacity(1 << 20, decoder)))
}

fn ours() -> Profile {
    let config = bsbm::Config::new(PRODUCTS).expect("valid");
    Profile::read(bsbm::reader(&config, Part::WHOLE))
}

/// All differences, to be shown together.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn within(&mut self, what: &str, official: f64, ours: f64, percent: f64) {
        let difference = (ours / official - 1.0) * 100.0;
        if difference.is_nan() || difference.abs() > percent {
            let line = format!("{what}: {official} officially, ours {ours}: {difference:+.2} %");
            self.0.push(line);
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, official: T, ours: T) {
        if official != ours {
            self.0
                .push(format!("{what}: {official:?} officially, ours {ours:?}"));
        }
    }
}

#[test]
fn data_are_those_of_the_official_generator() {
    let Some(official) = official() else {
        return;
    };
    let ours = ours();
    let mut differences = Differences::default();
    let found = &mut differences;
    found.within("triples", official.triples as f64, ours.triples as f64, 0.5);
    found.within("bytes", official.bytes as f64, ours.bytes as f64, 0.5);
    found.same(
        "classes",
        official.classes.keys().collect::<Vec<_>>(),
        ours.classes.keys().collect(),
    );
    found.same(
        "properties",
        official.properties.keys().collect::<Vec<_>>(),
        ours.properties.keys().collect(),
    );
    for (class, (subjects, triples)) in &official.classes {
        let (our_subjects, our_triples) = ours.classes.get(class).copied().unwrap_or_default();
        let of = |what: &str| format!("{what} of {class}");
        found.within(&of("instances"), *subjects as f64, our_subjects as f64, 1.0);
        found.within(&of("triples"), *triples as f64, our_triples as f64, 1.0);
    }
    let predicates = ours.predicates();
    for (predicate, triples) in official.predicates() {
        let our_triples = predicates.get(&predicate).copied().unwrap_or_default();
        let what = format!("triples with {predicate}");
        found.within(&what, triples as f64, our_triples as f64, 1.0);
    }
    for (property, values) in &official.properties {
        if let Some(our_values) = ours.properties.get(property) {
            compare_values(property, values, our_values, found);
        }
    }
    let differences = differences.0;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn compare_values(property: &Property, official: &Values, ours: &Values, found: &mut Differences) {
    let of = |what: &str| format!("{what} of {property}");
    found.within(
        &of("triples"),
        official.triples as f64,
        ours.triples as f64,
        1.0,
    );
    let kinds = |values: &Values| {
        let languages: Vec<String> = values.languages.keys().cloned().collect();
        let shapes: Vec<String> = values.shapes.keys().cloned().collect();
        (languages, shapes)
    };
    let count = official.triples as f64;
    // A rare country may be missing among a few tens of companies.
    if property.predicate != "country" || count > 1000.0 {
        found.same(&of("kinds"), kinds(official), kinds(ours));
    }
    for (language, texts) in &official.languages {
        let share = *texts as f64 / count;
        let our_texts = ours.languages.get(language).copied().unwrap_or_default();
        let our_share = our_texts as f64 / ours.triples as f64;
        // Each reviewer writes twenty: the share varies as that of 1,450 reviewers.
        let what = of(&format!("share (1 added) of {language}"));
        found.within(&what, 1.0 + share, 1.0 + our_share, 3.0);
    }
    if let (Some(official_range), Some(our_range)) = (official.range, ours.range) {
        // The extremes of few values vary more.
        let span = (official_range.1 - official_range.0).max(1.0);
        let tolerance = span * (0.005 + 10.0 / count);
        let near = |left: f64, right: f64| (left - right).abs() <= tolerance;
        if !near(official_range.0, our_range.0) || !near(official_range.1, our_range.1) {
            found.same(&of("range"), official_range, our_range);
        }
    } else {
        found.same(&of("range"), official.range, ours.range);
    }
    if official.words > 2 * official.triples {
        let mean = |sum: u64, values: &Values| sum as f64 / values.triples as f64;
        // Four times the standard error of the mean of evenly distributed numbers of words, for
        // the difference of two.
        let spread = (official.words_max - official.words_min) as f64 / 12_f64.sqrt();
        let error = spread / mean(official.words, official) / count.sqrt() * 2_f64.sqrt();
        let percent = (400.0 * error).max(1.0);
        let words = (mean(official.words, official), mean(ours.words, ours));
        let chars = (mean(official.chars, official), mean(ours.chars, ours));
        found.within(&of("words"), words.0, words.1, percent);
        found.within(&of("characters"), chars.0, chars.1, percent);
        if count > 1000.0 {
            found.same(&of("fewest words"), official.words_min, ours.words_min);
            found.same(&of("most words"), official.words_max, ours.words_max);
        }
    }
}
