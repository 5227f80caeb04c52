//! One request: who asks what of which dataset.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use http::StatusCode;
use http::request::Parts;
use pythia::{QueryOptions, UpdateOptions};
use rand::distr::{Alphanumeric, SampleString};

use crate::admission::{Client, Permit, Shed};
use crate::auth::{Access, Identity};
use crate::operate::metrics::ShedReason;
use crate::operate::record::Record;
use crate::protocol::error::HttpError;
use crate::protocol::parameters::RequestLimits;
use crate::running::Listed;
use crate::state::{Dataset, Settings, State};

/// The header with the name that a query is listed under.
pub(crate) const QUERY_ID: &str = "pythia-query-id";
/// How long a refusal takes where a queue is full. It costs nothing while it waits, and who asks again at
/// once is slowed down: without it, refusing takes more of a busy machine than answering.
const REFUSAL_TIME: Duration = Duration::from_millis(500);
/// Characters such a name may have.
const ID_LENGTH: usize = 64;

/// Who asks the server, before any dataset is looked at. Handlers take it as an argument.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) state: Arc<State>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) identity: Identity,
    pub(crate) peer: IpAddr,
    pub(crate) record: Arc<Record>,
}

/// Somebody who asks a dataset, and what they may do with it. Handlers take it as an argument.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) caller: Caller,
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) access: Access,
    /// What the request is listed under while it runs.
    pub(crate) id: Arc<str>,
}

/// Who is at the other end of a connection, put into each request where it is received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether the connection is.
    pub(crate) is_encrypted: bool,
}

impl FromRequestParts<Arc<State>> for Caller {
    type Rejection = HttpError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<State>,
    ) -> Result<Self, Self::Rejection> {
        let settings = state.settings();
        let Peer { address: peer, .. } = *parts.extensions.get().expect("set where it is received");
        let record: &Arc<Record> = parts.extensions.get().expect("set where it is received");
        let record = Arc::clone(record);
        let identity = settings.auth.identify(&parts.headers, peer).await?;
        let identity = identity.asking_by(parts, &settings.config.cors_origins);
        if let Some(user) = &identity.user {
            let _ = record.user.set(Arc::clone(user));
        }
        Ok(Self {
            state: Arc::clone(state),
            settings,
            identity,
            peer,
            record,
        })
    }
}

impl FromRequestParts<Arc<State>> for Exchange {
    type Rejection = HttpError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<State>,
    ) -> Result<Self, Self::Rejection> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let path = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| HttpError::bad_request("the path is not percent-encoded UTF-8"))?;
        let name = path.iter().find(|(key, _)| *key == "dataset");
        let name = name.map(|(_, name)| name);
        let id = match parts.headers.get(QUERY_ID) {
            None => Alphanumeric.sample_string(&mut rand::rng(), 16),
            Some(id) => id
                .to_str()
                .ok()
                .filter(|id| is_id(id))
                .map(str::to_owned)
                .ok_or_else(|| {
                    HttpError::bad_request(format!(
                        "{QUERY_ID} must be 1 to {ID_LENGTH} letters, digits, - and _"
                    ))
                })?,
        };
        let id: Arc<str> = id.into();
        let _ = caller.record.id.set(Arc::clone(&id));
        let datasets = state.datasets();
        let dataset = datasets.get(name).cloned();
        let asked: &str = match (&dataset, name) {
            (Some(dataset), _) => &dataset.name,
            (None, Some(name)) => name,
            (None, None) => "",
        };
        let access = caller.identity.access(asked);
        if access.is_none() {
            // As well if there is no such dataset.
            return Err(caller.identity.refuse(&format!("the dataset {asked}")));
        }
        let dataset = dataset.ok_or_else(|| match name {
            Some(name) => HttpError::not_found(format!(
                "there is no dataset {name}; /$/datasets lists what there is"
            )),
            None => HttpError::not_found("this server has no dataset"),
        })?;
        let _ = caller.record.dataset.set(Arc::clone(&dataset.name));
        Ok(Self {
            caller,
            dataset,
            access,
            id,
        })
    }
}

fn is_id(id: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=ID_LENGTH).contains(&id.len()) && id.chars().all(named)
}

impl Caller {
    /// Whose turn it is when this request's turn comes.
    pub(crate) fn client(&self) -> Client {
        match &self.identity.user {
            Some(user) => Client::User(Arc::clone(user)),
            None => Client::Address(self.peer),
        }
    }
}

/// A request that is listed, and has its turn.
pub(crate) struct Turn {
    pub(crate) listed: Listed,
    _permit: Permit,
}

impl Exchange {
    /// Lists what is to run, and waits for its turn.
    pub(crate) async fn turn(
        &self,
        operation: &'static str,
        text: &str,
    ) -> Result<Turn, HttpError> {
        let state = &self.caller.state;
        let _ = self.caller.record.operation.set(operation);
        if state.is_draining() {
            state.operations.metrics.shed(ShedReason::Stopping);
            return Err(HttpError::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is about to stop",
                5,
            ));
        }
        let client = self.caller.client();
        let (id, dataset) = (Arc::clone(&self.id), Arc::clone(&self.dataset.name));
        let listed = state.running.list(id, dataset, client.clone(), text);
        let listed = listed.ok_or_else(|| {
            let message = format!("a request with the {QUERY_ID} {} is running", self.id);
            HttpError::new(StatusCode::CONFLICT, message)
        })?;
        let _ = self
            .caller
            .record
            .activity
            .set(Arc::clone(&listed.activity));
        let limits = &self.caller.settings.config.limits;
        let permit = state.admission.admit(&client, limits).await;
        self.caller
            .record
            .set_queued(listed.activity.started.elapsed());
        let permit = match permit {
            Ok(permit) => permit,
            Err(shed) => {
                drop(listed);
                if shed != Shed::Late {
                    tokio::time::sleep(REFUSAL_TIME).await;
                }
                return Err(self.shed(shed, limits.queue_time));
            }
        };
        listed.activity.begin();
        Ok(Turn {
            listed,
            _permit: permit,
        })
    }

    /// What a query of this request may use.
    pub(crate) fn query_options(&self, turn: &Turn, limits: &RequestLimits) -> QueryOptions {
        QueryOptions {
            timeout: Some(limits.timeout),
            cancel: Some(Arc::clone(&turn.listed.activity.cancel)),
            memory_bytes: limits.memory_bytes,
            row_limit: limits.rows,
            visible: self.access.read.clone(),
            service: Some(self.caller.settings.outbound.service()),
            ..QueryOptions::default()
        }
    }

    /// What an update of this request may use.
    pub(crate) fn update_options(&self, turn: &Turn, limits: &RequestLimits) -> UpdateOptions {
        UpdateOptions {
            query: self.query_options(turn, limits),
            writable: self.access.write.clone(),
            load: Some(self.caller.settings.outbound.load()),
        }
    }

    /// The server's limits, for requests that lower none.
    pub(crate) fn limits(&self) -> RequestLimits {
        RequestLimits::of(&self.caller.settings.config.limits)
    }

    fn shed(&self, shed: Shed, waited: Duration) -> HttpError {
        let seconds = self.caller.state.admission.retry_after();
        let (reason, status, message) = match shed {
            Shed::Full => (
                ShedReason::QueueFull,
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is busy and its queue is full; try again later".to_owned(),
            ),
            Shed::ClientFull => (
                ShedReason::ClientQueueFull,
                StatusCode::TOO_MANY_REQUESTS,
                "you have too many requests waiting; try again later".to_owned(),
            ),
            Shed::Late => (
                ShedReason::QueueTime,
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the server was too busy for {waited:?}; try again later"),
            ),
        };
        self.caller.state.operations.metrics.shed(reason);
        HttpError::later(status, message, seconds)
    }
}
