//! Bodies of requests, within limits of size, time and memory.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::error::HttpError;
use crate::admission::Client;
use crate::exchange::Caller;

/// The memory for bodies that are being received.
///
/// No client may hold more of it than is left for the others. So some is always left, however many clients send
/// bodies that do not end.
#[derive(Debug)]
pub(crate) struct ReceiveMemory {
    bytes: usize,
    taken: Mutex<MemoryInUse>,
}

#[derive(Debug, Default)]
struct MemoryInUse {
    bytes: usize,
    by_client: HashMap<Client, usize>,
}

/// A part of that memory. It belongs to one client until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    of: Arc<ReceiveMemory>,
    client: Client,
    bytes: usize,
}

impl ReceiveMemory {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            taken: Mutex::default(),
        })
    }

    /// Returns the most that one client can hold, if no other client holds any.
    pub(super) fn bytes_per_client_max(&self) -> usize {
        self.bytes / 2
    }

    /// Takes a share.
    ///
    /// # Errors
    /// 503 if the client would hold more than is left.
    pub(super) fn take(
        self: &Arc<Self>,
        client: &Client,
        bytes: usize,
    ) -> Result<MemoryShare, HttpError> {
        let client = client.in_turn();
        let mut taken = self.taken.lock();
        let of_client = taken.by_client.get(&client).copied().unwrap_or(0);
        let left = (self.bytes - taken.bytes).checked_sub(bytes);
        if left.is_none_or(|left| of_client + bytes > left) {
            return Err(HttpError::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many large requests are being received; try again later",
                1,
            ));
        }
        taken.bytes += bytes;
        taken.by_client.insert(client.clone(), of_client + bytes);
        Ok(MemoryShare {
            of: Arc::clone(self),
            client,
            bytes,
        })
    }
}

impl MemoryShare {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Merges another share of the same client into this one.
    pub(super) fn merge(&mut self, mut more: Self) {
        debug_assert_eq!(self.client, more.client, "each is given back to who has it");
        self.bytes += std::mem::take(&mut more.bytes);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let mut taken = self.of.taken.lock();
        taken.bytes -= self.bytes;
        if let Some(of_client) = taken.by_client.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

/// Received bytes, with their share of the memory.
#[derive(Clone)]
pub(crate) struct ReceivedBytes {
    pub(crate) bytes: Bytes,
    share: Option<Arc<MemoryShare>>,
}

impl ReceivedBytes {
    /// Returns the bytes as text.
    pub(crate) fn text(&self) -> Result<&str, HttpError> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let at = error.valid_up_to();
            HttpError::bad_request(format!("the text is not UTF-8 at its byte {at}"))
        })
    }

    /// Returns a part of the bytes, or a value made from them, with the same share.
    pub(crate) fn part(&self, bytes: impl Into<Bytes>) -> Self {
        Self {
            bytes: bytes.into(),
            share: self.share.clone(),
        }
    }
}

impl From<String> for ReceivedBytes {
    fn from(text: String) -> Self {
        Self {
            bytes: text.into(),
            share: None,
        }
    }
}

/// A body after its first bytes were read.
pub(crate) enum BodyStart {
    Whole(ReceivedBytes),
    /// The beginning, and the rest.
    Longer(Bytes, Body),
}

/// Receives the text of a query or update, or a form.
pub(crate) async fn whole(caller: &Caller, body: Body) -> Result<ReceivedBytes, HttpError> {
    let most = caller.settings.config.limits.text_bytes;
    match short(caller, body, usize::try_from(most).unwrap_or(usize::MAX)).await? {
        BodyStart::Whole(received) => Ok(received),
        BodyStart::Longer(..) => Err(too_large(most, "limits.text_size")),
    }
}

/// Receives a body if it has at most this many bytes.
pub(crate) async fn short(
    caller: &Caller,
    body: Body,
    most: usize,
) -> Result<BodyStart, HttpError> {
    let mut pace = Pace::new(caller.settings.config.limits.stall_time);
    let mut body = body;
    // Reserves the announced length, so that nothing is moved later. Untouched pages take no memory.
    let length = HttpBody::size_hint(&body).exact().unwrap_or(0);
    let fitting = usize::try_from(length).map_or(0, |length| length.min(most));
    let mut bytes: Vec<u8> = Vec::with_capacity(fitting);
    let (receiving, client) = (&caller.context.receiving, caller.client());
    let mut share: Option<MemoryShare> = None;
    while let Some(piece) = pace.next(&mut body).await? {
        let more = receiving.take(&client, piece.len())?;
        match &mut share {
            Some(share) => share.merge(more),
            None => share = Some(more),
        }
        bytes.extend_from_slice(&piece);
        if bytes.len() > most {
            return Ok(BodyStart::Longer(bytes.into(), body));
        }
    }
    Ok(BodyStart::Whole(ReceivedBytes {
        bytes: bytes.into(),
        share: share.map(Arc::new),
    }))
}

/// Minimum average rate of a body, in bytes per second. Otherwise a client could hold a connection forever by
/// sending a byte now and then.
const BYTES_PER_SECOND_MIN: f64 = 1024.0;

/// The rate limits on a body: on the wait for each piece, and on the average rate.
pub(super) struct Pace {
    stall: Duration,
    /// Time spent waiting for pieces, without the time for processing them.
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

    /// Returns the next piece.
    pub(super) async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, HttpError> {
        loop {
            let since = Instant::now();
            let frame = tokio::time::timeout(self.patience(), body.frame()).await;
            self.waited += since.elapsed();
            let late = || {
                let message = "the body arrives too slowly, or not at all";
                HttpError::new(StatusCode::REQUEST_TIMEOUT, message)
            };
            match frame.map_err(|_| late())? {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreadable(&error)),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.received += piece.len() as u64;
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }

    /// Returns how long the next piece may take.
    fn patience(&self) -> Duration {
        let seconds = self.received as f64 / BYTES_PER_SECOND_MIN;
        let all = self.stall.saturating_add(Duration::from_secs_f64(seconds));
        all.saturating_sub(self.waited).min(self.stall)
    }
}

/// Returns why a body cannot be read further: the error of [`super::inflate`], or of the connection.
fn unreadable(error: &axum::Error) -> HttpError {
    let error: &(dyn std::error::Error + 'static) = error;
    let known = std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<HttpError>());
    known
        .cloned()
        .unwrap_or_else(|| HttpError::bad_request(format!("the body cannot be read: {error}")))
}

fn too_large(most: u64, option: &str) -> HttpError {
    HttpError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body has more than {most} bytes ({option})"),
    )
}

/// The reason why a body could not be read to its end.
pub(crate) type Failure = Arc<Mutex<Option<HttpError>>>;

/// A body that a thread reads while it is received.
pub(crate) struct BodyReader {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
    failure: Failure,
}

impl BodyReader {
    /// Makes a reader for an upload to the graph store whose beginning was received.
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

    /// Returns where the reason of an early end is stored.
    pub(crate) fn failure(&self) -> Failure {
        Arc::clone(&self.failure)
    }
}

/// Passes the pieces of a body on, within its limits. The error is stored before the channel closes.
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
            return Err(too_large(most, "limits.upload_size"));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Client {
        Client::User(name.into())
    }

    #[test]
    fn no_client_has_more_of_the_memory_than_is_left_for_others() {
        let receiving = ReceiveMemory::new(1000);
        let mut of_a = receiving.take(&user("a"), 400).unwrap();
        of_a.merge(receiving.take(&user("a"), 100).unwrap());
        assert_eq!(of_a.bytes(), 500);
        let refused = receiving.take(&user("a"), 1).unwrap_err();
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        let of_b = receiving.take(&user("b"), 250).unwrap();
        assert!(receiving.take(&user("b"), 1).is_err());
        for number in 0..100 {
            let other = receiving.take(&user(&number.to_string()), 1);
            std::mem::forget(other.expect("there is always some left"));
        }
        drop((of_a, of_b));
        assert!(receiving.take(&user("a"), 450).is_ok());
        assert_eq!(receiving.taken.lock().by_client.len(), 100);
    }
}
