//! The bodies of requests, within limits of size, time and memory.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::error::HttpError;
use crate::exchange::Caller;

/// What was received, and its share of the memory that all such may have.
#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    share: Option<Arc<OwnedSemaphorePermit>>,
}

impl Received {
    /// Its text.
    pub(crate) fn text(&self) -> Result<&str, HttpError> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let at = error.valid_up_to();
            HttpError::bad_request(format!("the text is not UTF-8 at its byte {at}"))
        })
    }

    /// A part of it, or what was made from it: it keeps the share.
    pub(crate) fn part(&self, bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            share: self.share.clone(),
        }
    }
}

impl From<String> for Received {
    fn from(text: String) -> Self {
        Self {
            bytes: text.into(),
            share: None,
        }
    }
}

/// What a body turned out to be.
pub(crate) enum Short {
    Whole(Received),
    /// The beginning, and what follows.
    Longer(Bytes, Body),
}

/// Receives the text of a query or update, or a form.
pub(crate) async fn whole(caller: &Caller, body: Body) -> Result<Received, HttpError> {
    let most = caller.settings.config.limits.text_bytes;
    match short(caller, body, usize::try_from(most).unwrap_or(usize::MAX)).await? {
        Short::Whole(received) => Ok(received),
        Short::Longer(..) => Err(too_large(most, "limits.text_bytes")),
    }
}

/// Receives a body as long as it has no more bytes than this.
pub(crate) async fn short(caller: &Caller, body: Body, most: usize) -> Result<Short, HttpError> {
    let mut pace = Pace::new(caller.settings.config.limits.stall_time);
    let mut body = body;
    // As long as it will be, so that it is not moved as it comes. What is not written to takes no memory.
    let length = HttpBody::size_hint(&body).exact().unwrap_or(0);
    let fitting = usize::try_from(length).map_or(0, |length| length.min(most));
    let mut bytes: Vec<u8> = Vec::with_capacity(fitting);
    let mut share: Option<OwnedSemaphorePermit> = None;
    while let Some(piece) = pace.next(&mut body).await? {
        let more = reserve(&caller.state.receiving, piece.len())?;
        match &mut share {
            Some(share) => share.merge(more),
            None => share = Some(more),
        }
        bytes.extend_from_slice(&piece);
        if bytes.len() > most {
            return Ok(Short::Longer(bytes.into(), body));
        }
    }
    Ok(Short::Whole(Received {
        bytes: bytes.into(),
        share: share.map(Arc::new),
    }))
}

/// Takes a share of the memory for what is being received.
pub(super) fn reserve(
    memory: &Arc<Semaphore>,
    bytes: usize,
) -> Result<OwnedSemaphorePermit, HttpError> {
    let count = u32::try_from(bytes).unwrap_or(u32::MAX);
    Arc::clone(memory)
        .try_acquire_many_owned(count)
        .map_err(|_| {
            HttpError::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many large requests are being received; try again later",
                1,
            )
        })
}

/// Bytes of a body that must come in a second, on average. Who sends a byte now and then would hold
/// a connection for as long as it likes.
const BYTES_PER_SECOND_MIN: f64 = 1024.0;

/// How a body comes: no piece may be long in coming, nor all of them together.
pub(super) struct Pace {
    stall: Duration,
    /// Time that was spent waiting for pieces, and not for what is done with them.
    waited: Duration,
    received: u64,
}

impl Pace {
    pub(super) fn new(stall: Duration) -> Self {
        Self {
            stall,
            waited: Duration::ZERO,
            received: 0,
        }
    }

    /// The next piece.
    pub(super) async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, HttpError> {
        loop {
            let since = Instant::now();
            let frame = tokio::time::timeout(self.patience(), body.frame()).await;
            self.waited += since.elapsed();
            let late = || {
                let message = "the body comes too slowly, or not at all";
                HttpError::new(StatusCode::REQUEST_TIMEOUT, message)
            };
            match frame.map_err(|_| late())? {
                None => return Ok(None),
                Some(Err(error)) => {
                    let message = format!("the body cannot be read: {error}");
                    return Err(HttpError::bad_request(message));
                }
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.received += piece.len() as u64;
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }

    /// How long the next piece may take.
    fn patience(&self) -> Duration {
        let seconds = self.received as f64 / BYTES_PER_SECOND_MIN;
        let all = self.stall.saturating_add(Duration::from_secs_f64(seconds));
        all.saturating_sub(self.waited).min(self.stall)
    }
}

fn too_large(most: u64, option: &str) -> HttpError {
    HttpError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body has more than the {most} bytes it may have ({option})"),
    )
}

/// Why a body could not be read to its end.
pub(crate) type Failure = Arc<Mutex<Option<HttpError>>>;

/// A body that a thread reads while it is received.
pub(crate) struct BodyReader {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
    failure: Failure,
}

impl BodyReader {
    /// The body of an upload to the graph store, of which the beginning has come.
    pub(crate) fn new(caller: &Caller, begun: Bytes, body: Body) -> Self {
        let (send, pieces) = mpsc::channel(4);
        let failure = Failure::default();
        let limits = &caller.settings.config.limits;
        let (stall, most) = (limits.stall_time, limits.upload_bytes);
        let failed = Arc::clone(&failure);
        let begun_bytes = begun.len() as u64;
        tokio::spawn(async move {
            let passed = pass(body, begun_bytes, stall, most, &send).await;
            *failed.lock() = passed.err();
        });
        Self {
            pieces,
            piece: begun,
            failure,
        }
    }

    /// Where it is said why it ended too early.
    pub(crate) fn failure(&self) -> Failure {
        Arc::clone(&self.failure)
    }
}

/// Passes the pieces of a body on, within its limits. The error is there before the channel closes.
async fn pass(
    mut body: Body,
    mut received: u64,
    stall: Duration,
    most: u64,
    send: &mpsc::Sender<Bytes>,
) -> Result<(), HttpError> {
    let mut pace = Pace::new(stall);
    while let Some(piece) = pace.next(&mut body).await? {
        received += piece.len() as u64;
        if received > most {
            return Err(too_large(most, "limits.upload_bytes"));
        }
        if send.send(piece).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => match &*self.failure.lock() {
                    Some(error) => return Err(io::Error::other(error.message.clone())),
                    None => return Ok(0),
                },
            }
        }
        let length = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
