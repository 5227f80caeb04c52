//! One connection that sends requests repeatedly. Requests are prepared, and answers are only counted, because client
//! and server share a machine.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::TcpStreamExt;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Options;

/// Maximum length of a line of a head.
const LINE_BYTES: u64 = 64 << 10;

/// Returns a query by GET, as clients send short ones.
pub(super) fn query(options: &Options, text: &str) -> Vec<u8> {
    let query = utf8_percent_encode(text, NON_ALPHANUMERIC);
    format!(
        "GET {}/query?query={query} HTTP/1.1\r\nHost: {}\r\n\
         Accept: application/sparql-results+json, application/n-triples;q=0.9\r\n\r\n",
        options.dataset, options.address
    )
    .into_bytes()
}

/// Returns an update by POST.
pub(super) fn update(options: &Options, text: &str) -> Vec<u8> {
    let path = format!("{}/update", options.dataset);
    post(options.address, &path, "application/sparql-update", text)
}

/// Returns a POST request with a body.
pub(crate) fn post(address: SocketAddr, path: &str, media_type: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {media_type}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The recorded facts of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) has_retry_after: bool,
    pub(crate) bytes: u64,
}

/// A connection that is opened on demand.
pub(crate) struct Connection {
    address: SocketAddr,
    patience: Duration,
    stream: Option<BufReader<Prompt>>,
}

/// A stream that acknowledges at once. A server that writes head and body apart would otherwise wait up to 40 ms for
/// the delayed acknowledgement, which is the client's doing.
struct Prompt(TcpStream);

impl Read for Prompt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.set_quickack(true)?;
        self.0.read(buffer)
    }
}

impl Connection {
    pub(crate) fn new(address: SocketAddr, patience: Duration) -> Self {
        Self {
            address,
            patience,
            stream: None,
        }
    }

    /// Returns whether the next request uses the connection of the previous one.
    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Sends a request and counts its answer. After an error, the next request uses a new connection.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.ask_into(request, &mut io::sink())
    }

    /// Does the same as [`Self::ask`] and writes the body of the answer to `to`.
    pub(crate) fn ask_into(&mut self, request: &[u8], to: &mut impl Write) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        stream.get_mut().0.write_all(request)?;
        let (answer, is_kept) = read(&mut stream, to)?;
        if is_kept {
            self.stream = Some(stream);
        }
        Ok(answer)
    }

    fn connect(&self) -> io::Result<BufReader<Prompt>> {
        let stream = TcpStream::connect_timeout(&self.address, self.patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        Ok(BufReader::with_capacity(32 << 10, Prompt(stream)))
    }
}

/// The framing of a body.
enum Length {
    Known(u64),
    Chunked,
    /// Up to the end of the connection.
    Open,
}

/// Reads an answer and writes its body to `to`. Also returns whether the connection stays open.
pub(super) fn read(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<(Answer, bool)> {
    let mut line = Vec::new();
    read_line(from, &mut line)?;
    let status = line.get(9..12).and_then(|status| {
        let status = std::str::from_utf8(status).ok()?;
        status.parse().ok()
    });
    let status = status.ok_or_else(|| invalid("no status"))?;
    let mut length = Length::Open;
    let mut is_kept = true;
    let mut has_retry_after = false;
    loop {
        read_line(from, &mut line)?;
        if line.is_empty() {
            break;
        }
        line.make_ascii_lowercase();
        if let Some(value) = line.strip_prefix(b"content-length:") {
            length = Length::Known(number(value, 10)?);
        } else if line.starts_with(b"transfer-encoding:") {
            length = Length::Chunked;
        } else if line.starts_with(b"retry-after:") {
            has_retry_after = true;
        } else if line == b"connection: close" {
            is_kept = false;
        }
    }
    let bytes = match length {
        _ if status == 204 => 0,
        Length::Known(bytes) => {
            copy(from, bytes, to)?;
            bytes
        }
        Length::Chunked => read_chunks(from, &mut line, to)?,
        Length::Open => {
            is_kept = false;
            io::copy(from, to)?
        }
    };
    let answer = Answer {
        status,
        has_retry_after,
        bytes,
    };
    Ok((answer, is_kept))
}

fn read_chunks(
    from: &mut impl BufRead,
    line: &mut Vec<u8>,
    to: &mut impl Write,
) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        read_line(from, line)?;
        let size = number(line, 16)?;
        if size == 0 {
            // Trailers, up to the empty line.
            while !line.is_empty() {
                read_line(from, line)?;
            }
            return Ok(bytes);
        }
        copy(from, size, to)?;
        copy(from, 2, &mut io::sink())?;
        bytes += size;
    }
}

/// Reads a line without its end.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    Read::take(from, LINE_BYTES).read_until(b'\n', line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.pop_if(|last| *last == b'\r');
    Ok(())
}

fn copy(from: &mut impl BufRead, mut bytes: u64, to: &mut impl Write) -> io::Result<()> {
    while bytes > 0 {
        let there = from.fill_buf()?;
        if there.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = (there.len()).min(usize::try_from(bytes).unwrap_or(usize::MAX));
        to.write_all(&there[..taken])?;
        from.consume(taken);
        bytes -= taken as u64;
    }
    Ok(())
}

fn number(text: &[u8], radix: u32) -> io::Result<u64> {
    let text = std::str::from_utf8(text).map_err(|_| invalid("no number"))?;
    let text = text.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(text, radix).map_err(|_| invalid("no number"))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
