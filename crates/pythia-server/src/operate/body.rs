//! Answer bodies that record their bytes and how they end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::Method;
use http_body::{Body as _, Frame, SizeHint};

use super::record::Record;
use crate::context::ServerContext;

/// A body that is counted in a record. Dropping it ends the request.
struct RecordedBody {
    body: Body,
    record: Arc<Record>,
    context: Arc<ServerContext>,
    /// True if the end was seen.
    ended: bool,
}

/// Wraps an answer so that its status, bytes and end are recorded.
pub(crate) fn recorded(
    response: Response,
    record: Arc<Record>,
    context: &Arc<ServerContext>,
) -> Response {
    record.set_status(response.status().as_u16());
    response.map(|body| {
        Body::new(RecordedBody {
            // The body of an answer to HEAD is never read.
            ended: record.method == Method::HEAD,
            body,
            record,
            context: Arc::clone(context),
        })
    })
}

impl http_body::Body for RecordedBody {
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

impl Drop for RecordedBody {
    fn drop(&mut self) {
        self.record.end(!self.ended && !self.body.is_end_stream());
        let log = &self.context.settings().config.log;
        let record = Arc::clone(&self.record);
        self.context.operations.ended(record, log);
    }
}
