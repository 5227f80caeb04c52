//! The sources of a crate as syntax trees, found as the compiler finds them: along `mod` declarations, without tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, File, Item, Meta};

use super::root;

/// The sources of one crate.
pub(super) struct Sources {
    /// The files by module path; the crate's root is the empty path.
    pub(super) modules: BTreeMap<Vec<String>, Source>,
}

/// One file.
pub(super) struct Source {
    /// The file's path below the repository's root.
    pub(super) path: PathBuf,
    /// Its content.
    pub(super) syntax: File,
}

impl Sources {
    /// Reads a crate of the workspace.
    pub(super) fn of(name: &str) -> Self {
        let folder = root().join("crates").join(name).join("src");
        let mut sources = Self {
            modules: BTreeMap::new(),
        };
        let lib = folder.join("lib.rs");
        let entry = if lib.exists() {
            lib
        } else {
            folder.join("main.rs")
        };
        sources.read(Vec::new(), &entry, &folder);
        sources
    }

    /// Reads a file and those that it declares, which are in `folder`.
    fn read(&mut self, module: Vec<String>, path: &Path, folder: &Path) {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let syntax = syn::parse_file(&text).expect("the compiler has accepted it");
        for item in &syntax.items {
            if let Item::Mod(declared) = item
                && declared.content.is_none()
                && !is_test(&declared.attrs)
            {
                let name = declared.ident.to_string();
                let inner = folder.join(&name);
                let flat = folder.join(format!("{name}.rs"));
                let file = if flat.exists() {
                    flat
                } else {
                    inner.join("mod.rs")
                };
                let mut module = module.clone();
                module.push(name);
                self.read(module, &file, &inner);
            }
        }
        let path = path
            .strip_prefix(root())
            .expect("below the root")
            .to_owned();
        self.modules.insert(module, Source { path, syntax });
    }
}

/// Returns the names of the workspace's crates.
pub(super) fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the folder of the crates");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}

/// Returns whether attributes restrict an item to tests.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test"
                || condition.starts_with("any (test")
                || condition.starts_with("all (test")
        }
        meta => meta.path().is_ident("test"),
    })
}
