//! Requests from pages of other origins, which a browser sends in the name of its user.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;

/// Returns whether a page of another origin sent the request, unless that origin is among the named ones. `*`
/// names no origin: it allows every origin to read, but not to write.
pub(super) fn is_foreign(
    headers: &HeaderMap,
    authority: Option<&Authority>,
    named: &[String],
) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        // Browsers send this header even where they leave out the origin.
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        return matches!(site, Some(b"cross-site" | b"same-site"));
    };
    if named
        .iter()
        .any(|named| named != "*" && named.as_bytes() == origin.as_bytes())
    {
        return false;
    }
    let host = match authority {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(HOST).and_then(|host| host.to_str().ok()),
    };
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"));
    match (origin, host) {
        (Some((_, origin)), Some(host)) => !origin.eq_ignore_ascii_case(host),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn pages_of_this_server_and_named_ones_are_not_foreign() {
        let named = ["*".to_owned(), "https://app.example".to_owned()];
        let foreign = |origin: Option<&'static str>, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            is_foreign(&headers, None, &named)
        };
        assert!(!foreign(None, "localhost:7878"));
        assert!(!foreign(Some("http://localhost:7878"), "localhost:7878"));
        assert!(!foreign(Some("https://app.example"), "localhost:7878"));
        for origin in ["null", "https://evil.example", "http://localhost", "*"] {
            assert!(foreign(Some(origin), "localhost:7878"), "{origin}");
        }
    }

    #[test]
    fn requests_without_an_origin_are_foreign_if_the_browser_says_so() {
        let foreign = |site: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            is_foreign(&headers, None, &[])
        };
        assert!(foreign("cross-site") && foreign("same-site"));
        assert!(!foreign("same-origin") && !foreign("none"));
    }
}
