//! Shares of the shapes, and parts.

use super::*;
use std::collections::HashMap;

fn text(config: &Config, part: Part) -> String {
    let mut out = Vec::new();
    write_ntriples(config, part, &mut out).expect("memory");
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn parts_are_the_whole() {
    let config = Config::new(1000).expect("enough");
    let parts: String = Part::all(3).map(|part| text(&config, part)).collect();
    assert_eq!(parts, text(&config, Part::WHOLE));
    assert_ne!(parts, text(&config.with_seed(2), Part::WHOLE));
    assert!(Config::new(127).is_err());
}

#[test]
fn shares_are_as_documented() {
    let config = Config::new(4000).expect("enough");
    let text = text(&config, Part::WHOLE);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        let predicate = line.split(' ').nth(1).expect("three terms");
        *counts.entry(predicate).or_default() += 1;
    }
    let count = |name: &str| counts[format!("<{NAMESPACE}{name}>").as_str()];
    assert_eq!(count("title"), 4000);
    assert_eq!(count("name"), 2000);
    assert_eq!(count("memberOf"), 1000);
    assert_eq!(count("abstract"), 40);
    assert_eq!(count("award"), 4);
    assert_eq!(
        (count("draft1"), count("draft3"), count("final")),
        (200, 200, 200)
    );
    assert_eq!((count("step1"), count("step5")), (400, 25));
    assert_eq!(count("label"), 32);
    let names = text
        .lines()
        .filter(|line| line.contains("/name> \"Name 7\""));
    assert_eq!(names.count(), 4);
    let hub = format!("<{NAMESPACE}tag/0>");
    assert_eq!(
        text.lines().filter(|line| line.contains(&hub)).count(),
        2000
    );
    let triples = text.lines().count();
    assert!((4000 * 18..4000 * 22).contains(&triples), "{triples}");
}
