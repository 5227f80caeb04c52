//! The rules of the repository that no compiler checks: imports, lengths of functions, the use of the operating system,
//! the words of documents, and that documents name what exists.

mod dependencies;
mod documents;
mod functions;
mod imports;
mod sources;
mod system;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// Folders with text that people read.
const PLACES: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "bench/README.md",
    "crates",
    "docs",
    "packaging",
];
/// Folders whose files are not ours, or are made by programs.
const SKIPPED: [&str; 4] = ["node_modules", "target", "dist", "w3c"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Calls `f` with the path below the root and the text of each file that people read.
fn each_text(f: &mut impl FnMut(&Path, &str)) {
    let root = root();
    for place in PLACES {
        visit(&root, &root.join(place), f);
    }
}

fn visit(root: &Path, path: &Path, f: &mut impl FnMut(&Path, &str)) {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    if SKIPPED.contains(&name) {
        return;
    }
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder of the repository");
        let mut paths: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths.iter().for_each(|path| visit(root, path, f));
        return;
    }
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or("");
    if ["rs", "md", "ts", "tsx", "toml"].contains(&end)
        && let Ok(text) = fs::read_to_string(path)
    {
        f(path.strip_prefix(root).expect("below the root"), &text);
    }
}
