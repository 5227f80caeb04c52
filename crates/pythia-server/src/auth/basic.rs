//! Basic credentials (RFC 7617): `user:password` in base64.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Base64 as in RFC 4648 (§4). The padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads user and password from the credentials of an `Authorization: Basic` header.
pub(super) fn parse(value: &str) -> Option<(String, String)> {
    let text = String::from_utf8(BASE64.decode(value.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_the_standard_writes_them() {
        let parsed = |text| parse(text).map(|(user, password)| format!("{user} {password}"));
        // RFC 7617, §2 and §2.1.
        let first = parsed("QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(first.as_deref(), Some("Aladdin open sesame"));
        assert_eq!(parsed("dGVzdDoxMjPCow==").as_deref(), Some("test 123£"));
        assert_eq!(parsed("YTpiOmM").as_deref(), Some("a b:c"));
        assert_eq!(parsed("Og==").as_deref(), Some(" "));
        for wrong in ["", "a", "YWJj", "YTpi====", "YT*i", "/////w=="] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
