//! Files of the modelled device: their writes take the device's time.

use std::sync::Arc;

use super::Device;
use crate::IoError;
use crate::storage::{LogFile, WriteFile};

#[derive(Debug)]
pub(super) struct ModelledWriter {
    inner: Box<dyn WriteFile>,
    device: Arc<Device>,
}

impl ModelledWriter {
    pub(super) fn new(inner: Box<dyn WriteFile>, device: &Arc<Device>) -> Self {
        Self {
            inner,
            device: Arc::clone(device),
        }
    }
}

impl WriteFile for ModelledWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.append(bytes)?;
        self.device.write(bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sync(self: Box<Self>) -> Result<(), IoError> {
        self.inner.sync()
    }

    fn close(self: Box<Self>) -> Result<(), IoError> {
        self.inner.close()
    }
}

#[derive(Debug)]
pub(super) struct ModelledLogFile {
    inner: Box<dyn LogFile>,
    device: Arc<Device>,
}

impl ModelledLogFile {
    pub(super) fn new(inner: Box<dyn LogFile>, device: &Arc<Device>) -> Self {
        Self {
            inner,
            device: Arc::clone(device),
        }
    }
}

impl LogFile for ModelledLogFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, bytes)?;
        self.device.write(bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        self.inner.sync()
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        self.inner.trim(bytes)
    }
}
