//! Request bodies compressed with zstd.
//!
//! A frame sets the window size that its decoder must hold, up to gigabytes for a body of a few bytes. So the head
//! of each frame is read first: windows beyond the limit of RFC 9659 are refused, and the memory for others is
//! taken from the budget for received bodies.

use std::io;
use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes, BytesMut};
use futures::TryFutureExt;
use futures::stream::try_unfold;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::error::HttpError;
use super::receive::{MemoryShare, Pace};
use crate::admission::Client;
use crate::context::ServerContext;
use crate::exchange::Peer;

/// Limit on the window: 2^23 bytes = 8 MiB, the most that a sender may assume (RFC 9659, section 3).
const WINDOW_LOG_MAX: u32 = 23;
/// The smallest window of a decoder.
const WINDOW_LOG_MIN: u32 = 10;
/// Limit on the head of a frame, in bytes (RFC 8878, section 3.1.1).
const HEAD_BYTES: usize = 18;
const MAGIC: u32 = 0xFD2F_B528;
/// Magic number of a skippable frame; its last four bits may have any value.
const SKIPPED_MAGIC: u32 = 0x184D_2A50;
/// Size of the decoder's output pieces, in bytes. No block is larger than twice this.
const PIECE_BYTES: usize = 64 << 10;

/// Gives handlers the decompressed text of zstd bodies. Reads nothing before a handler asks for it, after
/// authentication.
pub(super) async fn zstd_bodies(
    Shared(context): Shared<Arc<ServerContext>>,
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
    let Peer { address, .. } = *parts.extensions.get().expect("set where it is received");
    match Inflating::new(&context, Client::Address(address), body) {
        Ok(inflating) => {
            let pieces = try_unfold(inflating, |inflating| {
                inflating.next().map_err(BoxError::from)
            });
            let request = Request::from_parts(parts, Body::from_stream(pieces));
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// A body that is being decompressed.
struct Inflating {
    context: Arc<ServerContext>,
    client: Client,
    body: Body,
    /// The rate of the compressed body; the decompressed text may come at any rate.
    pace: Pace,
    /// Bytes that were received and not decompressed yet.
    input: Bytes,
    decoder: Decoder<'static>,
    /// True within a frame.
    is_within: bool,
    /// True if the decoder may have more output without more input.
    is_full: bool,
    /// The memory for the largest window so far.
    window: Option<MemoryShare>,
}

impl Inflating {
    fn new(context: &Arc<ServerContext>, client: Client, body: Body) -> Result<Self, HttpError> {
        let mut decoder = Decoder::new().map_err(|error| fault(&error))?;
        let limit = DParameter::WindowLogMax(WINDOW_LOG_MAX);
        decoder
            .set_parameter(limit)
            .map_err(|error| fault(&error))?;
        let stall = context.settings().config.limits.stall_time;
        Ok(Self {
            context: Arc::clone(context),
            client,
            body,
            pace: Pace::new(stall),
            input: Bytes::new(),
            decoder,
            is_within: false,
            is_full: false,
            window: None,
        })
    }

    /// Returns the next piece of the text.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, HttpError> {
        loop {
            if !self.is_within {
                self.read_head().await?;
                if self.input.is_empty() {
                    return Ok(None);
                }
                self.reserve_window()?;
            } else if self.input.is_empty() && !self.is_full {
                let piece = self.pace.next(&mut self.body).await?;
                let cut_off = || HttpError::bad_request("the body's zstd frame is cut off");
                self.input = piece.ok_or_else(cut_off)?;
            }
            let mut piece = vec![0; PIECE_BYTES];
            let status = self.decoder.run_on_buffers(&self.input, &mut piece);
            let status = status.map_err(|error| fault(&error))?;
            self.input.advance(status.bytes_read);
            self.is_within = status.remaining > 0;
            self.is_full = status.bytes_written == piece.len();
            if status.bytes_written > 0 {
                piece.truncate(status.bytes_written);
                return Ok(Some((piece.into(), self)));
            }
        }
    }

    /// Reads until the head of the next frame is complete, or the body ends.
    async fn read_head(&mut self) -> Result<(), HttpError> {
        if self.input.len() >= HEAD_BYTES {
            return Ok(());
        }
        let mut head = BytesMut::from(&*self.input);
        while head.len() < HEAD_BYTES
            && let Some(piece) = self.pace.next(&mut self.body).await?
        {
            head.extend_from_slice(&piece);
        }
        self.input = head.freeze();
        Ok(())
    }

    /// Takes the memory for the next frame's window.
    fn reserve_window(&mut self) -> Result<(), HttpError> {
        // The decoder reports input that is not a frame.
        let window_log = window_log(&self.input).unwrap_or(WINDOW_LOG_MIN);
        if window_log > WINDOW_LOG_MAX {
            let message = format!(
                "the body's zstd frame needs a window of more than {} MiB, the limit of RFC 9659; \
                 compress it with a smaller window, for example zstd --long={WINDOW_LOG_MAX}",
                1 << (WINDOW_LOG_MAX - 20)
            );
            return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let bytes = (1 << window_log) + 2 * PIECE_BYTES;
        let receiving = &self.context.receiving;
        if bytes > receiving.bytes_per_client_max() {
            let message = format!(
                "the body's zstd frame needs {bytes} bytes to be decompressed, more than half of \
                 limits.receive_memory; raise that, or compress with a smaller window"
            );
            return Err(HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let held = self.window.as_ref().map_or(0, MemoryShare::bytes);
        if bytes > held {
            let more = receiving.take(&self.client, bytes - held)?;
            match &mut self.window {
                Some(window) => window.merge(more),
                None => self.window = Some(more),
            }
        }
        Ok(())
    }
}

/// Makes the error for what the decoder reports.
fn fault(error: &io::Error) -> HttpError {
    HttpError::bad_request(format!("the body is not valid zstd: {error}"))
}

/// Returns the window size that a frame needs, as a power of two; `None` if this is not the head of a frame.
fn window_log(head: &[u8]) -> Option<u32> {
    let (magic, rest) = head.split_first_chunk()?;
    match u32::from_le_bytes(*magic) {
        MAGIC => {}
        magic if magic & !0xF == SKIPPED_MAGIC => return Some(WINDOW_LOG_MIN),
        _ => return None,
    }
    let (&descriptor, rest) = rest.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let &window = rest.first()?;
        let (exponent, mantissa) = (u32::from(window >> 3), window & 7);
        return Some(WINDOW_LOG_MIN + exponent + u32::from(mantissa > 0));
    }
    // In a single segment, the window is as large as the content.
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut size = [0; 8];
    size[..size_bytes].copy_from_slice(rest.get(dictionary_bytes..)?.get(..size_bytes)?);
    let content = u64::from_le_bytes(size) + if size_bytes == 2 { 256 } else { 0 };
    let window_log = u64::BITS - content.saturating_sub(1).leading_zeros();
    Some(window_log.max(WINDOW_LOG_MIN))
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
            (&[0xA0, 0, 0, 0x80, 0], Some(23)),
            (&[0xA0, 1, 0, 0x80, 0], Some(24)),
            (&[0xA0, 0, 0, 0, 2], Some(25)),
            (&[0x00], None),
        ] {
            assert_eq!(window_log(&head(rest)), expected, "{rest:?}");
        }
        let skipped = (SKIPPED_MAGIC + 3).to_le_bytes();
        assert_eq!(window_log(&skipped), Some(WINDOW_LOG_MIN));
        assert_eq!(window_log(b"<a> <b> <c> ."), None);
        let real = zstd::encode_all(&vec![b'x'; 3 << 20][..], 3).unwrap();
        assert_eq!(window_log(&real), Some(21));
    }
}
