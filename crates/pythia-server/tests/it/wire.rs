//! HTTP/1.1 written by hand: requests that a client library would not send, or would change.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any answer in a test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, sent as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query string.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends the request on its own connection and asks the server to close it.
    pub(crate) fn send(&self, address: SocketAddr) -> io::Result<Answer> {
        let mut connection = connect(address)?;
        connection.write_all(&self.bytes(address))?;
        read(&mut BufReader::new(connection), self.method == "HEAD")
    }

    fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n",
            self.method, self.target
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = match &self.body {
            Some(body) => format!("{head}Content-Length: {}\r\n\r\n", body.len()),
            None => format!("{head}\r\n"),
        }
        .into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The media type without parameters, in lower case; empty if none is given.
    pub(crate) fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        let media_type = value.split(';').next().unwrap_or_default();
        media_type.trim().to_ascii_lowercase()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection that gives up rather than wait for ever.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Reads one answer. One that is cut short is an error.
pub(crate) fn read(from: &mut impl BufRead, is_head: bool) -> io::Result<Answer> {
    loop {
        let line = line(from)?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or_else(|| invalid(format!("no status in {line:?}")))?;
        let headers = headers(from)?;
        if status == 100 {
            continue;
        }
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        if !is_head && !matches!(status, 204 | 304) {
            answer.body = body(from, &answer)?;
        }
        return Ok(answer);
    }
}

fn body(from: &mut impl BufRead, answer: &Answer) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = answer.header("content-length") {
        let length: usize = length
            .parse()
            .map_err(|_| invalid(format!("a length of {length:?}")))?;
        body.resize(length, 0);
        from.read_exact(&mut body)?;
    } else if answer.header("transfer-encoding").is_some() {
        while let Some(chunk) = chunk(from)? {
            body.extend(chunk);
        }
        headers(from)?;
    } else {
        from.read_to_end(&mut body)?;
    }
    Ok(body)
}

/// The next chunk; nothing at the last one, which is empty.
fn chunk(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let size = line(from)?;
    let size = usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16)
        .map_err(|_| invalid(format!("a chunk of {size:?} bytes")))?;
    if size == 0 {
        return Ok(None);
    }
    let mut chunk = vec![0; size + 2];
    from.read_exact(&mut chunk)?;
    chunk.truncate(size);
    Ok(Some(chunk))
}

fn headers(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = line(from)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| invalid(format!("no header: {line:?}")))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(1 << 16).read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the answer ends after {line:?}"),
        )),
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
