//! Authentication, and what each user may do.
//!
//! ```text
//! Authorization → basic: user, password → argon2 ─┐
//!               → bearer: token → hash known ─────┼→ Identity (roles) ── dataset ──→ Access
//!                         JWT → key of a file ────┘                                (graphs to read
//! none          → the anonymous role ─────────────┘                                 and to write)
//! ```
//!
//! An [`Access`] is not checked after the fact: queries and updates run with its rules, so that graphs that are
//! not visible do not exist for them.

mod attempts;
mod basic;
pub(crate) mod config;
mod jwt;
mod origin;
mod password;
mod remembered;
mod role;
mod token;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode, request::Parts};
use pythia::GraphRules;

use self::attempts::Attempts;
use self::config::SecurityConfig;
use self::jwt::SignedTokens;
use self::password::Passwords;
use self::remembered::{Remembered, Scheme};
use self::role::{Role, Roles};
use self::token::Tokens;
use crate::config::Limits;
use crate::protocol::error::HttpError;
use crate::protocol::parameters::RequestLimits;

pub use self::password::hash_password;
pub(crate) use self::role::Access;
pub use self::token::new_token;

/// Time for which a signed token is accepted before it is checked again.
const SIGNED_TIME: Duration = Duration::from_secs(60);

/// Authenticates requests.
pub(crate) struct Auth {
    /// Users and their credentials; `None` if everybody may do everything.
    known: Option<Accounts>,
    /// True if the configuration says that everybody may do everything (`security.open`).
    is_open_to_all: bool,
}

/// The configured users, tokens and roles.
struct Accounts {
    users: HashMap<String, Identity>,
    passwords: Passwords,
    tokens: Tokens,
    signed: Option<SignedTokens>,
    roles: Roles,
    anonymous: Identity,
    remembered: Remembered<Identity>,
    attempts: Attempts,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The user's name; `None` if the request is anonymous.
    pub(crate) user: Option<Arc<str>>,
    /// The user's roles; `None` if everything is allowed.
    roles: Option<Arc<[Arc<Role>]>>,
    /// True if the credentials are a token, which a browser does not send by itself.
    is_deliberate: bool,
    /// True if a page of another origin sent the request in the user's name.
    is_foreign: bool,
    /// The schemes to offer in `WWW-Authenticate`.
    challenges: Challenges,
}

/// The authentication schemes that a server accepts.
#[derive(Clone, Copy, Debug, Default)]
struct Challenges {
    basic: bool,
    bearer: bool,
}

impl Auth {
    /// Makes an authenticator from the configuration.
    ///
    /// # Errors
    /// The mistake in the configuration, or in the files it names.
    pub(crate) fn new(config: &SecurityConfig) -> Result<Self, String> {
        let known = match config.is_empty() {
            true => None,
            false => Some(Accounts::new(config).map_err(|wrong| format!("security: {wrong}"))?),
        };
        Ok(Self {
            known,
            is_open_to_all: config.open,
        })
    }

    /// Returns whether everybody may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.known.is_none()
    }

    /// Checks that the server may listen at these addresses: without access control, other machines may reach it
    /// only if `security.open` is set.
    pub(crate) fn check_bind(&self, addresses: &[SocketAddr]) -> Result<(), String> {
        let is_local = |address: &&SocketAddr| address.ip().to_canonical().is_loopback();
        match addresses.iter().find(|address| !is_local(address)) {
            Some(address) if self.is_open() && !self.is_open_to_all => Err(format!(
                "everybody who reaches {address} could read and change everything: configure access \
                 ([security]), or allow this with security.open = true"
            )),
            _ => Ok(()),
        }
    }

    /// Checks that this configuration may replace `old` while the server runs. A file that has lost its table
    /// `security`, or was read while it was being written, must not open the server.
    ///
    /// # Errors
    /// The advice to the operator.
    pub(crate) fn check_succeeds(&self, old: &Self) -> Result<(), String> {
        if old.is_open() || !self.is_open() || self.is_open_to_all {
            return Ok(());
        }
        Err(
            "[security] no longer names a user, token, role or key, so everybody could read and change \
             everything: put it back, or allow this with security.open = true"
                .to_owned(),
        )
    }

    /// Authenticates a request. Checking a password for the first time takes tens of milliseconds.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Identity, HttpError> {
        let Some(known) = &self.known else {
            return Ok(Identity::everybody());
        };
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return Ok(known.anonymous.clone());
        };
        let text = value.to_str().ok().filter(|_| values.next().is_none());
        let (scheme, credentials) = text
            .and_then(|text| text.trim().split_once(' '))
            .ok_or_else(|| known.unknown("the Authorization header cannot be read", false))?;
        let takes = known.anonymous.challenges;
        match scheme.to_ascii_lowercase().as_str() {
            "basic" if takes.basic => known.basic(credentials.trim(), peer).await,
            "bearer" if takes.bearer => known.bearer(credentials.trim(), peer),
            _ => Err(known.unknown(
                "this server does not accept this kind of credentials",
                false,
            )),
        }
    }
}

impl Accounts {
    fn new(config: &SecurityConfig) -> Result<Self, String> {
        let roles = Roles::new(&config.roles)?;
        let mut users = HashMap::new();
        let passwords = Passwords::new(&config.users)?;
        for user in &config.users {
            let named = roles.named(&user.roles, &format!("user {}", user.name))?;
            users.insert(user.name.clone(), Identity::named(&user.name, named));
        }
        let tokens = Tokens::new(&config.tokens, &roles)?;
        let anonymous = roles.named(config.anonymous.as_slice(), "anonymous")?;
        let signed = config.jwt.as_ref().map(SignedTokens::new).transpose()?;
        let challenges = Challenges {
            basic: !passwords.is_empty(),
            bearer: !tokens.is_empty() || signed.is_some(),
        };
        Ok(Self {
            anonymous: Identity {
                user: None,
                roles: Some(anonymous),
                is_deliberate: false,
                is_foreign: false,
                challenges,
            },
            users,
            passwords,
            tokens,
            signed,
            roles,
            remembered: Remembered::new(),
            attempts: Attempts::new(config.failures_per_minute.max(1)),
        })
    }

    async fn basic(&self, credentials: &str, peer: IpAddr) -> Result<Identity, HttpError> {
        let now = Instant::now();
        let key = self.remembered.key(Scheme::Basic, credentials.as_bytes());
        if let Some(identity) = self.remembered.get(&key, now) {
            return Ok(identity);
        }
        let (user, password) = basic::parse(credentials).ok_or_else(|| {
            self.unknown("the credentials are not user:password in base64", false)
        })?;
        self.begin(peer, now)?;
        let is_right = self.passwords.check(&user, &password).await;
        let Some(identity) = self.users.get(&user).filter(|_| is_right) else {
            return Err(self.unknown("wrong user name or password", false));
        };
        self.attempts.succeeded(peer);
        self.remembered
            .put(key, identity.clone(), now + remembered::TIME, now);
        Ok(identity.clone())
    }

    fn bearer(&self, token: &str, peer: IpAddr) -> Result<Identity, HttpError> {
        let now = Instant::now();
        if let Some(identity) = self.tokens.find(token) {
            return Ok(Identity {
                is_deliberate: true,
                ..identity.clone()
            });
        }
        let key = self.remembered.key(Scheme::Bearer, token.as_bytes());
        if let Some(identity) = self.remembered.get(&key, now) {
            return Ok(identity);
        }
        self.begin(peer, now)?;
        let claims = match &self.signed {
            Some(signed) => signed.check(token),
            None => Err("unknown token"),
        };
        let claims = claims.map_err(|wrong| self.unknown(wrong, true))?;
        self.attempts.succeeded(peer);
        let names: Vec<&str> = claims.roles.iter().map(String::as_str).collect();
        let identity = Identity {
            is_deliberate: true,
            ..Identity::named(&claims.user, self.roles.known(&names))
        };
        let left = claims.expires.duration_since(SystemTime::now());
        let until = now + left.unwrap_or_default().min(SIGNED_TIME);
        self.remembered.put(key, identity.clone(), until, now);
        Ok(identity)
    }

    fn begin(&self, peer: IpAddr, now: Instant) -> Result<(), HttpError> {
        self.attempts.begin(peer, now).map_err(|seconds| {
            HttpError::later(
                StatusCode::TOO_MANY_REQUESTS,
                "too many failed authentications; try again later",
                seconds,
            )
        })
    }

    /// Returns the error for credentials that were not accepted.
    fn unknown(&self, message: &'static str, is_token: bool) -> HttpError {
        let wrong = is_token.then_some(message);
        self.anonymous
            .challenges
            .unauthorized(message.to_owned(), wrong)
    }
}

impl Challenges {
    fn unauthorized(self, message: String, wrong_token: Option<&'static str>) -> HttpError {
        let mut error = HttpError::new(StatusCode::UNAUTHORIZED, message);
        if self.basic {
            let basic = HeaderValue::from_static("Basic realm=\"pythia\", charset=\"UTF-8\"");
            error = error.with_header(WWW_AUTHENTICATE, basic);
        }
        if self.bearer {
            let bearer = match wrong_token {
                None => "Bearer realm=\"pythia\"".to_owned(),
                Some(wrong) => format!(
                    "Bearer realm=\"pythia\", error=\"invalid_token\", error_description=\"{wrong}\""
                ),
            };
            let bearer = HeaderValue::from_str(&bearer).expect("our own words");
            error = error.with_header(WWW_AUTHENTICATE, bearer);
        }
        error
    }
}

impl Identity {
    /// Returns the identity of every request where everybody may do everything.
    fn everybody() -> Self {
        Self {
            user: None,
            roles: None,
            is_deliberate: false,
            is_foreign: false,
            challenges: Challenges::default(),
        }
    }

    /// Returns the identity of programs on this machine that know the server's own token.
    pub(crate) fn owner() -> Self {
        Self {
            user: Some("local".into()),
            is_deliberate: true,
            ..Self::everybody()
        }
    }

    fn named(user: &str, roles: Arc<[Arc<Role>]>) -> Self {
        Self {
            user: Some(user.into()),
            roles: Some(roles),
            is_deliberate: false,
            is_foreign: false,
            challenges: Challenges::default(),
        }
    }

    /// Returns what this user may do with a dataset.
    pub(crate) fn access(&self, dataset: &str) -> Access {
        let access = match &self.roles {
            None => Access::all(),
            Some(roles) => Access::of(roles, dataset),
        };
        match self.is_foreign {
            false => access,
            true => Access {
                write: GraphRules::none(),
                admin: false,
                ..access
            },
        }
    }

    /// Returns the limits of this user's requests to a dataset.
    pub(crate) fn limits(&self, dataset: &str, server: &Limits) -> RequestLimits {
        match &self.roles {
            None => RequestLimits::of(server),
            Some(roles) => RequestLimits::of_roles(roles, dataset, server),
        }
    }

    /// Returns the same identity for this very request: a page of another origin may change nothing with a
    /// password that the browser adds by itself, nor where everybody may do everything.
    #[must_use]
    pub(crate) fn asking_by(self, request: &Parts, origins: &[String]) -> Self {
        let authority = request.uri.authority();
        let is_foreign =
            !self.is_deliberate && origin::is_foreign(&request.headers, authority, origins);
        Self { is_foreign, ..self }
    }

    /// Returns whether a page of another origin sent the request, perhaps without the user's knowledge.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Makes the error of something that is not permitted: 401 with a challenge for anonymous requests, else 403.
    pub(crate) fn refuse(&self, what: &str) -> HttpError {
        match &self.user {
            None if self.challenges.basic || self.challenges.bearer => self
                .challenges
                .unauthorized(format!("{what} needs authentication"), None),
            _ => HttpError::new(
                StatusCode::FORBIDDEN,
                format!("{what} is not permitted: none of your roles allows it"),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
