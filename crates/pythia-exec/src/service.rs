//! `SERVICE`: queries to other SPARQL endpoints (SPARQL 1.1 Federated Query).

use std::io::Read;
use std::time::{Duration, Instant};

use oxrdf::{NamedNode, Term, Variable};
use sparesults::{
    QueryResultsFormat, QueryResultsParser, ReaderQueryResultsParserOutput, ReaderSolutionsParser,
};
use ureq::Agent;

use crate::error::QueryError;

/// A handler of the SELECT queries that `SERVICE` sends. An embedding program may supply its own to restrict
/// the reachable endpoints or to answer without a network.
pub trait ServiceHandler: Send + Sync {
    /// Returns the solutions of `query`, a SPARQL SELECT, at `endpoint`. The calling query gives up at
    /// `deadline`.
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        deadline: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError>;

    /// Returns an error if requests to the endpoint are not allowed. A query that names such an endpoint
    /// without SILENT fails, even if it would send no request.
    fn check(&self, endpoint: &NamedNode) -> Result<(), ServiceError> {
        let _ = endpoint;
        Ok(())
    }
}

/// Returns an error if an endpoint is not allowed.
pub fn check(handler: &dyn ServiceHandler, endpoint: &NamedNode) -> Result<(), QueryError> {
    handler
        .check(endpoint)
        .map_err(|error| QueryError::Refused {
            endpoint: endpoint.to_string(),
            message: error.to_string(),
        })
}

/// Prefixes of built-in services of other stores. They look like URLs but are not endpoints.
const FOREIGN: [&str; 3] = [
    "http://wikiba.se/ontology#",
    "http://www.bigdata.com/rdf",
    "http://www.ontotext.com/",
];

/// The answer of an endpoint.
pub struct ServiceSolutions {
    /// The variables, in the order of each row's terms.
    pub variables: Vec<Variable>,
    /// The solutions, in any order.
    pub rows: Box<dyn Iterator<Item = Result<Vec<Option<Term>>, ServiceError>> + Send>,
}

/// A readable reason why an endpoint gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub String);

/// Queries endpoints over HTTP with the SPARQL 1.1 Protocol. Retries a busy endpoint (429, 503) a few times,
/// after the time that it names.
#[derive(Debug)]
pub struct HttpService {
    agent: Agent,
    response_bytes: u64,
}

/// Accepted result formats.
const ACCEPT: &str = "application/sparql-results+json, application/sparql-results+xml;q=0.9, \
                      text/tab-separated-values;q=0.5";
/// Maximum time without data from an endpoint.
const WAIT: Duration = Duration::from_secs(60);
/// Maximum number of requests to a busy endpoint.
const TRIES_MAX: u32 = 4;
/// First pause before a retry if the endpoint names none.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl Default for HttpService {
    fn default() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_per_read(Some(WAIT))
            .timeout_per_write(Some(WAIT))
            .user_agent(concat!("pythia/", env!("CARGO_PKG_VERSION")))
            .build();
        Self::new(config.into(), u64::MAX)
    }
}

impl HttpService {
    /// Creates a handler with the given HTTP client, which may refuse addresses and must not turn statuses
    /// into errors. At most `response_bytes` bytes of an answer are read.
    pub fn new(agent: Agent, response_bytes: u64) -> Self {
        Self {
            agent,
            response_bytes,
        }
    }

    /// Sends the request, and retries while the endpoint is busy.
    fn ask(
        &self,
        endpoint: &NamedNode,
        query: &str,
        deadline: Option<Instant>,
    ) -> Result<ureq::http::Response<ureq::Body>, ServiceError> {
        let mut tries = 1;
        loop {
            let request = self.agent.post(endpoint.as_str());
            let request = within(request, deadline);
            let response = request
                .header("Accept", ACCEPT)
                .send_form([("query", query)])
                .map_err(|error| ServiceError(told(&error)))?;
            let is_busy = matches!(response.status().as_u16(), 429 | 503);
            let pause = pause(&response, tries);
            let is_late = deadline.is_some_and(|at| Instant::now() + pause >= at);
            if !is_busy || tries == TRIES_MAX || is_late {
                return Ok(response);
            }
            std::thread::sleep(pause);
            tries += 1;
        }
    }
}

/// Returns the pause that the endpoint asks for before a retry.
fn pause(response: &ureq::http::Response<ureq::Body>, tries: u32) -> Duration {
    let said = response.headers().get("retry-after");
    let seconds = said.and_then(|said| said.to_str().ok()?.trim().parse().ok());
    let pause = seconds.map_or(PAUSE * 2_u32.pow(tries - 1), Duration::from_secs);
    pause.min(PAUSE_MAX)
}

/// Sets the time limit of the request to the time until the deadline.
pub fn within<Any>(
    request: ureq::RequestBuilder<Any>,
    deadline: Option<Instant>,
) -> ureq::RequestBuilder<Any> {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    request.config().timeout_global(left).build()
}

/// Returns the message of a request error.
pub fn told(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Other(error) => error.to_string(),
        ureq::Error::Io(error) => match error.get_ref() {
            Some(error) => error.to_string(),
            None => error.to_string(),
        },
        error => error.to_string(),
    }
}

impl ServiceHandler for HttpService {
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        deadline: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        self.check(endpoint)?;
        let mut response = self.ask(endpoint, query, deadline)?;
        if response.status().is_redirection() {
            return Err(ServiceError(
                "redirects to another address; name that one in the query".to_owned(),
            ));
        }
        if !response.status().is_success() {
            return Err(ServiceError(refusal(&mut response)));
        }
        let media_type = response.headers().get("content-type");
        let media_type = media_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or("none");
        let Some(format) = QueryResultsFormat::from_media_type(media_type) else {
            return Err(ServiceError(format!(
                "answered with {media_type}, which is not a SPARQL result format"
            )));
        };
        let body = response.into_body().into_with_config();
        let body = body.limit(self.response_bytes).reader();
        let parser = QueryResultsParser::from_format(format).for_reader(body);
        match parser.map_err(|error| ServiceError(error.to_string()))? {
            ReaderQueryResultsParserOutput::Solutions(solutions) => Ok(from_parser(solutions)),
            ReaderQueryResultsParserOutput::Boolean(_) => {
                Err(ServiceError("answered a SELECT with a boolean".to_owned()))
            }
        }
    }

    fn check(&self, endpoint: &NamedNode) -> Result<(), ServiceError> {
        let iri = endpoint.as_str();
        let scheme = iri.split(':').next().unwrap_or_default();
        let is_http = ["http", "https"]
            .iter()
            .any(|http| scheme.eq_ignore_ascii_case(http));
        if is_http && !FOREIGN.iter().any(|foreign| iri.starts_with(foreign)) {
            return Ok(());
        }
        let instead = if iri.starts_with(FOREIGN[0]) {
            "; for labels write OPTIONAL { ?item rdfs:label ?label FILTER(LANG(?label) = \"en\") }"
        } else {
            ""
        };
        Err(ServiceError(format!(
            "nothing implements this service, and it is not an endpoint (http:// or https://) that can \
             be queried{instead}"
        )))
    }
}

/// Returns the start of an endpoint's error message.
fn refusal(response: &mut ureq::http::Response<ureq::Body>) -> String {
    const SHOWN_BYTES: u64 = 300;
    let status = response.status();
    let mut said = Vec::new();
    let body = response.body_mut().as_reader();
    match body.take(SHOWN_BYTES).read_to_end(&mut said) {
        Ok(length) if length > 0 => {
            let said = String::from_utf8_lossy(&said);
            format!("refused with status {status}: {}", said.trim())
        }
        _ => format!("refused with status {status}"),
    }
}

fn from_parser<R: Read + Send + 'static>(solutions: ReaderSolutionsParser<R>) -> ServiceSolutions {
    ServiceSolutions {
        variables: solutions.variables().to_vec(),
        rows: Box::new(solutions.map(|solution| match solution {
            Ok(solution) => Ok(solution.values().to_vec()),
            Err(error) => Err(ServiceError(error.to_string())),
        })),
    }
}
