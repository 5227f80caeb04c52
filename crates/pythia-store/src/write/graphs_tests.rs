//! Stores with more named graphs than are counted one by one.

use std::collections::BTreeSet;

use pythia_rdf::TermId;

use super::tests::{Named, change, contents_of, empty, load, open};
use crate::statistics::GRAPHS_MAX;
use crate::verify::{VerifyOptions, verify};
use crate::{Snapshot, StoreError};

fn quad(graph: usize, number: usize) -> Named {
    let name = |what: &str, number: usize| format!("http://example.org/{what}/{number:06}");
    let graph = match graph {
        0 => String::new(),
        graph => name("g", graph),
    };
    // Subjects and objects are in opposite orders, so each order of quads has the graphs in its own.
    let object = name("o", 999_999 - number);
    [name("s", number), name("p", 0), object, graph]
}

/// Returns the numbers of the named graphs.
fn graphs(snapshot: &Snapshot) -> BTreeSet<usize> {
    let mut asked = 0;
    let found = snapshot.named_graphs(|_| {
        asked += 1;
        Ok::<_, StoreError>(())
    });
    let found: Vec<TermId> = found.expect("sound");
    assert!(found.is_sorted());
    assert!(asked > 0, "they are read");
    let names = snapshot.decode(&found).expect("sound").into_iter();
    names
        .map(|name| {
            let name = name.to_string();
            let number = name.trim_end_matches('>').rsplit('/').next();
            number.and_then(|n| n.parse().ok()).expect("a number")
        })
        .collect()
}

#[test]
fn all_graphs_are_listed_whatever_their_number() {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    let most = GRAPHS_MAX + 20;
    // One graph has as many quads as all others, and fills pages.
    let small = (1..=most).map(|graph| quad(graph, graph % 7));
    let large = (0..most).map(|number| quad(50, number + 10));
    let quads: Vec<Named> = small.chain(large).collect();
    load(&store, &quads).expect("memory");
    let mut expected: BTreeSet<usize> = (1..=most).collect();
    assert_eq!(graphs(&store.snapshot()), expected);

    // In runs, on the device and in memory.
    let mut model: BTreeSet<Named> = quads.iter().cloned().collect();
    let mut change = |add: &[Named], remove: &[Named]| {
        change(&store, add, remove).expect("alone");
        for quad in remove {
            model.remove(quad);
        }
        model.extend(add.iter().cloned());
    };
    let name_of_50 = &quad(50, 0)[3];
    let all_of_50 = quads.iter().filter(|quad| quad[3] == *name_of_50);
    let all_of_50: Vec<Named> = all_of_50.cloned().collect();
    change(&[quad(most + 1, 1), quad(0, 1)], &[quad(3, 3)]);
    change(&[quad(4, 1)], &[quad(4, 4)]);
    store.flush().expect("memory");
    change(&[quad(most + 2, 2)], &all_of_50);
    change(&[quad(3, 5)], &[quad(5, 5), quad(most + 1, 1)]);
    expected.extend([most + 2]);
    for gone in [5, 50] {
        expected.remove(&gone);
    }
    assert_eq!(graphs(&store.snapshot()), expected);
    store.compact().expect("memory");
    let snapshot = store.snapshot();
    assert_eq!(graphs(&snapshot), expected);
    assert_eq!(contents_of(&snapshot), model);
    drop((snapshot, store));
    let report = verify(disk, VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}
