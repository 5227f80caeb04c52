//! RDF uploads: short ones are kept in memory, long ones are parsed while they are received.

use std::fmt;
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use oxrdf::NamedNode;
use parking_lot::Mutex;
use pythia::{
    Compression, LoadError, LoadHandler, LoadOptions, LoadProgress, Precondition, RdfFormat,
    Replaced, Snapshot, Source, SourceError, Update, UpdateOptions,
};

use super::error::HttpError;
use super::graph_store::Target;
use super::receive::{BodyReader, Failure, ReceivedBytes};
use super::{base_of, receive, update};
use crate::exchange::{Caller, Exchange, Turn};

/// Bodies up to this size are kept, so that their commit can be retried.
const KEPT_BYTES: usize = 1 << 20;
/// The name of a body in the update that loads it.
const BODY: &str = "urn:pythia:body";

/// The name of a body in errors.
const NAME: &str = "body";

/// The received data.
pub(super) struct Upload {
    files: Vec<UploadedFile>,
    base: Option<String>,
}

struct UploadedFile {
    format: RdfFormat,
    content: UploadedContent,
}

enum UploadedContent {
    Kept(ReceivedBytes),
    Stream(Mutex<Option<BodyReader>>, Failure),
}

impl Upload {
    /// Receives a body in this format, or a form with files.
    pub(super) async fn receive(
        caller: &Caller,
        parts: &Parts,
        body: Body,
        format: Option<RdfFormat>,
    ) -> Result<Self, HttpError> {
        let files = match format {
            None => files_of_form(caller, parts, body).await?,
            Some(format) => {
                let content = match receive::short(caller, body, KEPT_BYTES).await? {
                    receive::BodyStart::Whole(received) => UploadedContent::Kept(received),
                    receive::BodyStart::Longer(begun, rest) => {
                        let reader = BodyReader::new(caller, begun, rest);
                        let failure = reader.failure();
                        UploadedContent::Stream(Mutex::new(Some(reader)), failure)
                    }
                };
                vec![UploadedFile { format, content }]
            }
        };
        Ok(Self {
            files,
            base: base_of(parts),
        })
    }

    /// Returns whether a file is received while it is parsed.
    pub(super) fn is_long(&self) -> bool {
        let is_long = |file: &UploadedFile| matches!(file.content, UploadedContent::Stream(..));
        self.files.iter().any(is_long)
    }

    /// Adds the data to a graph with the loader, in place of what is `replaced`. A condition is checked before anything
    /// is read, and right before the data becomes visible.
    pub(super) fn load(
        self,
        exchange: &Exchange,
        target: &Target,
        replaced: Replaced<'_>,
        condition: Option<&Precondition<'_, HttpError>>,
    ) -> Result<(), HttpError> {
        let check =
            |snapshot: &Snapshot| condition.map_or(Ok(()), |condition| (condition.check)(snapshot));
        check(&exchange.dataset.database.snapshot())?;
        let started = Instant::now();
        let base = self.base(target);
        let mut sources = Vec::new();
        for file in &self.files {
            let source = file.open().map_err(|error| spent(&error))?;
            let graph = match target {
                Target::Named(graph) => Some(graph.clone()),
                _ => None,
            };
            let source = source.with_base(base.clone()).with_graph(graph);
            sources.push(source.with_blank_node_scope(Some(rand::random())));
        }
        let options = LoadOptions {
            memory_bytes: exchange.dataset.config.memory_bytes / 2,
            ..LoadOptions::default()
        };
        let store = exchange.dataset.database.store();
        let progress = Arc::<LoadProgress>::default();
        let report = store.load_if(sources, replaced, &options, &progress, &|snapshot| {
            check(snapshot).map_err(Into::into)
        });
        let report = report.map_err(|error| match error {
            LoadError::Refused(refusal) => *refusal
                .downcast::<HttpError>()
                .expect("only `check` refuses"),
            error => {
                let wrong = || about_body(HttpError::of_load(&error));
                self.failure().unwrap_or_else(wrong)
            }
        })?;
        let quads = report.quads + report.removed_quads;
        exchange.caller.record.set_run(started.elapsed(), quads);
        Ok(())
    }

    /// Adds the data to a graph in one transaction, after the operation in `before`.
    pub(super) fn update(
        self,
        exchange: &Exchange,
        target: &Target,
        before: &str,
        turn: &Turn,
        condition: Option<&Precondition<'_, HttpError>>,
    ) -> Result<(), HttpError> {
        let mut text = before.to_owned();
        for number in 0..self.files.len() {
            text += &format!("LOAD <{BODY}:{number}>");
            if let Target::Named(graph) = target {
                text += &format!(" INTO GRAPH {graph}");
            }
            text += " ;";
        }
        let update = Update::parse(&text, None)?;
        let base = self.base(target);
        let upload = Arc::new(UploadedFiles { upload: self, base });
        let options = UpdateOptions {
            load: Some(Arc::clone(&upload) as Arc<dyn LoadHandler>),
            ..exchange.update_options(turn, &exchange.limits)
        };
        match update::commit(exchange, &update, &options, condition) {
            Ok(_) => Ok(()),
            Err(error) => Err(upload.upload.failure().unwrap_or_else(|| about_body(error))),
        }
    }

    /// Returns the base of relative IRIs: the graph's IRI (§4.2).
    fn base(&self, target: &Target) -> Option<String> {
        match target {
            Target::Named(graph) => Some(graph.as_str().to_owned()),
            _ => self.base.clone(),
        }
    }

    /// Returns why a body could not be read to its end.
    fn failure(&self) -> Option<HttpError> {
        self.files.iter().find_map(|file| match &file.content {
            UploadedContent::Kept(_) => None,
            UploadedContent::Stream(_, failure) => failure.lock().clone(),
        })
    }
}

/// Removes the LOAD, which the client did not write, from an error, and adds its place.
fn about_body(mut error: HttpError) -> HttpError {
    if let Some((before, message)) = error.message.split_once(">: ")
        && before.contains(BODY)
    {
        error.message = message.to_owned();
    }
    let mut parts = error.message.splitn(4, ':');
    if parts.next() == Some(NAME) {
        let mut number = || {
            parts
                .next()
                .and_then(|part| part.trim().parse::<usize>().ok())
        };
        error.place = number().zip(number());
    }
    error
}

/// Makes the error for a body that can be read only once, if the first attempt to commit failed.
fn spent(_: &SourceError) -> HttpError {
    HttpError::later(
        StatusCode::CONFLICT,
        "conflict: others changed the same quads; send the request again",
        1,
    )
}

impl UploadedFile {
    fn open(&self) -> Result<Source, SourceError> {
        let reader: Box<dyn Read + Send> = match &self.content {
            UploadedContent::Kept(received) => Box::new(Cursor::new(received.bytes.clone())),
            UploadedContent::Stream(reader, failure) => match reader.lock().take() {
                Some(reader) => Box::new(reader),
                None => {
                    let error = SourceError("the body was read before".to_owned());
                    *failure.lock() = Some(spent(&error));
                    return Err(error);
                }
            },
        };
        let name = NAME.to_owned();
        let source = Source::from_reader(name, reader, self.format, Compression::None);
        source.map_err(|error| SourceError(error.to_string()))
    }
}

/// Gives the uploaded files to the LOADs of an update.
struct UploadedFiles {
    upload: Upload,
    base: Option<String>,
}

impl LoadHandler for UploadedFiles {
    fn open(&self, iri: &NamedNode, _deadline: Option<Instant>) -> Result<Source, SourceError> {
        let number = iri.as_str().rsplit(':').next();
        let number = number.and_then(|number| number.parse::<usize>().ok());
        let file = number.and_then(|number| self.upload.files.get(number));
        let file = file.ok_or_else(|| SourceError(format!("{iri} was not sent")))?;
        Ok(file.open()?.with_base(self.base.clone()))
    }
}

impl fmt::Debug for UploadedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

/// Receives the files of a form (`multipart/form-data`), each in its own format.
async fn files_of_form(
    caller: &Caller,
    parts: &Parts,
    body: Body,
) -> Result<Vec<UploadedFile>, HttpError> {
    let broken = |error: multer::Error| HttpError::bad_request(format!("the form: {error}"));
    let media_type = parts.headers.get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok());
    let boundary = multer::parse_boundary(media_type.unwrap_or_default()).map_err(broken)?;
    let received = receive::whole(caller, body).await?;
    let bytes = received.bytes.clone();
    let stream = futures::stream::once(async move { Ok::<Bytes, std::io::Error>(bytes) });
    let mut form = multer::Multipart::new(stream, boundary);
    let mut files = Vec::new();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let by_type = field.content_type().map(ToString::to_string);
        let by_type = by_type.and_then(|media_type| RdfFormat::from_media_type(&media_type));
        let extension = field.file_name().and_then(|name| name.rsplit('.').next());
        let by_name = extension.and_then(RdfFormat::from_extension);
        let format = by_type.or(by_name).ok_or_else(|| {
            HttpError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a part of the form has neither a Content-Type of RDF nor a file name with a known ending",
            )
        })?;
        let bytes = field.bytes().await.map_err(broken)?;
        let content = UploadedContent::Kept(received.part(bytes));
        files.push(UploadedFile { format, content });
    }
    match files.is_empty() {
        true => Err(HttpError::bad_request("the form has no files")),
        false => Ok(files),
    }
}
