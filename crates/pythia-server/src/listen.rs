//! Connections: accepts, encrypts and serves them, and closes them in time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::Version;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::RwLock;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, Limits, Tls};
use crate::context::ServerContext;
use crate::exchange::{Hangup, Peer};
use crate::protocol::Service;
use crate::server::ServerError;
use crate::stall::Stalling;
use crate::workers::Workers;

/// Limit on concurrent streams of one HTTP/2 connection.
const STREAMS: u32 = 100;
/// Limit on a request's head beyond the URL, in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// Limit on the headers of a request.
const HEADERS: usize = 100;
/// Time that clients have to read the rest of cancelled answers when the server stops.
const LAST_TIME: Duration = Duration::from_secs(5);

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    socket: TcpListener,
    tls: Option<Arc<Keys>>,
}

/// A TLS certificate and key. They may be replaced while the server runs.
pub(crate) struct Keys {
    config: RwLock<Arc<rustls::ServerConfig>>,
}

/// Listens on the configured addresses.
pub(crate) async fn listen(config: &Config) -> Result<Vec<Listener>, ServerError> {
    let tls = match &config.tls {
        Some(tls) => Some(Arc::new(Keys {
            config: RwLock::new(Arc::new(keys(tls)?)),
        })),
        None => None,
    };
    let mut listeners = Vec::new();
    for address in &config.bind {
        let failed = |error| ServerError::Listen {
            address: *address,
            error,
        };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        listeners.push(Listener {
            address: socket.local_addr().map_err(failed)?,
            socket,
            tls: tls.clone(),
        });
    }
    Ok(listeners)
}

impl Listener {
    /// Returns the certificate and key, if connections are encrypted.
    pub(crate) fn keys(&self) -> Option<Arc<Keys>> {
        self.tls.clone()
    }
}

impl Keys {
    /// Reads the files again. New connections use the new certificate.
    pub(crate) fn reload(&self, tls: &Tls) -> Result<(), ServerError> {
        *self.config.write() = Arc::new(keys(tls)?);
        Ok(())
    }
}

/// Reads a certificate and its key.
pub(crate) fn keys(tls: &Tls) -> Result<rustls::ServerConfig, ServerError> {
    let wrong = |path: &Path, message: String| ServerError::Tls {
        path: path.display().to_string(),
        message,
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| wrong(&tls.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has all of them")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&tls.certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves until asked to stop. Running requests then have the grace time; after it they are cancelled.
pub(crate) async fn serve(
    listeners: Vec<Listener>,
    service: Service,
    context: Arc<ServerContext>,
    workers: Arc<Workers>,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = Arc::new(GracefulShutdown::new());
    let room = Arc::new(Semaphore::new(context.settings().config.limits.connections));
    let mut accepting = Vec::new();
    for listener in listeners {
        let acceptor = Acceptor {
            listener,
            service: service.clone(),
            context: Arc::clone(&context),
            workers: Arc::clone(&workers),
            room: Arc::clone(&room),
        };
        accepting.push(tokio::spawn(
            acceptor.run(stop.clone(), Arc::clone(&graceful)),
        ));
    }
    // The sender lives as long as the server's handle or the server itself.
    let _ = stop.wait_for(|stop| *stop).await;
    context.drain();
    for task in accepting {
        let _ = task.await;
    }
    let graceful = Arc::into_inner(graceful).expect("those who accept have ended");
    let grace = context.settings().config.limits.grace_time;
    let mut ended = std::pin::pin!(graceful.shutdown());
    if tokio::time::timeout(grace, &mut ended).await.is_err() {
        context.running.cancel_all();
        let _ = tokio::time::timeout(LAST_TIME, ended).await;
    }
}

/// Accepts connections of one listener.
struct Acceptor {
    listener: Listener,
    service: Service,
    context: Arc<ServerContext>,
    workers: Arc<Workers>,
    /// One permit for each connection that may be open.
    room: Arc<Semaphore>,
}

impl Acceptor {
    async fn run(self, mut stop: watch::Receiver<bool>, graceful: Arc<GracefulShutdown>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer, room)) => {
                    self.connect(stream, peer.ip(), room, graceful.watcher());
                }
                // Usually the process is out of file descriptors: other connections have to close first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.expect("it is never closed");
        let (stream, peer) = self.listener.socket.accept().await?;
        Ok((stream, peer, room))
    }

    fn connect(
        &self,
        stream: TcpStream,
        address: IpAddr,
        room: OwnedSemaphorePermit,
        graceful: Watcher,
    ) {
        let _ = stream.set_nodelay(true);
        // The worker's runtime watches it from here on.
        let Ok(stream) = stream.into_std() else {
            return;
        };
        let service = self.service.clone();
        let settings = self.context.settings();
        let open = self.context.operations.metrics.connected();
        let tls = self
            .listener
            .tls
            .as_ref()
            .map(|keys| Arc::clone(&keys.config.read()));
        let peer = move |is_encrypted| Peer {
            address,
            is_encrypted,
        };
        self.workers.serve(async move {
            let Ok(stream) = TcpStream::from_std(stream) else {
                return;
            };
            let limits = &settings.config.limits;
            match tls {
                None => talk(stream, peer(false), service, limits, graceful).await,
                Some(tls) => {
                    let shake = TlsAcceptor::from(tls).accept(stream);
                    // A client that fails the TLS handshake gets no answer: there is no way to send one.
                    if let Ok(Ok(stream)) = tokio::time::timeout(limits.header_time, shake).await {
                        talk(stream, peer(true), service, limits, graceful).await;
                    }
                }
            }
            drop((room, open));
        });
    }
}

/// Serves one connection.
async fn talk<S>(stream: S, peer: Peer, service: Service, limits: &Limits, graceful: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    let head_bytes = limits.url_bytes + HEAD_BYTES;
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(HEADERS)
        .max_buf_size(head_bytes.max(8 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.stall_time)
        .keep_alive_timeout(limits.stall_time);
    let has_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&has_asked);
    let hangup = Hangup::default();
    let mine = hangup.clone();
    let answer = service_fn(move |mut request: http::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        if request.version() < Version::HTTP_2 {
            request.extensions_mut().insert(mine.clone());
        }
        let service = service.clone();
        async move {
            let response = service.answer(request.map(Body::new), peer).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let stream = TokioIo::new(Stalling::new(stream, limits.stall_time));
    let connection = builder.serve_connection(stream, answer);
    let mut connection = std::pin::pin!(graceful.watch(connection.into_owned()));
    // hyper's time limit for a head starts with its first byte, and only once the protocol is known. This one also
    // covers clients that send nothing or half a preface.
    let first = tokio::time::timeout(limits.header_time, &mut connection).await;
    if first.is_err() && has_asked.load(Ordering::Relaxed) {
        // Errors mean that the client has gone or that an answer was cut; both were recorded where they arose.
        tokio::select! {
            _ = connection => {}
            () = hangup.hung_up() => {}
        }
    }
}
