//! Functions are short enough to be read at once.

use std::fmt::Write as _;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, ItemMod, Signature};

use super::sources::{Sources, crates, is_test};

const LINES_MAX: usize = 70;

/// Functions that are longer, by file, and the most lines that they may have: matches with a short arm per case, and
/// lists.
const LONGER: &[(&str, &str, usize)] = &[
    ("report.rs", "paper_table", 72),
    ("stats.rs", "print_text", 109),
    ("describe.rs", "describe_steps", 101),
    ("join.rs", "hash_join", 72),
    ("path_search.rs", "read", 72),
    ("path_search.rs", "set", 72),
    ("paths.rs", "search", 74),
    ("render.rs", "requests", 72),
];

#[test]
fn functions_have_at_most_seventy_lines() {
    let mut wrong = String::new();
    let mut used = 0;
    for name in crates() {
        for source in Sources::of(&name).modules.values() {
            let path = source.path.display().to_string();
            let mut lengths = Lengths::default();
            lengths.visit_file(&source.syntax);
            for (function, lines) in lengths.found {
                if lines <= LINES_MAX {
                    continue;
                }
                let listed = LONGER.iter().find(|(file, listed, _)| {
                    path.ends_with(&format!("/{file}")) && function == *listed
                });
                match listed {
                    Some((_, _, most)) if lines <= *most => used += 1,
                    _ => {
                        writeln!(wrong, "(\"{path}\", \"{function}\", {lines}),").expect("a string")
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "functions of more than {LINES_MAX} lines:\n{wrong}"
    );
    assert_eq!(
        used,
        LONGER.len(),
        "functions are listed that are short now, or gone"
    );
}

/// The functions of a file and the lines from their `fn` to their last brace.
#[derive(Default)]
struct Lengths {
    found: Vec<(String, usize)>,
}

impl Lengths {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let first = signature.span().start().line;
        let last = block.span().end().line;
        self.found
            .push((signature.ident.to_string(), last + 1 - first));
    }
}

impl Visit<'_> for Lengths {
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &ItemFn) {
        if !is_test(&function.attrs) {
            self.add(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &ImplItemFn) {
        if !is_test(&function.attrs) {
            self.add(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }
}
