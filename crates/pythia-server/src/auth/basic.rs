//! Basic credentials (RFC 7617): `user:password` in base64.

/// Reads user and password from the credentials of an `Authorization: Basic` header.
pub(super) fn parse(value: &str) -> Option<(String, String)> {
    let text = String::from_utf8(decode(value.trim())?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// Decodes base64; the padding may be missing.
fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if digits.len() % 4 == 1 || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
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
