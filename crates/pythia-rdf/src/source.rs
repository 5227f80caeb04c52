//! Sources of RDF: files, plain or compressed, and standard input, read as streams of text.
//!
//! A source counts the bytes read from the file itself, so that progress and error messages give positions that
//! the user can look up. Nothing here holds more than a buffer of the file in memory.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oxrdf::NamedNode;

use crate::error::ParseError;
use crate::format::{Compression, RdfFormat, detect};

const BUFFER_BYTES: usize = 256 << 10;

/// Input to parse: a stream of text in a format.
pub struct Source {
    /// Name used in messages: the path, or `<stdin>`.
    pub name: String,
    /// Stream of the text, after decompression.
    pub reader: Box<dyn Read + Send>,
    /// Format of the text.
    pub format: RdfFormat,
    /// IRI against which relative IRIs are resolved, in formats that have them.
    pub base: Option<String>,
    /// Graph into which triples are put instead of the default graph.
    pub graph: Option<NamedNode>,
    /// Number `n` of the prefix `d{n}_` for blank node labels, which separates the blank nodes of several files.
    /// `None` keeps the labels unchanged.
    pub blank_node_scope: Option<u64>,
    size_bytes: Option<u64>,
    bytes_read: Arc<AtomicU64>,
}

impl Source {
    /// Opens a file. If the format or compression is not given, it is taken from the file name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or if its format is neither given nor clear from the name.
    pub fn from_path(
        path: &Path,
        format: Option<RdfFormat>,
        compression: Option<Compression>,
    ) -> Result<Self, ParseError> {
        let name = path.display().to_string();
        let (by_name, compression_by_name) = detect(path);
        let format = format.or(by_name).ok_or_else(|| ParseError::Format {
            source_name: name.clone(),
            message: "the file name does not tell the format; name it, for example --format nt"
                .to_owned(),
        })?;
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "it is a directory",
                ));
            }
            Ok((file, metadata.is_file().then_some(metadata.len())))
        });
        let (file, size_bytes) = opened.map_err(|error| ParseError::Io {
            source_name: name.clone(),
            read: 0,
            text: 0,
            error,
        })?;
        let mut source = Self::from_reader(
            name,
            file,
            format,
            compression.unwrap_or(compression_by_name),
        )?;
        source.size_bytes = size_bytes;
        Ok(source)
    }

    /// Returns a source for standard input. The format must be given; the first bytes tell the compression.
    ///
    /// # Errors
    /// Returns an error if the first bytes cannot be read, or if the decompressor cannot be set up.
    pub fn from_stdin(format: RdfFormat) -> Result<Self, ParseError> {
        Self::from_stream("<stdin>".to_owned(), io::stdin(), format)
    }

    /// Returns a source for a stream of bytes, whose first bytes tell the compression. `name` is used in messages.
    ///
    /// # Errors
    /// As [`Self::from_stdin`].
    pub fn from_stream(
        name: String,
        mut reader: impl Read + Send + 'static,
        format: RdfFormat,
    ) -> Result<Self, ParseError> {
        let mut start = Vec::with_capacity(Compression::SIGNATURE_BYTES);
        let signature = Compression::SIGNATURE_BYTES as u64;
        if let Err(error) = reader.by_ref().take(signature).read_to_end(&mut start) {
            return Err(ParseError::Io {
                source_name: name,
                read: 0,
                text: 0,
                error,
            });
        }
        let compression = Compression::of_signature(&start);
        let whole = io::Cursor::new(start).chain(reader);
        Self::from_reader(name, whole, format, compression)
    }

    /// Returns a source for any stream of bytes. `name` is used in messages.
    ///
    /// # Errors
    /// Returns an error if the decompressor cannot be set up.
    pub fn from_reader(
        name: String,
        reader: impl Read + Send + 'static,
        format: RdfFormat,
        compression: Compression,
    ) -> Result<Self, ParseError> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = CountingReader {
            inner: reader,
            count: Arc::clone(&bytes_read),
        };
        let reader = decompress(counted, compression).map_err(|error| ParseError::Io {
            source_name: name.clone(),
            read: 0,
            text: 0,
            error,
        })?;
        Ok(Self {
            name,
            reader,
            format,
            base: None,
            graph: None,
            blank_node_scope: None,
            size_bytes: None,
            bytes_read,
        })
    }

    /// Sets the IRI against which relative IRIs are resolved.
    #[must_use]
    pub fn with_base(mut self, base: Option<String>) -> Self {
        self.base = base;
        self
    }

    /// Sets the graph into which triples are put instead of the default graph.
    #[must_use]
    pub fn with_graph(mut self, graph: Option<NamedNode>) -> Self {
        self.graph = graph;
        self
    }

    /// Sets the number `n` of the prefix `d{n}_` for blank node labels.
    #[must_use]
    pub fn with_blank_node_scope(mut self, scope: Option<u64>) -> Self {
        self.blank_node_scope = scope;
        self
    }

    /// Returns the size of the file before decompression, or `None` for streams.
    pub fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// Returns the counter of bytes read from the file so far, before decompression. It is shared and grows while
    /// the source is parsed.
    pub fn bytes_read(&self) -> &Arc<AtomicU64> {
        &self.bytes_read
    }

    /// Returns the prefix of all blank node labels.
    pub(crate) fn blank_node_prefix(&self) -> String {
        self.blank_node_scope
            .map_or_else(String::new, |scope| format!("d{scope}_"))
    }
}

/// Reader that counts the bytes that pass, for other threads.
struct CountingReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn decompress(
    reader: impl Read + Send + 'static,
    compression: Compression,
) -> io::Result<Box<dyn Read + Send>> {
    let buffered = |reader| BufReader::with_capacity(BUFFER_BYTES, reader);
    Ok(match compression {
        Compression::None => Box::new(reader),
        Compression::Gzip => Box::new(Named {
            inner: flate2::bufread::MultiGzDecoder::new(buffered(reader)),
            what: "gzip",
        }),
        Compression::Bzip2 => Box::new(Named {
            inner: bzip2::bufread::MultiBzDecoder::new(buffered(reader)),
            what: "bzip2",
        }),
        Compression::Zstd => Box::new(Named {
            inner: zstd::stream::read::Decoder::with_buffer(buffered(reader))?,
            what: "zstd",
        }),
    })
}

/// Reader that adds the kind of compression to error messages.
struct Named<R> {
    inner: R,
    what: &'static str,
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let what = self.what;
            if error.raw_os_error().is_some() {
                error
            } else if error.kind() == io::ErrorKind::UnexpectedEof {
                io::Error::new(error.kind(), format!("the {what} data is cut short"))
            } else {
                io::Error::new(error.kind(), format!("broken {what} data: {error}"))
            }
        })
    }
}
