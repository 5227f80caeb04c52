//! Imports run one way: between crates, between the modules of a crate, and between files in circles of limited size.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Path, UseTree, Visibility};

use super::sources::{Source, Sources, crates, is_test};

/// Crates that the sources of a crate may never name.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "pythia-rdf",
        &["pythia_io", "pythia_log", "pythia_store", "spargebra"],
    ),
    (
        "pythia-io",
        &[
            "pythia_rdf",
            "pythia_log",
            "pythia_store",
            "oxrdf",
            "spargebra",
        ],
    ),
    (
        "pythia-log",
        &[
            "pythia_store",
            "pythia_exec",
            "pythia_query",
            "spargebra",
            "arrow",
            "datafusion",
        ],
    ),
    (
        "pythia-sparql",
        &[
            "pythia_io",
            "pythia_log",
            "pythia_store",
            "pythia_exec",
            "pythia_query",
            "arrow",
            "datafusion",
        ],
    ),
    (
        "pythia-store",
        &[
            "pythia_sparql",
            "pythia_exec",
            "pythia_query",
            "spargebra",
            "sparesults",
            "arrow",
            "datafusion",
        ],
    ),
    (
        "pythia-exec",
        &["pythia_query", "pythia_server", "axum", "hyper", "tokio"],
    ),
    ("pythia-query", &["pythia_server", "axum", "hyper", "tokio"]),
    ("pythia", &["pythia_server", "pythia_cli", "axum", "hyper"]),
];

/// The modules of a crate in layers, the lowest first: a module uses those of lower layers alone. ARCHITECTURE says what the
/// layers are.
const LAYERS: &[(&str, &[&[&str]])] = &[
    (
        "pythia-store",
        &[
            &["manifest", "dictionary"],
            &["segment"],
            &["scan"],
            &["delta", "auxiliary"],
            &["snapshot"],
            &["load"],
            &["compact"],
            &["optimize"],
            &["verify"],
            &["write"],
            &["store"],
            &["report"],
        ],
    ),
    (
        "pythia-exec",
        &[
            &["limits"],
            &["expression"],
            &["plan"],
            &["exec"],
            &["search", "result"],
        ],
    ),
];

/// The largest number of files in an import circle.
const CIRCLE_MAX: usize = 12;

#[test]
fn imports_run_one_way() {
    let mut wrong = Vec::new();
    for name in crates() {
        let sources = Sources::of(&name);
        for (module, source) in &sources.modules {
            let used = Used::by(module, source);
            for forbidden in forbidden_in(&name, module, &used) {
                wrong.push(format!("{} uses {forbidden}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "forbidden imports:\n{}", wrong.join("\n"));
}

#[test]
fn a_forbidden_import_is_found() {
    let source = |text: &str| Source {
        path: "crates/pythia-rdf/src/term.rs".into(),
        syntax: syn::parse_file(text).expect("Rust"),
    };
    let found = |crate_name: &str, module: &[&str], text: &str| {
        let module: Vec<String> = module.iter().map(|&part| part.to_owned()).collect();
        forbidden_in(crate_name, &module, &Used::by(&module, &source(text)))
    };
    let import = "use pythia_store::Snapshot;";
    assert_eq!(
        found("pythia-rdf", &["term"], import),
        ["pythia_store::Snapshot"]
    );
    let path = "fn f() -> datafusion_common::Result<()> { Ok(()) }";
    assert_eq!(
        found("pythia-store", &["store"], path),
        ["datafusion_common::Result"]
    );
    let upwards = "use crate::snapshot::Snapshot;";
    assert_eq!(
        found("pythia-store", &["delta", "run"], upwards),
        ["crate::snapshot::Snapshot"]
    );
    assert!(found("pythia-store", &["write", "commit"], upwards).is_empty());
    let test = "#[cfg(test)] mod tests { use pythia_store::Snapshot; }";
    assert!(found("pythia-rdf", &["term"], test).is_empty());
}

#[test]
fn import_circles_are_small() {
    let mut wrong = Vec::new();
    for name in crates() {
        let circle = largest_circle(&Sources::of(&name));
        if circle.len() > CIRCLE_MAX {
            wrong.push(format!(
                "{name}: {} files, of at most {CIRCLE_MAX}: {}",
                circle.len(),
                circle.join(" ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the names that a module uses and may not.
fn forbidden_in(crate_name: &str, module: &[String], used: &Used) -> Vec<String> {
    let of_crate = FORBIDDEN.iter().find(|(name, _)| *name == crate_name);
    let crates = of_crate.map_or(&[][..], |(_, crates)| crates);
    let above = layers_above(crate_name, module);
    let is_forbidden = |path: &&Vec<String>| {
        let is_crate = |name: &&str| path[0] == *name || path[0].starts_with(&format!("{name}_"));
        let is_above =
            |name: &&str| path[0] == "crate" && path.get(1).is_some_and(|part| part == name);
        crates.iter().any(is_crate) || above.iter().any(is_above)
    };
    let wrong = used.paths.iter().filter(is_forbidden);
    wrong.map(|path| path.join("::")).collect()
}

/// Returns the other modules of the layer of a module, and those of all higher layers.
fn layers_above(crate_name: &str, module: &[String]) -> Vec<&'static str> {
    let of_crate = LAYERS.iter().find(|(name, _)| *name == crate_name);
    let (Some((_, layers)), Some(own)) = (of_crate, module.first()) else {
        return Vec::new();
    };
    let above = layers
        .iter()
        .skip_while(|layer| !layer.contains(&own.as_str()));
    let names = above.flat_map(|layer| layer.iter().copied());
    names.filter(|name| name != own).collect()
}

/// Returns the files of the largest circle of imports.
fn largest_circle(sources: &Sources) -> Vec<String> {
    let used: BTreeMap<&Vec<String>, Used> = sources
        .modules
        .iter()
        .map(|(module, source)| (module, Used::by(module, source)))
        .collect();
    let names: Vec<&Vec<String>> = used.keys().copied().collect();
    let mut graph = DiGraph::<(), ()>::new();
    for _ in &names {
        graph.add_node(());
    }
    for (from, module) in names.iter().enumerate() {
        for path in &used[*module].paths {
            if let Some(target) = resolve(&used, path, 0)
                && target != **module
            {
                let to = names
                    .binary_search(&&target)
                    .expect("a module of the crate");
                graph.update_edge(NodeIndex::new(from), NodeIndex::new(to), ());
            }
        }
    }
    let circles = tarjan_scc(&graph);
    let largest = circles.into_iter().max_by_key(Vec::len).unwrap_or_default();
    let path = |file: NodeIndex| {
        sources.modules[names[file.index()]]
            .path
            .display()
            .to_string()
    };
    let mut files: Vec<String> = largest.into_iter().map(path).collect();
    files.sort();
    files
}

/// Returns the file that a path within the crate leads to, past re-exports.
fn resolve(
    used: &BTreeMap<&Vec<String>, Used>,
    path: &[String],
    depth: usize,
) -> Option<Vec<String>> {
    let inner = path.strip_prefix(&["crate".to_owned()])?;
    let longest = (0..=inner.len())
        .rev()
        .find(|&end| used.contains_key(&inner[..end].to_vec()))?;
    let module = inner[..longest].to_vec();
    if let Some(name) = inner.get(longest)
        && let Some(target) = used[&module].exported.get(name)
        && depth < 8
    {
        let mut target = target.clone();
        target.extend_from_slice(&inner[longest + 1..]);
        return resolve(used, &target, depth + 1).or(Some(module));
    }
    Some(module)
}

/// The paths that a file uses.
#[derive(Default)]
pub(super) struct Used {
    module: Vec<String>,
    /// The paths as lists of names. Those within the crate begin with `crate`.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// The paths of the names that the file re-exports.
    exported: BTreeMap<String, Vec<String>>,
}

impl Used {
    /// Finds the paths in a module's source, without those of its tests.
    pub(super) fn by(module: &[String], source: &Source) -> Self {
        let mut used = Self {
            module: module.to_owned(),
            ..Self::default()
        };
        used.visit_file(&source.syntax);
        used
    }

    /// Returns the path from the crate's root, or from another crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let at_crate =
            |module: &[String], rest: &[String]| [&["crate".to_owned()], module, rest].concat();
        let supers = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path.to_owned()),
            "self" => Some(at_crate(&self.module, &path[1..])),
            "super" => {
                let above = self.module.len().checked_sub(supers)?;
                Some(at_crate(&self.module[..above], &path[supers..]))
            }
            _ if path.len() > 1 => Some(path.to_owned()),
            _ => None,
        }
    }

    fn add_tree(&mut self, before: &mut Vec<String>, tree: &UseTree, is_exported: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(before, &path.tree, is_exported);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(before, tree, is_exported);
                }
            }
            UseTree::Name(name) => {
                self.add_leaf(before, Some(&name.ident), &name.ident, is_exported)
            }
            UseTree::Rename(name) => {
                self.add_leaf(before, Some(&name.ident), &name.rename, is_exported);
            }
            UseTree::Glob(_) => {
                let path = self.absolute(before);
                self.paths.extend(path);
            }
        }
    }

    fn add_leaf(
        &mut self,
        before: &[String],
        name: Option<&syn::Ident>,
        alias: &syn::Ident,
        is_exported: bool,
    ) {
        let mut path = before.to_owned();
        path.extend(name.map(ToString::to_string).filter(|name| name != "self"));
        let Some(path) = self.absolute(&path) else {
            return;
        };
        if is_exported {
            self.exported.insert(alias.to_string(), path);
        } else {
            self.paths.insert(path);
        }
    }
}

impl Visit<'_> for Used {
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        if !is_test(&item.attrs) {
            let is_exported = !matches!(item.vis, Visibility::Inherited);
            self.add_tree(&mut Vec::new(), &item.tree, is_exported);
        }
    }

    fn visit_visibility(&mut self, _: &Visibility) {
        // `pub(super)` says who may use an item, and uses nothing.
    }

    fn visit_path(&mut self, path: &Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        let absolute = self.absolute(&parts);
        self.paths.extend(absolute);
        visit::visit_path(self, path);
    }
}
