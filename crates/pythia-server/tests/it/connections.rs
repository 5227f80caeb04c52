//! HTTP/2, TLS and the end of a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::client::SendRequest;
use http::{Request, StatusCode};
use pythia_server::Server;
use pythia_server::config::{Config, DatasetConfig, Hosts, Tls};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::{self, Served};

const DATA: &str = "<urn:a> <urn:p> 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 .";

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let limited = tokio::time::timeout(Duration::from_secs(60), future);
        limited.await.expect("an answer in time")
    })
}

async fn http2(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> SendRequest<bytes::Bytes> {
    let (client, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    client.ready().await.expect("ready")
}

/// Status and body, or why the stream was reset.
async fn ask(
    client: &mut SendRequest<bytes::Bytes>,
    query: &str,
) -> (StatusCode, Result<Vec<u8>, h2::Error>) {
    let request = Request::post("http://localhost/query?timeout=0.3")
        .header("content-type", "application/sparql-query")
        .header("accept", "text/csv")
        .body(())
        .expect("a request");
    let (response, mut send) = client.send_request(request, false).expect("sent");
    send.send_data(bytes::Bytes::from(query.to_owned()), true)
        .expect("sent");
    let response = response.await.expect("an answer");
    let (status, mut body) = (response.status(), response.into_body());
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        match piece {
            Err(error) => return (status, Err(error)),
            Ok(piece) => {
                bytes.extend_from_slice(&piece);
                let taken = body.flow_control().release_capacity(piece.len());
                taken.expect("as much as came");
            }
        }
    }
    (status, Ok(bytes))
}

#[test]
fn http2_without_encryption() {
    let served = Served::with(DATA);
    block_on(async {
        let stream = TcpStream::connect(served.address).await.expect("connected");
        let mut client = http2(stream).await;
        let query = "SELECT ?o { ?s ?p ?o } ORDER BY ?o LIMIT 2";
        let (status, body) = ask(&mut client, query).await;
        assert_eq!(
            (status, body.unwrap()),
            (StatusCode::OK, b"o\r\n1\r\n2\r\n".to_vec())
        );
        let (status, body) = ask(&mut client, "SELECT").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(!body.unwrap().is_empty());
        // What is cut is reset, not ended; other streams go on.
        let (status, body) = ask(&mut client, &endless()).await;
        assert_eq!(status, StatusCode::OK);
        assert!(body.expect_err("it is reset").is_reset());
        assert_eq!(ask(&mut client, "ASK {}").await.1.unwrap(), b"true");
    });
}

/// A query with ten to the power of twenty solutions.
fn endless() -> String {
    let patterns: String = (0..20).map(|i| format!("?s{i} ?p{i} ?o{i} . ")).collect();
    format!("SELECT * {{ {patterns} }}")
}

/// A certificate for `localhost` and its key, in files; and what trusts it.
fn certificate(folder: &std::path::Path) -> (Tls, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let mut trusted = rustls::RootCertStore::empty();
    trusted.add(made.cert.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(trusted)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (
        Tls { certificate, key },
        TlsConnector::from(Arc::new(config)),
    )
}

#[test]
fn connections_are_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, connector) = certificate(folder.path());
    let served = Served::configured(DATA, |config| config.tls = Some(tls));
    block_on(async {
        let stream = TcpStream::connect(served.address).await.expect("connected");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = connector.connect(name, stream).await.expect("encrypted");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = http2(stream).await;
        assert_eq!(ask(&mut client, "ASK {}").await.1.unwrap(), b"true");
        // Relative IRIs are of encrypted places.
        let query = "SELECT (STR(<x>) AS ?o) {}";
        let (_, body) = ask(&mut client, query).await;
        assert_eq!(body.unwrap(), b"o\r\nhttps://localhost/x\r\n");
    });
}

/// Encrypted ports, and HTTP/2 with its `:authority`, know the same names as others.
#[test]
fn the_name_of_a_request_is_checked_on_encrypted_ports_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, connector) = certificate(folder.path());
    let served = Served::configured(DATA, |config| {
        config.tls = Some(tls);
        config.hosts = Hosts::parse(&["*.example"]).expect("names");
    });
    block_on(async {
        let stream = TcpStream::connect(served.address).await.expect("connected");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = connector.connect(name, stream).await.expect("encrypted");
        let mut client = http2(stream).await;
        for (host, header, expected) in [
            ("localhost", None, 200),
            ("a.example:7878", None, 200),
            ("evil.test", None, 421),
            ("localhost", Some("evil.test"), 421),
        ] {
            let mut request = Request::get(format!("https://{host}/$/ping"));
            if let Some(header) = header {
                request = request.header("host", header);
            }
            let request = request.body(()).expect("a request");
            let (response, _) = client.send_request(request, true).expect("sent");
            let status = response.await.expect("an answer").status();
            assert_eq!(status.as_u16(), expected, "{host} {header:?}");
        }
    });
}

#[test]
fn a_certificate_that_is_none_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    let config = |certificate: PathBuf, key: PathBuf| Config {
        bind: vec!["127.0.0.1:0".parse().expect("an address")],
        tls: Some(Tls { certificate, key }),
        ..Config::default()
    };
    for (certificate, key, named) in [
        (folder.path().join("none.pem"), tls.key.clone(), "none.pem"),
        (tls.key.clone(), tls.key.clone(), "key.pem"),
        (tls.certificate.clone(), tls.certificate.clone(), "cert.pem"),
    ] {
        let refused = Server::start(config(certificate, key)).err();
        let refused = refused.expect("refused").to_string();
        assert!(refused.contains(named), "{refused}");
    }
}

#[test]
fn names_of_datasets_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |names: &[&str]| {
        let datasets = names.iter().enumerate().map(|(number, name)| {
            let path = folder.path().join(format!("{number}-of-{}", names.len()));
            support::load(&path, "");
            DatasetConfig::new(*name, path)
        });
        Server::start(Config {
            bind: vec!["127.0.0.1:0".parse().expect("an address")],
            datasets: datasets.collect(),
            ..Config::default()
        })
    };
    for wrong in ["query", "a/b", "$", "", ".."] {
        assert!(start(&[wrong]).is_err(), "{wrong}");
    }
    assert!(start(&["a", "a"]).is_err());
    assert!(start(&["a", "b"]).is_ok());
}

#[test]
fn a_server_that_stops_lets_requests_end() {
    let served = Served::configured(DATA, |config| {
        config.limits.grace_time = Duration::from_millis(1500);
        config.limits.timeout = Duration::from_secs(60);
    });
    let count = |patterns: usize| {
        let patterns: String = (0..patterns)
            .map(|i| format!("?s{i} ?p{i} ?o{i} . "))
            .collect();
        let path = served.url("/query");
        std::thread::spawn(move || {
            let query = format!("SELECT (SUM(RAND()) AS ?n) {{ {patterns} FILTER(RAND() >= 0) }}");
            let agent: ureq::Agent = ureq::Agent::config_builder()
                .http_status_as_error(false)
                .build()
                .into();
            let response = agent
                .post(path)
                .header("content-type", "application/sparql-query");
            response.send(query).map(|response| response.status())
        })
    };
    let (short, long) = (count(5), count(20));
    std::thread::sleep(Duration::from_millis(100));
    let stopped = Instant::now();
    drop(served);
    assert_eq!(
        short.join().expect("asked").expect("answered"),
        StatusCode::OK
    );
    let long = long.join().expect("asked");
    assert!(long.is_err() || long.is_ok_and(|status| status == 503));
    assert!(stopped.elapsed() < Duration::from_secs(30));
}
