//! Samples of a predicate's rows in one segment.

use std::ops::Range;

use pythia_rdf::TermId;

use crate::StoreError;
use crate::directory_pages::Held;
use crate::pattern::End;
use crate::segment::Segment;
use crate::segment::column::Column;

/// As [`Estimates::sample`](crate::Estimates::sample).
pub(crate) fn sample(
    base: &Segment,
    predicate: TermId,
    end: End,
    count: usize,
) -> Result<Vec<TermId>, StoreError> {
    if base.statistics().quads == 0 {
        return Ok(Vec::new());
    }
    let file = base.columns(end);
    let mut held = Held::default();
    let mut places: Vec<(u64, Range<u64>, u64)> = Vec::with_capacity(count);
    for row in spread(file.find(&[predicate.0])?, count) {
        let known = places.last().filter(|(_, rows, _)| rows.contains(&row));
        let (page, rows) = match known {
            Some((page, rows, _)) => (*page, rows.clone()),
            None => {
                let page = file.page_of_row(&mut held, row)?;
                (page as u64, file.entry(&mut held, page)?.rows)
            }
        };
        places.push((page, rows, row));
    }
    let mut numbers: Vec<u64> = places.iter().map(|(page, ..)| *page).collect();
    numbers.dedup();
    let mut ids = Vec::with_capacity(places.len());
    file.read(&numbers, |number, page| {
        for (_, rows, row) in places.iter().filter(|(page, ..)| *page == number) {
            page.check_rows(rows)?;
            let local = (row - rows.start) as usize;
            page.values(Column::A, local..local + 1, &mut ids)?;
        }
        Ok(())
    })?;
    Ok(ids.into_iter().map(TermId).collect())
}

/// As [`Estimates::sample_links`](crate::Estimates::sample_links).
pub(crate) fn sample_links(
    base: &Segment,
    predicate: TermId,
    end: End,
    nodes: &[TermId],
) -> Result<Vec<TermId>, StoreError> {
    if base.statistics().quads == 0 {
        return Ok(Vec::new());
    }
    let file = base.columns(end);
    let mut held = Held::default();
    let mut places: Vec<(u64, [u64; 2])> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let key = [predicate.0, node.0];
        let pages = file.pages_of(&mut held, &key)?;
        // Of a long list, one page is enough.
        let middle = pages.start + pages.len() / 2;
        places.extend((!pages.is_empty()).then_some((middle as u64, key)));
    }
    let mut numbers: Vec<u64> = places.iter().map(|(page, _)| *page).collect();
    numbers.dedup();
    let mut ids = Vec::with_capacity(places.len());
    let mut places = places.iter().enumerate().peekable();
    file.read(&numbers, |number, page| {
        while let Some((index, (_, key))) = places.next_if(|(_, (page, _))| *page == number) {
            let rows = page.find(key)?;
            if !rows.is_empty() {
                let row = rows.start + scattered(index) % rows.len();
                page.values(Column::B, row..row + 1, &mut ids)?;
            }
        }
        Ok(())
    })?;
    Ok(ids.into_iter().map(TermId).collect())
}

/// Returns numbers that look random for consecutive ones.
fn scattered(index: usize) -> usize {
    (index as u32).wrapping_mul(0x9E37_79B9).rotate_left(16) as usize
}

/// Returns the middle rows of `count` slices of equal length, or all rows if these are fewer.
fn spread(rows: Range<u64>, count: usize) -> impl Iterator<Item = u64> {
    let length = rows.end.saturating_sub(rows.start);
    let count = length.min(count as u64);
    let middle = move |slice: u64| {
        let twice = u128::from(2 * slice + 1) * u128::from(length);
        (twice / u128::from(2 * count)) as u64
    };
    (0..count).map(move |slice| rows.start + middle(slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_sample_are_spread_over_all() {
        let rows = |rows, count| spread(rows, count).collect::<Vec<u64>>();
        assert_eq!(rows(10..110, 4), [22, 47, 72, 97]);
        assert_eq!(rows(5..8, 64), [5, 6, 7]);
        assert!(rows(5..5, 64).is_empty());
        let all = rows(0..u64::MAX, 2);
        assert_eq!(all, [u64::MAX / 4, (u128::from(u64::MAX) * 3 / 4) as u64]);
    }
}
