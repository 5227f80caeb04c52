//! From work on a thread to the body of an answer.
//!
//! What is written fits into the first piece mostly, and is then sent whole, with its length and with
//! a status that tells how it ended. What is longer is sent piece by piece ([`super::handover`]). If
//! it fails by then the connection is cut (HTTP/1.1) or the stream reset (HTTP/2), before the end
//! of the body: nothing that is cut looks whole.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderValue, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::error::HttpError;
pub(crate) use super::handover::Delivery;
use super::handover::{Receiver, Sender, handover};

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes that most answers fit into.
const FIRST_BYTES: usize = 4 << 10;
/// What work that is tried on a thread of connections may take: they all wait for it.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(2);

/// What a thread writes an answer into.
pub(crate) struct Output {
    media_type: &'static str,
    piece: Vec<u8>,
    /// Neither this nor the rest is there where work is tried at once.
    first: Option<oneshot::Sender<First>>,
    rest: Option<Sender>,
    /// It was tried at once, and is more than one piece.
    is_long: bool,
    delivery: Delivery,
    runtime: Handle,
}

/// What the thread has when it has the first piece.
enum First {
    Whole(Result<(&'static str, Bytes), HttpError>),
    /// The first piece, and all that follow.
    Pieces(&'static str, Receiver),
}

/// Runs work on a thread, and answers with what it writes. If nobody waits for the answer any more,
/// `cancel` is set.
pub(crate) async fn answer(
    delivery: Delivery,
    work: impl FnOnce(&mut Output) -> Result<(), HttpError> + Send + 'static,
) -> Result<Response, HttpError> {
    let guard = CancelOnDrop {
        cancel: Arc::clone(&delivery.cancel),
        armed: true,
    };
    let (first, wait) = oneshot::channel();
    let mut output = Output::new(Some(first), delivery);
    tokio::task::spawn_blocking(move || {
        let outcome = work(&mut output);
        output.finish(outcome);
    });
    let (media_type, body) = match wait.await.map_err(|_| crashed())? {
        First::Whole(outcome) => {
            guard.disarm();
            let (media_type, whole) = outcome?;
            (media_type, Body::from(whole))
        }
        First::Pieces(media_type, body) => (media_type, Body::new(Guarded { body, guard })),
    };
    Ok(response(media_type, body))
}

/// The same for work that takes less time, mostly, than to wake a thread twice: it is tried here
/// first. It asks [`Output::is_tried`], and ends with [`StatusCode::GATEWAY_TIMEOUT`] if it has taken
/// [`AT_ONCE`]; then, or if it writes much, it is begun anew on a thread.
pub(crate) async fn answer_at_once(
    delivery: Delivery,
    work: impl Fn(&mut Output) -> Result<(), HttpError> + Send + 'static,
) -> Result<Response, HttpError> {
    // Others that have come meanwhile get to the queue: what is too much is shed there, not left unread.
    tokio::task::yield_now().await;
    let mut output = Output::new(None, delivery.clone());
    let tried = catch_unwind(AssertUnwindSafe(|| work(&mut output)));
    match tried.unwrap_or_else(|_| Err(crashed())) {
        Ok(()) => Ok(response(output.media_type, output.piece.into())),
        Err(error) if !output.is_long && error.status != StatusCode::GATEWAY_TIMEOUT => Err(error),
        Err(_) => answer(delivery, work).await,
    }
}

fn response(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type(media_type));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// Text is UTF-8, and clients that are not told take it for something else.
fn content_type(media_type: &'static str) -> HeaderValue {
    match media_type {
        "text/csv" => HeaderValue::from_static("text/csv; charset=utf-8"),
        "text/tab-separated-values" => {
            HeaderValue::from_static("text/tab-separated-values; charset=utf-8")
        }
        "text/turtle" => HeaderValue::from_static("text/turtle; charset=utf-8"),
        other => HeaderValue::from_static(other),
    }
}

/// Runs work on a thread, and gives what it returns.
pub(crate) async fn run<T: Send + 'static>(
    cancel: Arc<AtomicBool>,
    work: impl FnOnce() -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    let guard = CancelOnDrop {
        cancel,
        armed: true,
    };
    let outcome = tokio::task::spawn_blocking(work).await;
    guard.disarm();
    outcome.unwrap_or_else(|_| Err(crashed()))
}

/// The answer if the work panicked.
fn crashed() -> HttpError {
    HttpError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the request failed in a way that it should not; the server's log says how",
    )
}

impl Output {
    fn new(first: Option<oneshot::Sender<First>>, delivery: Delivery) -> Self {
        Self {
            media_type: "application/json",
            piece: Vec::with_capacity(FIRST_BYTES),
            first,
            rest: None,
            is_long: false,
            delivery,
            runtime: Handle::current(),
        }
    }

    /// Whether this is a try that may take [`AT_ONCE`].
    pub(crate) fn is_tried(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }

    /// Says what is going to be written. JSON, unless said otherwise before the first byte.
    pub(crate) fn is(&mut self, media_type: &'static str) {
        self.media_type = media_type;
    }

    fn send(&mut self) -> io::Result<()> {
        if self.is_tried() {
            self.is_long = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let piece = self.take_piece();
        self.piece.reserve(PIECE_BYTES);
        if let Some(first) = self.first.take() {
            let (sender, receiver) = handover(self.delivery.clone(), &self.runtime);
            self.rest = Some(sender);
            // If the client has gone, the receiver is dropped, and the next piece tells.
            let _ = first.send(First::Pieces(self.media_type, receiver));
        }
        self.rest.as_ref().expect("it is no try").push(piece)
    }

    fn take_piece(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.piece))
    }

    /// Ends the answer. Nothing is computed any more: the turn is free, however long the client takes.
    fn finish(mut self, outcome: Result<(), HttpError>) {
        self.delivery.slot.release();
        if let Some(first) = self.first.take() {
            let piece = self.take_piece();
            let whole = outcome.map(|()| (self.media_type, piece));
            // Nobody waits for it if the client has gone.
            let _ = first.send(First::Whole(whole));
            return;
        }
        let piece = self.take_piece();
        if let Some(rest) = self.rest.take() {
            let outcome = match outcome {
                Ok(()) if piece.is_empty() => Ok(()),
                Ok(()) => rest.push_last(piece),
                Err(error) => Err(io::Error::other(error.message)),
            };
            rest.finish(outcome);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() + bytes.len() > PIECE_BYTES && !self.piece.is_empty() {
            self.send()?;
        }
        self.piece.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Does nothing: pieces are sent when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stops the work of a request whose client has gone.
struct CancelOnDrop {
    cancel: Arc<AtomicBool>,
    armed: bool,
}

impl CancelOnDrop {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// A body that stops the work for it when it is dropped: at its end, when there is nothing left to stop, or before
/// it.
struct Guarded {
    body: Receiver,
    #[expect(dead_code, reason = "held to be dropped")]
    guard: CancelOnDrop,
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
