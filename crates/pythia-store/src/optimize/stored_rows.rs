//! Comparison of a column file with its expected rows: for `pythia verify`.

use crate::StoreError;
use crate::segment::column::{Column, ColumnFile};

/// The rows of a column file, one after the other.
pub(super) struct StoredRows<'f> {
    file: &'f ColumnFile,
    page: u64,
    columns: [Vec<u64>; 4],
    row: usize,
}

impl<'f> StoredRows<'f> {
    pub(super) fn new(file: &'f ColumnFile) -> Self {
        Self {
            file,
            page: 0,
            columns: Default::default(),
            row: 0,
        }
    }

    fn next(&mut self) -> Result<Option<[u64; 4]>, StoreError> {
        if self.row == self.columns[0].len() {
            if self.page == self.file.directory().pages() as u64 {
                return Ok(None);
            }
            let columns = &mut self.columns;
            self.file.read(&[self.page], |_, page| {
                columns.iter_mut().for_each(Vec::clear);
                let ([p, a, b, g], all) = (&mut *columns, 0..page.rows());
                page.predicates(all.clone(), p);
                page.values(Column::A, all.clone(), a)?;
                page.values(Column::B, all.clone(), b)?;
                page.values(Column::G, all, g)
            })?;
            self.page += 1;
            self.row = 0;
        }
        let row = self.row;
        self.row += 1;
        Ok(Some([0, 1, 2, 3].map(|column| self.columns[column][row])))
    }

    /// Fails unless this is the next row (`None`: the end).
    pub(super) fn expect(&mut self, row: Option<[u64; 4]>) -> Result<(), StoreError> {
        match self.next()? == row {
            true => Ok(()),
            false => Err(self.differs()),
        }
    }

    fn differs(&self) -> StoreError {
        let message = "its rows are not what the store's quads give";
        StoreError::corrupt(self.file.file().name(), self.page.checked_sub(1), message)
    }
}
