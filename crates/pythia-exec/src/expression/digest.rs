//! `MD5` and the `SHA` functions.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use spargebra::algebra::Function;

/// Returns the digest of a text's UTF-8 bytes in lower-case hexadecimal; `None` for another function.
pub(crate) fn hex_digest(function: &Function, text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    Some(match function {
        Function::Md5 => hex::encode(Md5::digest(bytes)),
        Function::Sha1 => hex::encode(Sha1::digest(bytes)),
        Function::Sha256 => hex::encode(Sha256::digest(bytes)),
        Function::Sha384 => hex::encode(Sha384::digest(bytes)),
        Function::Sha512 => hex::encode(Sha512::digest(bytes)),
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
