//! Compression of what is written.

use std::io::{self, Write};

use crate::format::Compression;

/// The level of zstd: files as small as gzip's, many times as fast.
const ZSTD_LEVEL: i32 = 3;

/// Writer that compresses into another one.
///
/// ```
/// use std::io::Write;
/// use pythia_rdf::{Compression, Compressor};
///
/// let mut writer = Compressor::new(Vec::new(), Compression::Gzip)?;
/// writer.write_all(b"<a:a> <a:a> <a:a> .\n")?;
/// let bytes = writer.finish()?;
/// assert_eq!(Compression::of_signature(&bytes), Compression::Gzip);
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct Compressor<W: Write>(Kind<W>);

enum Kind<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Bzip2(bzip2::write::BzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    /// Starts a stream.
    ///
    /// # Errors
    /// Returns an error if the compressor cannot be set up.
    pub fn new(out: W, compression: Compression) -> io::Result<Self> {
        Ok(Self(match compression {
            Compression::None => Kind::None(out),
            Compression::Gzip => Kind::Gzip(flate2::write::GzEncoder::new(out, Default::default())),
            Compression::Bzip2 => {
                Kind::Bzip2(bzip2::write::BzEncoder::new(out, Default::default()))
            }
            Compression::Zstd => Kind::Zstd(zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?),
        }))
    }

    /// Ends the stream and returns the inner writer. Without it, readers find the data cut short.
    ///
    /// # Errors
    /// Returns an error if the inner writer fails.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Kind::None(out) => Ok(out),
            Kind::Gzip(out) => out.finish(),
            Kind::Bzip2(out) => out.finish(),
            Kind::Zstd(out) => out.finish(),
        }
    }

    fn inner(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            Kind::None(out) => out,
            Kind::Gzip(out) => out,
            Kind::Bzip2(out) => out,
            Kind::Zstd(out) => out,
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner().flush()
    }
}
