//! The benchmark's mixes of queries, with product types that drill down.

use anyhow::{Context, Result};
use pythia::Database;
use rand::seq::IndexedRandom;
use rustc_hash::FxHashMap;

use super::changes::Changes;
use super::{QuerySource, Template, UseCase};
use crate::contest::Question;

/// Parameters of the draw of mixes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixOptions {
    pub(super) use_case: UseCase,
    pub(super) count: usize,
    /// Each mix begins with updates.
    pub(super) updates: bool,
    /// True: each BI template with levels of product types starts with a type right below the root, and goes on with a
    /// subtype in the next mix, down to a leaf. False: each type is drawn at random.
    pub(super) drill_down: bool,
    pub(super) seed: u64,
    pub(super) redraws: u32,
}

/// Draws mixes: the queries of each, in the order to run them.
pub(super) fn draw(database: &Database, options: &MixOptions) -> Result<Vec<Vec<Question>>> {
    let mut source = QuerySource::new(database, options.seed)?;
    let mut types: FxHashMap<&'static str, String> = FxHashMap::default();
    let mut changes = options.updates.then(Changes::default);
    let mut mixes = Vec::new();
    for _ in 0..options.count {
        let mut mix = match &mut changes {
            Some(changes) => changes.of_mix(&mut source)?,
            None => Vec::new(),
        };
        for name in options.use_case.mix() {
            let template = options.use_case.template(name);
            let drills = options.drill_down && template.drills_down();
            let product_type = drills.then(|| {
                let next = source.type_below(types.get(name));
                types.insert(template.name, next.clone());
                next
            });
            mix.push(source.question(template, product_type, options.redraws)?);
        }
        mixes.push(mix);
    }
    Ok(mixes)
}

impl QuerySource<'_> {
    fn question(
        &mut self,
        template: &'static Template,
        product_type: Option<String>,
        redraws: u32,
    ) -> Result<Question> {
        let (text, _, _) = self
            .answered_of(template, product_type.as_deref(), redraws)
            .with_context(|| format!("draw parameters for {}", template.name))?;
        let level = product_type.and_then(|one| self.data.level_of(&one));
        Question::new(template.name, level, text)
    }

    /// Draws a subtype of a type; after a leaf and at first, a type right below the root.
    fn type_below(&mut self, last: Option<&String>) -> String {
        let below = last.map_or_else(Vec::new, |last| self.data.subtypes(last));
        if let Some(next) = below.choose(&mut self.rng) {
            return (*next).to_owned();
        }
        let levels = self.data.levels();
        let first = &levels[1.min(levels.len() - 1)];
        let next = first.choose(&mut self.rng);
        next.expect("levels have types").clone()
    }
}
