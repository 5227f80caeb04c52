//! A writer that a serializer holds while its output is flushed or taken.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// A writer with several handles.
pub(crate) struct Shared<W>(Rc<RefCell<W>>);

impl<W> Shared<W> {
    pub(crate) fn new(out: W) -> Self {
        Self(Rc::new(RefCell::new(out)))
    }

    /// Returns another handle of the writer.
    pub(crate) fn handle(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl Shared<Vec<u8>> {
    /// Returns the text that was written since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
