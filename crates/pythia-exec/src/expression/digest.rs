//! `MD5` and the `SHA` functions.

use std::fmt::Write;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use spargebra::algebra::Function;

/// Returns the digest of a text's UTF-8 bytes in lower-case hexadecimal; `None` for another function.
pub(crate) fn hex_digest(function: &Function, text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    Some(match function {
        Function::Md5 => hex(&Md5::digest(bytes)),
        Function::Sha1 => hex(&Sha1::digest(bytes)),
        Function::Sha256 => hex(&Sha256::digest(bytes)),
        Function::Sha384 => hex(&Sha384::digest(bytes)),
        Function::Sha512 => hex(&Sha512::digest(bytes)),
        _ => return None,
    })
}

/// Returns the SHA-256 of the concatenated parts.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("strings take all text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        let digest = |function| hex_digest(&function, "abc").expect("a digest function");
        assert_eq!(digest(Function::Md5), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            digest(Function::Sha1),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(
            digest(Function::Sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
