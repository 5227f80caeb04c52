//! Log files of the modelled device: a sync takes a given time, and every few syncs much longer.

use std::sync::Arc;
use std::time::Duration;

use super::{Device, ModelClock};
use crate::IoError;
use crate::storage::LogFile;

/// Times of syncs of log files. Writes take the time that their bytes need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogModel {
    /// Time of a sync.
    pub sync: Duration,
    /// Every `outlier_every`-th sync of the device is an outlier (0: none), as when flash erases blocks.
    pub outlier_every: u64,
    /// Time of an outlier.
    pub outlier: Duration,
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
        self.device.serve(0, bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        self.inner.sync()?;
        let model = self.device.log;
        let mut state = self.device.state.lock();
        state.log_syncs += 1;
        let every = model.outlier_every;
        let time = if every > 0 && state.log_syncs.is_multiple_of(every) {
            model.outlier
        } else {
            model.sync
        };
        match self.device.clock {
            ModelClock::Virtual => state.now += time,
            ModelClock::Real => {
                drop(state);
                std::thread::sleep(time);
            }
        }
        Ok(())
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        self.inner.trim(bytes)
    }
}
