//! The seal of a page: the checksum that ties its bytes to its place in the file.
//!
//! Bytes 0..4 of a page are the CRC-32C (little endian) of bytes 4.. followed by the page's number as eight
//! little-endian bytes. So a whole page in the wrong place fails like a damaged one.

/// Length of the seal at the start of each page, in bytes.
pub const SEAL_BYTES: usize = 4;

/// The mismatch of a page whose checksum is not that of its bytes at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMismatch {
    /// The checksum computed from the bytes and the place.
    pub expected: u32,
    /// The checksum stored in the page.
    pub found: u32,
}

/// Computes and writes the checksum of page `number`.
///
/// # Panics
/// If the page is shorter than its seal.
pub fn seal_page(page: &mut [u8], number: u64) {
    let checksum = checksum(page, number);
    page[..SEAL_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Checks that `page` was sealed as page `number` and has not changed since.
///
/// # Panics
/// If the page is shorter than its seal.
pub fn verify_page(page: &[u8], number: u64) -> Result<(), PageMismatch> {
    let expected = checksum(page, number);
    let found = u32::from_le_bytes([page[0], page[1], page[2], page[3]]);
    if expected == found {
        Ok(())
    } else {
        Err(PageMismatch { expected, found })
    }
}

fn checksum(page: &[u8], number: u64) -> u32 {
    let body = crc32c::crc32c(&page[SEAL_BYTES..]);
    crc32c::crc32c_append(body, &number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sealed_pages_verify_and_any_flip_or_move_fails(
            body in proptest::collection::vec(any::<u8>(), 4096),
            number in any::<u64>(),
            bit in 0usize..4096 * 8,
            elsewhere in any::<u64>(),
        ) {
            let mut page = body;
            seal_page(&mut page, number);
            prop_assert_eq!(verify_page(&page, number), Ok(()));
            if elsewhere != number {
                prop_assert!(verify_page(&page, elsewhere).is_err());
            }
            page[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(verify_page(&page, number).is_err());
        }
    }

    #[test]
    fn a_page_of_zeros_is_not_a_page() {
        assert!(verify_page(&[0; 4096], 0).is_err());
    }
}
