//! A temporary file for bytes that a slow client has not taken yet.

use std::sync::Arc;

use super::SpillSpace;
use super::file::{Block, SpillFile};
use crate::error::QueryError;

/// Pieces of bytes in an unnamed temporary file, within the space limit of temporary files. The file grows
/// until it is dropped.
#[derive(Debug)]
pub struct SpilledBytes {
    file: Arc<SpillFile>,
}

/// The position of a piece.
#[derive(Clone, Copy, Debug)]
pub struct SpilledPiece(Block);

impl SpilledBytes {
    /// Creates an empty file.
    pub fn create(space: &Arc<SpillSpace>) -> Result<Self, QueryError> {
        let file = SpillFile::create(space)?;
        Ok(Self { file })
    }

    /// Writes a piece of less than 4 GiB.
    pub fn append(&self, bytes: &[u8]) -> Result<SpilledPiece, QueryError> {
        self.file.append(bytes).map(SpilledPiece)
    }

    /// Reads a piece.
    pub fn read(&self, piece: SpilledPiece) -> Result<Vec<u8>, QueryError> {
        let mut bytes = Vec::new();
        self.file.read(piece.0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_and_their_space_with_the_file() {
        let space = Arc::new(SpillSpace::new(std::env::temp_dir(), 300));
        let bytes = SpilledBytes::create(&space).unwrap();
        let (one, two) = (
            bytes.append(&[1; 100]).unwrap(),
            bytes.append(&[2; 150]).unwrap(),
        );
        assert_eq!((bytes.len(), space.used()), (250, 250));
        assert_eq!(bytes.read(two).unwrap(), [2; 150]);
        assert_eq!(bytes.read(one).unwrap(), [1; 100]);
        let error = bytes.append(&[3; 100]).unwrap_err().to_string();
        assert!(error.contains("limit"), "{error}");
        drop(bytes);
        assert_eq!(space.used(), 0);
    }
}
