//! Answer bodies that record their bytes and how they end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::Method;
use http_body::{Body as _, Frame, SizeHint};

use super::record::Record;
use crate::state::State;

/// A body that is counted in a record. Dropping it ends the request.
struct Recorded {
    body: Body,
    record: Arc<Record>,
    state: Arc<State>,
    /// True if the end was seen.
    ended: bool,
}

/// Wraps an answer so that its status, bytes and end are recorded.
pub(crate) fn recorded(response: Response, record: Arc<Record>, state: &Arc<State>) -> Response {
    record.set_status(response.status().as_u16());
    response.map(|body| {
        Body::new(Recorded {
            // The body of an answer to HEAD is never read.
            ended: record.method == Method::HEAD,
            body,
            record,
            state: Arc::clone(state),
        })
    })
}

impl http_body::Body for Recorded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.record
                    .add_bytes(frame.data_ref().map_or(0, Bytes::len));
            }
            Poll::Ready(None) => self.ended = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.record.end(!self.ended && !self.body.is_end_stream());
        let log = &self.state.settings().config.log;
        let record = Arc::clone(&self.record);
        self.state.operations.ended(record, log);
    }
}
