//! Bodies compressed with zstd.
//!
//! A frame says how large a window its decoder must hold, up to gigabytes in a body of a few bytes. So
//! the head of a body is read first: a window beyond what RFC 9659 allows is refused, and others are
//! held within the memory for what is being received.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes, BytesMut};
use futures::stream::try_unfold;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::error::HttpError;
use super::receive::{Pace, reserve};
use crate::state::State;

/// Windows may have so many bytes: 8 MiB, the most that a sender may assume (RFC 9659, section 3).
const WINDOW_LOG_MAX: u32 = 23;
/// The least that a decoder takes.
const WINDOW_LOG_MIN: u32 = 10;
/// What the head of a frame may take (RFC 8878, section 3.1.1).
const HEAD_BYTES: usize = 18;
const MAGIC: u32 = 0xFD2F_B528;
/// A frame that is skipped has this, and any last four bits; another follows.
const SKIPPED_MAGIC: u32 = 0x184D_2A50;
/// Output of a decoder is handed on in pieces of this size, and no block is larger than twice that.
const PIECE_BYTES: usize = 64 << 10;

/// Gives handlers the text of a body that comes compressed with zstd.
pub(super) async fn zstd_bodies(
    Shared(state): Shared<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let encoding = request.headers().get(CONTENT_ENCODING);
    if !encoding.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"zstd")) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.remove(CONTENT_LENGTH);
    match Inflating::begin(&state, body).await {
        Ok(inflating) => {
            let pieces = try_unfold(inflating, Inflating::next);
            let request = Request::from_parts(parts, Body::from_stream(pieces));
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// A body that is being decompressed.
struct Inflating {
    body: Body,
    /// What came of it and is not decompressed.
    input: Bytes,
    decoder: Decoder<'static>,
    /// Whether the decoder may have more to give without more input.
    is_full: bool,
    /// Whether a frame has begun and not ended.
    is_within: bool,
    /// Holds the window's memory.
    _share: OwnedSemaphorePermit,
}

impl Inflating {
    /// Reads the head of the first frame.
    async fn begin(state: &State, mut body: Body) -> Result<Self, HttpError> {
        let settings = state.settings();
        let limits = &settings.config.limits;
        let mut pace = Pace::new(limits.stall_time);
        let mut head = BytesMut::new();
        while head.len() < HEAD_BYTES
            && let Some(piece) = pace.next(&mut body).await?
        {
            head.extend_from_slice(&piece);
        }
        // What is no frame is refused by the decoder.
        let window_log = window_log(&head).unwrap_or(WINDOW_LOG_MIN);
        if window_log > WINDOW_LOG_MAX {
            let message = format!(
                "the body's zstd frame needs a window of more than {} MiB, the most that may be sent \
                 (RFC 9659); compress it with a smaller one, for example zstd --long={WINDOW_LOG_MAX}",
                1 << (WINDOW_LOG_MAX - 20)
            );
            return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let bytes = (1 << window_log) + 2 * PIECE_BYTES;
        if bytes > limits.receive_bytes {
            let message = format!(
                "the body's zstd frame needs {bytes} bytes to be unpacked, more than limits.receive_memory \
                 has; raise that, or compress with a smaller window"
            );
            return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let share = reserve(&state.receiving, bytes)?;
        let failed = |error: io::Error| HttpError::bad_request(format!("zstd: {error}"));
        let mut decoder = Decoder::new().map_err(failed)?;
        // No later frame takes more.
        let limit = DParameter::WindowLogMax(window_log);
        decoder.set_parameter(limit).map_err(failed)?;
        Ok(Self {
            body,
            input: head.freeze(),
            decoder,
            is_full: false,
            is_within: false,
            _share: share,
        })
    }

    /// The next piece of the text.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, axum::BoxError> {
        loop {
            if self.input.is_empty() && !self.is_full {
                match self.body.frame().await {
                    None if self.is_within => {
                        return Err("the zstd frame is cut off".into());
                    }
                    None => return Ok(None),
                    Some(frame) => self.input = frame?.into_data().unwrap_or_default(),
                }
                if self.input.is_empty() {
                    continue;
                }
            }
            let mut piece = vec![0; PIECE_BYTES];
            let status = self.decoder.run_on_buffers(&self.input, &mut piece)?;
            self.input.advance(status.bytes_read);
            self.is_within = status.remaining > 0;
            self.is_full = status.bytes_written == piece.len();
            if status.bytes_written > 0 {
                piece.truncate(status.bytes_written);
                return Ok(Some((piece.into(), self)));
            }
        }
    }
}

/// How large a window the first frame of a body needs, as a power of two; `None` if this is not the
/// head of one.
fn window_log(head: &[u8]) -> Option<u32> {
    let (magic, rest) = head.split_first_chunk()?;
    match u32::from_le_bytes(*magic) {
        MAGIC => {}
        magic if magic & !0xF == SKIPPED_MAGIC => return Some(WINDOW_LOG_MAX),
        _ => return None,
    }
    let (&descriptor, rest) = rest.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let &window = rest.first()?;
        let (exponent, mantissa) = (u32::from(window >> 3), window & 7);
        return Some(WINDOW_LOG_MIN + exponent + u32::from(mantissa > 0));
    }
    // The window is the content.
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut size = [0; 8];
    size[..size_bytes].copy_from_slice(rest.get(dictionary_bytes..)?.get(..size_bytes)?);
    let content = u64::from_le_bytes(size) + if size_bytes == 2 { 256 } else { 0 };
    Some((u64::BITS - content.leading_zeros()).max(WINDOW_LOG_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_frames_tell_the_window() {
        let head = |rest: &[u8]| [&MAGIC.to_le_bytes()[..], rest].concat();
        for (rest, expected) in [
            (&[0x00, 17 << 3][..], Some(27)),
            (&[0x00, 13 << 3], Some(23)),
            (&[0x00, 13 << 3 | 1], Some(24)),
            (&[0x20, 5], Some(10)),
            (&[0x60, 0, 8], Some(12)),
            (&[0xA0, 0, 0, 0, 2], Some(26)),
            (&[0x00], None),
        ] {
            assert_eq!(window_log(&head(rest)), expected, "{rest:?}");
        }
        assert_eq!(window_log(b"<a> <b> <c> ."), None);
        let real = zstd::encode_all(&vec![b'x'; 3 << 20][..], 3).unwrap();
        assert_eq!(window_log(&real), Some(21));
    }
}
