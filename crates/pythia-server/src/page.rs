//! The web page: the files in `page/dist`, built into the program, with headers for caching and security.

use std::hash::{DefaultHasher, Hasher};
use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::context::ServerContext;
use crate::protocol::error::HttpError;

/// A file of the page.
struct Asset {
    /// The path, without the leading slash.
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    /// The bytes, compressed.
    gzip: Bytes,
    hash: u64,
}

impl Asset {
    fn new(path: &'static str, media_type: &'static str, bytes: &'static [u8]) -> Self {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        gzip.write_all(bytes).expect("memory takes all bytes");
        Self {
            path,
            media_type,
            bytes,
            gzip: gzip.finish().expect("memory takes all bytes").into(),
            hash: hasher.finish(),
        }
    }
}

/// The files that `scripts/build-page` built.
static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| include!("../page/dist/assets.rs"));

const INDEX: &str = "index.html";

/// Content security policy: only resources of this server, no inline scripts or styles, no framing.
const POLICY: &str = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Returns the routes of the page. They need no authentication: the page holds no data, and signs users in itself.
pub(crate) fn routes() -> Router<Arc<ServerContext>> {
    Router::new()
        .route("/", get(async |headers: HeaderMap| asset(INDEX, &headers)))
        .route(
            "/assets/{*path}",
            get(async |Path(path): Path<String>, headers: HeaderMap| {
                asset(&format!("assets/{path}"), &headers)
            }),
        )
}

/// Returns whether a script sent the request, by the customary header. A script asks for credentials itself.
pub(crate) fn asks_itself(headers: &HeaderMap) -> bool {
    headers.contains_key("x-requested-with")
}

/// Replaces the scheme of challenges to a script. Browsers ask for a password themselves when they see a Basic
/// challenge, before any script can, so scripts get a scheme that no browser knows.
pub(crate) fn challenge_script(headers: &mut HeaderMap) {
    let challenges = headers.iter_mut();
    for (_, challenge) in challenges.filter(|(name, _)| *name == WWW_AUTHENTICATE) {
        if let Some(realm) = challenge.as_bytes().strip_prefix(b"Basic ") {
            let unknown = [b"X-Basic ".as_slice(), realm].concat();
            *challenge = HeaderValue::from_bytes(&unknown).expect("it was one before");
        }
    }
}

fn asset(path: &str, headers: &HeaderMap) -> Result<Response, HttpError> {
    let asset = ASSETS.iter().find(|asset| asset.path == path);
    let asset = asset.ok_or_else(|| HttpError::not_found(format!("there is no file {path}")))?;
    let compressed = accepts_gzip(headers);
    let etag = match compressed {
        true => format!("\"{:016x}-gzip\"", asset.hash),
        false => format!("\"{:016x}\"", asset.hash),
    };
    let known = matches(headers, &etag);
    let body = match (known, compressed) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(asset.gzip.clone()),
        (false, false) => Body::from(asset.bytes),
    };
    let mut response = Response::new(body);
    let is_index = path == INDEX;
    // All other file names change with their content.
    let keep = match is_index {
        true => "no-cache",
        false => "public, max-age=31536000, immutable",
    };
    let mut set = |name: HeaderName, value: &str| {
        let value = HeaderValue::from_str(value).expect("ASCII");
        response.headers_mut().insert(name, value);
    };
    set(ETAG, &etag);
    set(CACHE_CONTROL, keep);
    set(VARY, "accept-encoding");
    if is_index {
        set(CONTENT_SECURITY_POLICY, POLICY);
        set(REFERRER_POLICY, "no-referrer");
    }
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    set(CONTENT_TYPE, asset.media_type);
    if compressed {
        set(CONTENT_ENCODING, "gzip");
    }
    Ok(response)
}

/// Returns whether the client has the file already.
fn matches(headers: &HeaderMap, etag: &str) -> bool {
    let tags = headers.get_all(IF_NONE_MATCH).iter();
    tags.filter_map(|tags| tags.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == etag || tag == "*")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(ACCEPT_ENCODING).iter();
    codings
        .filter_map(|codings| codings.to_str().ok())
        .flat_map(|codings| codings.split(','))
        .any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let refused = weight.trim().strip_prefix("q=").map(str::parse) == Some(Ok(0.0));
            name.trim().eq_ignore_ascii_case("gzip") && !refused
        })
}
