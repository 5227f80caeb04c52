//! One request to a dataset: its user, access, limits and turn.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, RawPathParams};
use http::StatusCode;
use http::request::Parts;
use pythia::{QueryOptions, UpdateOptions};
use rand::distr::{Alphanumeric, SampleString};
use tokio::sync::Notify;

use crate::admission::{Client, Shed, Slot};
use crate::auth::{Access, Identity};
use crate::context::{Dataset, Datasets, ServerContext, Settings};
use crate::operate::metrics::ShedReason;
use crate::operate::record::Record;
use crate::protocol::answer::{Company, Delivery};
use crate::protocol::caching::Tags;
use crate::protocol::error::HttpError;
use crate::protocol::parameters::RequestLimits;
use crate::running::ListedActivity;
use crate::workers;

/// The header with the id that a query is listed under.
pub(crate) const QUERY_ID: &str = "pythia-query-id";
/// Delay of a refusal when a queue is full. It costs nothing, and it slows down a client that retries at once:
/// without it, refusing takes more of a busy machine than answering.
const REFUSAL_TIME: Duration = Duration::from_millis(500);
/// Limit on the length of an id, in characters.
const ID_LENGTH: usize = 64;

/// The sender of a request, before any dataset is chosen. Handlers take it as an argument.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) identity: Identity,
    pub(crate) peer: IpAddr,
    /// Ends the connection, if it serves one request at a time.
    pub(crate) hangup: Option<Hangup>,
    pub(crate) record: Arc<Record>,
}

/// A request to a dataset, with the access of its user. Handlers take it as an argument.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) caller: Caller,
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) access: Access,
    /// The limits of the user's requests.
    pub(crate) limits: RequestLimits,
    /// The id that the request is listed under while it runs.
    pub(crate) id: Arc<str>,
}

/// The other end of a connection, put into each request where it is received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// True if the connection uses TLS.
    pub(crate) is_encrypted: bool,
}

/// Ends a connection whose answer was given up. hyper would notice only after the client has read what was sent.
/// Put into the requests of connections that serve one request at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hangup(Arc<Notify>);

impl Hangup {
    /// Ends the connection.
    pub(crate) fn hang_up(&self) {
        self.0.notify_one();
    }

    /// Waits until the connection is to end.
    pub(crate) async fn hung_up(&self) {
        self.0.notified().await;
    }
}

impl FromRequestParts<Arc<ServerContext>> for Caller {
    type Rejection = HttpError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<ServerContext>,
    ) -> Result<Self, Self::Rejection> {
        let settings = context.settings();
        let Peer { address: peer, .. } = *parts.extensions.get().expect("set where it is received");
        let record: &Arc<Record> = parts.extensions.get().expect("set where it is received");
        let record = Arc::clone(record);
        let announcements = &context.operations.announcements;
        let is_for_operators = parts.uri.path().starts_with("/$/");
        let identity = match is_for_operators && announcements.permits(&parts.headers)? {
            true => Identity::owner(),
            false => settings.auth.identify(&parts.headers, peer).await?,
        };
        let identity = identity.asking_by(parts, &settings.config.cors_origins);
        if let Some(user) = &identity.user {
            let _ = record.user.set(Arc::clone(user));
        }
        Ok(Self {
            context: Arc::clone(context),
            settings,
            identity,
            peer,
            hangup: parts.extensions.get().cloned(),
            record,
        })
    }
}

impl FromRequestParts<Arc<ServerContext>> for Exchange {
    type Rejection = HttpError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<ServerContext>,
    ) -> Result<Self, Self::Rejection> {
        let caller = Caller::from_request_parts(parts, context).await?;
        let path = RawPathParams::from_request_parts(parts, context)
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
        let datasets = context.datasets();
        let dataset = datasets.get(name).cloned();
        let asked: &str = match (&dataset, name) {
            (Some(dataset), _) => &dataset.name,
            (None, Some(name)) => name,
            (None, None) => "",
        };
        if dataset.is_none() && name.is_none() {
            let readable = readable(&datasets, &caller);
            if !readable.is_empty() {
                let path = parts.uri.path();
                return Err(HttpError::not_found(format!(
                    "no dataset is served at {path}, but {}; ask /{}{path}, or set `default = true` for one of them",
                    named(&readable),
                    readable[0],
                )));
            }
        }
        let access = caller.identity.access(asked);
        if access.is_none() {
            // The same answer for datasets that do not exist, which must not be revealed.
            return Err(caller.identity.refuse(&format!("the dataset {asked}")));
        }
        let dataset = dataset.ok_or_else(|| match name {
            Some(name) => {
                HttpError::not_found(format!("there is no dataset {name}; see /$/datasets"))
            }
            None => HttpError::not_found("this server has no dataset"),
        })?;
        let _ = caller.record.dataset.set(Arc::clone(&dataset.name));
        let server = &caller.settings.config.limits;
        let limits = caller.identity.limits(&dataset.name, server);
        Ok(Self {
            caller,
            dataset,
            access,
            limits,
            id,
        })
    }
}

/// Returns the names of the datasets that the caller may read.
fn readable(datasets: &Datasets, caller: &Caller) -> Vec<String> {
    let names = datasets.by_name.keys();
    let may_read = |name: &&String| !caller.identity.access(name).is_none();
    names.filter(may_read).cloned().collect()
}

/// Names datasets in a sentence: `a`, `a and b`, `a, b and c`. Of many, the first ones.
fn named(datasets: &[String]) -> String {
    /// Maximum number of datasets that are named.
    const NAMED_MAX: usize = 20;
    match datasets {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if datasets.len() <= NAMED_MAX => {
            format!("{} and {last}", first.join(", "))
        }
        _ => format!(
            "{} and {} others (see /$/datasets)",
            datasets[..NAMED_MAX].join(", "),
            datasets.len() - NAMED_MAX
        ),
    }
}

fn is_id(id: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=ID_LENGTH).contains(&id.len()) && id.chars().all(named)
}

impl Caller {
    /// Returns the queue this request waits in: its user, or its address if anonymous.
    pub(crate) fn client(&self) -> Client {
        match &self.identity.user {
            Some(user) => Client::User(Arc::clone(user)),
            None => Client::Address(self.peer),
        }
    }
}

/// A request that is listed and has its turn.
pub(crate) struct Turn {
    pub(crate) listed: ListedActivity,
    pub(crate) slot: Arc<Slot>,
}

impl Exchange {
    /// Lists a request as running, and waits for its turn.
    pub(crate) async fn turn(
        &self,
        operation: &'static str,
        text: &str,
    ) -> Result<Turn, HttpError> {
        let context = &self.caller.context;
        let _ = self.caller.record.operation.set(operation);
        if context.is_draining() {
            context.operations.metrics.shed(ShedReason::Stopping);
            return Err(HttpError::later(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is about to stop",
                5,
            ));
        }
        let client = self.caller.client();
        self.check_rate(&client)?;
        let (id, dataset) = (Arc::clone(&self.id), Arc::clone(&self.dataset.name));
        let listed = context.running.list(id, dataset, client.clone(), text);
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
        let slot = context.admission.admit(&client, limits).await;
        self.caller
            .record
            .set_queued(listed.activity.started.elapsed());
        let slot = match slot {
            Ok(slot) => Arc::new(slot),
            Err(shed) => {
                drop(listed);
                if shed != Shed::Late {
                    tokio::time::sleep(REFUSAL_TIME).await;
                }
                return Err(self.shed(shed, limits.queue_time));
            }
        };
        listed.activity.begin();
        Ok(Turn { listed, slot })
    }

    /// Counts the request against the client's rate limit, if it has one.
    fn check_rate(&self, client: &Client) -> Result<(), HttpError> {
        let Some(per_second) = self.limits.requests_per_second else {
            return Ok(());
        };
        let context = &self.caller.context;
        let taken = context.rates.take(client, per_second, Instant::now());
        taken.map_err(|seconds| {
            context.operations.metrics.shed(ShedReason::Rate);
            HttpError::later(
                StatusCode::TOO_MANY_REQUESTS,
                format!("you may send {per_second} requests per second; try again later"),
                seconds,
            )
        })
    }

    /// Returns which requests may wait for this one.
    pub(crate) fn company(&self) -> Company {
        let places = self.caller.settings.config.limits.running_per_client();
        let open = self.caller.context.operations.metrics.open_connections();
        match self.caller.hangup {
            Some(_) => Company::of(open as usize, places, workers::number()),
            // A connection of HTTP/2 sends many requests at once.
            None => Company::Many,
        }
    }

    /// Returns how the answer is delivered: the limits on what waits for the client, and the deadline.
    pub(crate) fn delivery(&self, turn: &Turn, timeout: Duration) -> Delivery {
        let limits = &self.caller.settings.config.limits;
        Delivery {
            database: Arc::clone(&self.dataset.database),
            slot: Arc::clone(&turn.slot),
            unread_bytes: limits.unread_bytes,
            bytes_per_second: limits.answer_bytes_per_second,
            window: 2 * limits.stall_time,
            deadline: Instant::now().checked_add(timeout),
            cancel: Arc::clone(&turn.listed.activity.cancel),
            hangup: self.caller.hangup.clone(),
            metrics: Arc::clone(&self.caller.context.operations.metrics),
            id: Arc::clone(&self.id),
            client: turn.listed.activity.client.clone(),
        }
    }

    /// Returns what makes the tags of answers to this user.
    pub(crate) fn tags(&self) -> Tags<'_> {
        Tags {
            store: self.dataset.database.store().id(),
            visible: &self.access.read,
        }
    }

    /// Returns whether the answer may be for this user alone: caches that others share must not keep it.
    pub(crate) fn is_private(&self) -> bool {
        self.caller.identity.user.is_some() || !self.access.read.is_all()
    }

    /// Returns the options for a query of this request.
    pub(crate) fn query_options(&self, turn: &Turn, limits: &RequestLimits) -> QueryOptions {
        QueryOptions {
            timeout: Some(limits.timeout),
            cancel: Some(Arc::clone(&turn.listed.activity.cancel)),
            memory_bytes: limits.memory_bytes,
            row_limit: limits.rows,
            visible: self.access.read.clone(),
            service: Some(self.caller.settings.outbound.service()),
            union_default_graph: self.dataset.config.union_default_graph,
            ..QueryOptions::default()
        }
    }

    /// Returns the options for an update of this request.
    pub(crate) fn update_options(&self, turn: &Turn, limits: &RequestLimits) -> UpdateOptions {
        UpdateOptions {
            query: self.query_options(turn, limits),
            writable: self.access.write.clone(),
            load: Some(self.caller.settings.outbound.load()),
            ..UpdateOptions::default()
        }
    }

    fn shed(&self, shed: Shed, waited: Duration) -> HttpError {
        let seconds = self.caller.context.admission.retry_after();
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
            Shed::Unread => (
                ShedReason::Unread,
                StatusCode::TOO_MANY_REQUESTS,
                "you have too many unread answers; read or close some of them first".to_owned(),
            ),
            Shed::Late => (
                ShedReason::QueueTime,
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the server was too busy for {waited:?}; try again later"),
            ),
        };
        self.caller.context.operations.metrics.shed(reason);
        HttpError::later(status, message, seconds)
    }
}
