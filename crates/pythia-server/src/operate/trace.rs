//! OpenTelemetry traces of requests, sent as OTLP over HTTP.
//!
//! A request is a span, a child of the one in the client's `traceparent` (W3C Trace Context). Its child spans are
//! waiting, planning and running. They are made from the record when the request has ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use ureq::Agent;

use super::record::Record;
use crate::config::{ConfigError, TracingConfig};

/// Limit on how much of a collector's answer is read, in bytes.
const ANSWER_BYTES: u64 = 1 << 20;

/// Makes and sends the spans of requests.
#[derive(Debug)]
pub(crate) struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Tracer {
    /// Makes a tracer; `None` if no endpoint is configured.
    pub(crate) fn new(config: &TracingConfig) -> Result<Option<Arc<Self>>, ConfigError> {
        let Some(endpoint) = &config.endpoint else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new(config.timeout))
            .with_endpoint(endpoint)
            .with_timeout(config.timeout)
            .with_headers(config.headers.clone().into_iter().collect())
            .build()
            .map_err(|error| ConfigError::invalid(format!("tracing: {error}")))?;
        let resource = Resource::builder()
            .with_service_name(config.service.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let sampler = Sampler::TraceIdRatioBased(config.sample);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("pythia");
        Ok(Some(Arc::new(Self { provider, tracer })))
    }

    /// Sends the spans of a request that has ended. Returns before they are sent.
    pub(crate) fn send(&self, record: &Record) {
        let parent =
            TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(record));
        let operation = record.operation.get().copied().unwrap_or("other");
        let span = self
            .tracer
            .span_builder(format!("{} {operation}", record.method))
            .with_kind(SpanKind::Server)
            .with_start_time(record.started_at)
            .with_attributes(attributes(record))
            .start_with_context(&self.tracer, &parent);
        let context = Context::new().with_span(span);
        let span = context.span();
        if span.span_context().is_sampled() {
            self.send_parts(record, &context);
        }
        if record.status() >= 500 || record.is_aborted() {
            span.set_status(Status::error(match record.is_aborted() {
                true => "the answer was cut",
                false => "",
            }));
        }
        span.end_with_timestamp(record.started_at + record.total());
    }

    /// Sends the child spans of a request: waiting, planning, running.
    fn send_parts(&self, record: &Record, parent: &Context) {
        let Some(run) = record.run() else {
            return;
        };
        let begun = record.started_at + record.begun();
        let planned = begun + record.prepared();
        self.send_part("queue", begun - record.queued(), begun, parent);
        if !record.prepared().is_zero() {
            self.send_part("prepare", begun, planned, parent);
        }
        self.send_part("run", planned, begun + run, parent);
    }

    fn send_part(&self, name: &'static str, from: SystemTime, to: SystemTime, parent: &Context) {
        let builder = self.tracer.span_builder(name).with_start_time(from);
        let mut span = builder.start_with_context(&self.tracer, parent);
        span.end_with_timestamp(to.max(from));
    }
}

/// Sends the remaining spans, within a few seconds.
impl Drop for Tracer {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Returns attributes with the names of OpenTelemetry's semantic conventions, where those exist.
fn attributes(record: &Record) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("http.request.method", record.method.to_string()),
        KeyValue::new("http.response.status_code", i64::from(record.status())),
        KeyValue::new("url.path", record.uri.path().to_owned()),
        KeyValue::new("client.address", record.peer.to_string()),
        KeyValue::new("db.system.name", "pythia"),
        KeyValue::new("db.response.returned_rows", record.rows() as i64),
        KeyValue::new("http.response.body.size", record.bytes() as i64),
    ];
    let texts = [
        ("db.namespace", record.dataset.get()),
        ("user.name", record.user.get()),
        ("pythia.query.id", record.id.get()),
    ];
    for (name, text) in texts {
        let text = text.map(|text| KeyValue::new(name, text.to_string()));
        attributes.extend(text);
    }
    let operation = record.operation.get();
    attributes.extend(operation.map(|name| KeyValue::new("db.operation.name", *name)));
    attributes
}

/// The trace headers of a request.
struct Headers<'r>(&'r Record);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.traceparent.as_ref().filter(|_| key == "traceparent");
        value?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

/// An HTTP client for the exporter's own thread, which may block.
#[derive(Debug)]
struct Client(Agent);

impl Client {
    fn new(timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .max_redirects(0)
            .user_agent(concat!("pythia/", env!("CARGO_PKG_VERSION")))
            .build();
        Self(config.into())
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let answer = self.0.run(Request::from_parts(parts, body.to_vec()))?;
        let (parts, mut body) = answer.into_parts();
        let read = body.with_config().limit(ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(parts, read.into()))
    }
}

impl HttpClient for Client {
    fn send_bytes<'s, 'f>(
        &'s self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(std::future::ready(self.send(request)))
    }
}
