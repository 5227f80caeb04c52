//! Search of the condensed graph for targets that the labels of one component leave unsure.

use rustc_hash::FxHashSet;

use super::format::{LINKS_PER_PAGE, Label, PageKind, PageView};
use super::{Reachability, Verdict};
use crate::StoreError;

/// A component that is searched for.
#[derive(Clone, Copy)]
struct Target {
    component: u32,
    level: u32,
}

/// Returns the targets (sorted, distinct) that the component `from` reaches.
///
/// Goes level by level, each with one batch for its links and one for their labels; enters only components whose
/// intervals leave a target unsure and that are on a higher level than it.
pub(super) fn search<E: From<StoreError>>(
    labels: &Reachability,
    from: u32,
    targets: Vec<u32>,
    watch: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<FxHashSet<u32>, E> {
    let mut reached = FxHashSet::default();
    let mut open: Vec<Target> = Vec::with_capacity(targets.len());
    labels.labels(&targets, |component, label| {
        let level = label.level;
        open.push(Target { component, level });
    })?;
    let mut frontier = Vec::new();
    labels.labels(&[from], |_, label| frontier.push(label.links.clone()))?;
    let mut seen: FxHashSet<u32> = FxHashSet::default();
    while !frontier.is_empty() && !open.is_empty() {
        let mut next = links(labels, &frontier)?;
        next.retain(|component| seen.insert(*component));
        watch((seen.capacity() + next.capacity()) * 5 + frontier.capacity() * 16)?;
        frontier.clear();
        labels.labels(&next, |component, label| {
            let mut leads_on = false;
            for target in open_in(&open, label) {
                match label.verdict(component, target.component) {
                    Verdict::Reached => drop(reached.insert(target.component)),
                    Verdict::Unsure => leads_on |= label.level > target.level,
                    Verdict::Unreached => {}
                }
            }
            if leads_on {
                frontier.push(label.links.clone());
            }
        })?;
        open.retain(|target| !reached.contains(&target.component));
    }
    Ok(reached)
}

/// Returns the open targets between the lowest and the highest number of the label's intervals.
fn open_in<'t>(open: &'t [Target], label: &Label) -> &'t [Target] {
    let (Some(lowest), Some(highest)) = (label.intervals.first(), label.intervals.last()) else {
        return &[];
    };
    let from = open.partition_point(|target| target.component < lowest.low);
    let to = open.partition_point(|target| target.component <= highest.high());
    &open[from..to]
}

/// Returns the components that these ranges of links lead to, sorted and distinct.
fn links(labels: &Reachability, ranges: &[std::ops::Range<u64>]) -> Result<Vec<u32>, StoreError> {
    let per_page = LINKS_PER_PAGE as u64;
    let first_page = labels.directory.link_pages().start;
    let mut parts: Vec<(u64, std::ops::Range<usize>)> = Vec::new();
    for range in ranges {
        if range.end > labels.directory.links {
            return Err(labels.corrupt(None, "a label has links beyond the last one"));
        }
        let mut start = range.start;
        while start < range.end {
            let page = start / per_page;
            let end = range.end.min((page + 1) * per_page);
            let within = |link: u64| (link - page * per_page) as usize;
            parts.push((first_page + page, within(start)..within(end)));
            start = end;
        }
    }
    // Frontiers are sorted by component, and links are stored in that order.
    let mut pages: Vec<u64> = parts.iter().map(|part| part.0).collect();
    pages.dedup();
    let mut found = Vec::new();
    let mut next = 0;
    labels.file.pages(&pages, |index, page| {
        let view = PageView::new(page, PageKind::Links)
            .map_err(|message| labels.corrupt(pages[index], message))?;
        let here: Vec<u32> = view.links().collect();
        while let Some((_, part)) = parts.get(next).filter(|part| part.0 == pages[index]) {
            let links = here.get(part.clone());
            let links = links.ok_or_else(|| labels.corrupt(pages[index], "it has too few links"));
            found.extend_from_slice(links?);
            next += 1;
        }
        Ok::<(), StoreError>(())
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
