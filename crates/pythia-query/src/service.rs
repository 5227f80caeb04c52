//! `SERVICE`: asking other SPARQL endpoints (SPARQL 1.1 Federated Query).

use std::io::Read;
use std::time::{Duration, Instant};

use oxrdf::{NamedNode, Term, Variable};
use sparesults::{
    QueryResultsFormat, QueryResultsParser, ReaderQueryResultsParserOutput, ReaderSolutionsParser,
};
use ureq::Agent;

/// Answers the SELECT queries that `SERVICE` sends. An embedding program may bring its own, to
/// restrict which endpoints are reached, or to answer without a network.
pub trait ServiceHandler: Send + Sync {
    /// The solutions of `query`, a SELECT in SPARQL, at `endpoint`. The query that waits for them
    /// gives up at `deadline`.
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        deadline: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError>;
}

/// What an endpoint answered.
pub struct ServiceSolutions {
    /// The variables, in the order of each row's terms.
    pub variables: Vec<Variable>,
    /// The solutions, in any order.
    pub rows: Box<dyn Iterator<Item = Result<Vec<Option<Term>>, ServiceError>> + Send>,
}

/// Why an endpoint gave no answer, for people to read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub String);

/// Asks endpoints over HTTP with the SPARQL 1.1 Protocol.
#[derive(Debug)]
pub struct HttpService {
    agent: Agent,
}

/// Accepted result formats.
const ACCEPT: &str = "application/sparql-results+json, application/sparql-results+xml;q=0.9, \
                      text/tab-separated-values;q=0.5";
/// How long to wait for an answer to start, without another deadline.
const WAIT: Duration = Duration::from_secs(60);

impl Default for HttpService {
    fn default() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .user_agent(concat!("pythia/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
        }
    }
}

impl ServiceHandler for HttpService {
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        deadline: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        let wait = deadline.map_or(WAIT, |at| at.saturating_duration_since(Instant::now()));
        let request = self.agent.post(endpoint.as_str());
        let request = request.config().timeout_global(Some(wait)).build();
        let mut response = request
            .header("Accept", ACCEPT)
            .send_form([("query", query)])
            .map_err(|error| ServiceError(error.to_string()))?;
        if !response.status().is_success() {
            return Err(ServiceError(refusal(&mut response)));
        }
        let media_type = response.headers().get("content-type");
        let media_type = media_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or("none");
        let Some(format) = QueryResultsFormat::from_media_type(media_type) else {
            return Err(ServiceError(format!(
                "answered with {media_type}, which is no SPARQL result format"
            )));
        };
        let body = response.into_body().into_reader();
        let parser = QueryResultsParser::from_format(format).for_reader(body);
        match parser.map_err(|error| ServiceError(error.to_string()))? {
            ReaderQueryResultsParserOutput::Solutions(solutions) => Ok(from_parser(solutions)),
            ReaderQueryResultsParserOutput::Boolean(_) => {
                Err(ServiceError("answered a SELECT with a boolean".to_owned()))
            }
        }
    }
}

/// What an endpoint says when it refuses, cut short.
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
