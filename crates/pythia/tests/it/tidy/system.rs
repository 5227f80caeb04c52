//! Below the façade, the operating system's files, wall clock and randomness are used only by pythia-io and by the
//! files listed here.

use super::imports::Used;
use super::sources::Sources;

/// The crates that the rule is for.
const CRATES: [&str; 6] = [
    "pythia-rdf",
    "pythia-log",
    "pythia-sparql",
    "pythia-store",
    "pythia-exec",
    "pythia-query",
];

/// A use of the operating system: the beginnings of the paths that name it, and the files that may have them.
struct Use {
    name: &'static str,
    paths: &'static [&'static [&'static str]],
    files: &'static [&'static str],
}

const USES: [Use; 5] = [
    Use {
        name: "memory maps",
        paths: &[&["memmap2"], &["rustix", "mm"], &["libc", "mmap"]],
        files: &[],
    },
    Use {
        name: "files",
        paths: &[
            &["std", "fs"],
            &["std", "os", "unix", "fs"],
            &["File"],
            &["OpenOptions"],
        ],
        files: &[
            // Files that users load.
            "pythia-rdf/src/source.rs",
        ],
    },
    Use {
        name: "temporary files",
        paths: &[&["tempfile"]],
        files: &[],
    },
    Use {
        name: "the wall clock",
        paths: &[&["std", "time", "SystemTime"], &["SystemTime"]],
        files: &[],
    },
    Use {
        name: "randomness",
        paths: &[
            &["rand", "random"],
            &["rand", "rng"],
            &["std", "hash", "RandomState"],
            &["getrandom"],
        ],
        files: &[
            // Blank nodes of different files, queries and updates differ.
            "pythia-exec/src/result/triples.rs",
            "pythia-query/src/update/load.rs",
            "pythia-query/src/update/mod.rs",
            "pythia-query/src/update/modify.rs",
            // RAND, UUID and STRUUID.
            "pythia-exec/src/expression/context.rs",
        ],
    },
];

#[test]
fn the_operating_system_is_used_where_it_is_allowed() {
    let mut wrong = Vec::new();
    let mut found: Vec<(&str, String)> = Vec::new();
    for name in CRATES {
        for (module, source) in &Sources::of(name).modules {
            let used = Used::by(module, source);
            for kind in &USES {
                let is_use = |path: &Vec<String>| {
                    let begins = |start: &&[&str]| {
                        path.iter().zip(*start).all(|(a, b)| a == b) && path.len() >= start.len()
                    };
                    kind.paths.iter().any(begins)
                };
                if used.paths.iter().any(is_use) {
                    let file = source.path.strip_prefix("crates").expect("a crate's file");
                    let file = file.display().to_string();
                    if !kind.files.contains(&file.as_str()) {
                        wrong.push(format!("{file} uses {}", kind.name));
                    }
                    found.push((kind.name, file));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for kind in &USES {
        for file in kind.files {
            let is_found = found
                .iter()
                .any(|(name, path)| *name == kind.name && path == file);
            assert!(
                is_found,
                "{file} is listed for {}, and does not use it",
                kind.name
            );
        }
    }
}
