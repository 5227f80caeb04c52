//! A stream that fails if the other side stops reading.
//!
//! A client that requests much and reads nothing would otherwise hold its connection, and the data in it, forever:
//! TCP never gives up on a peer that still responds.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail if nothing could be written for this long.
pub(crate) struct Stalling<S> {
    stream: S,
    time: Duration,
    /// Runs while the other side reads nothing.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, time: Duration) -> Self {
        Self {
            stream,
            time,
            waiting: None,
        }
    }

    /// Returns the result of a write; fails if the wait is too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let time = self.time;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(time)));
        match waiting.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                // If it is polled again, it waits again.
                waiting.as_mut().reset(Instant::now() + time);
                let message = format!("the client read nothing for {time:?}");
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn writing_fails_when_nothing_is_taken() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Stalling::new(ours, Duration::from_millis(20));
        ours.write_all(b"four").await.unwrap();
        let error = ours.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let mut taken = [0; 4];
        theirs.read_exact(&mut taken).await.unwrap();
        ours.write_all(b"more").await.unwrap();
    }

    #[tokio::test]
    async fn slow_clients_are_served() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Stalling::new(ours, Duration::from_millis(200));
        let writing = tokio::spawn(async move { ours.write_all(&[7; 40]).await });
        let mut taken = [0; 40];
        for byte in taken.chunks_mut(4) {
            sleep(Duration::from_millis(50)).await;
            theirs.read_exact(byte).await.unwrap();
        }
        writing.await.unwrap().unwrap();
        assert_eq!(taken, [7; 40]);
    }
}
