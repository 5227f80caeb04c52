//! Work that goes on beside measured runs, at a rate, and pauses between them.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

/// Lets another thread work, and stops it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    /// The other thread is in a step.
    is_busy: bool,
    /// The other thread ends, or has failed.
    has_ended: bool,
}

/// The steps that another thread has done while the gate was open.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rate {
    /// Steps per second that were asked for.
    pub wanted_per_second: f64,
    /// Steps per second that were done.
    pub per_second: f64,
    /// Steps.
    pub steps: u64,
    /// Seconds in which the thread worked.
    pub seconds: f64,
}

/// Ends the other thread, also when a measurement fails.
struct Ending<'g>(&'g Gate);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets the other thread work.
    pub(super) fn open(&self) {
        self.lock().is_open = true;
        self.changed.notify_all();
    }

    /// Stops the other thread, and waits until it has stopped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_open = false;
        self.changed.notify_all();
        while state.is_busy && !state.has_ended {
            state = self.wait(state, None);
        }
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        most: Option<Duration>,
    ) -> MutexGuard<'s, State> {
        let most = most.unwrap_or(Duration::from_secs(1));
        match self.changed.wait_timeout(state, most) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    /// Waits for the gate to open; returns false at the end.
    fn enter(&self) -> bool {
        let mut state = self.lock();
        while !state.is_open && !state.has_ended {
            state = self.wait(state, None);
        }
        state.is_busy = !state.has_ended;
        state.is_busy
    }

    /// Waits until a time; returns false as soon as the gate is closed.
    fn is_open_until(&self, due: Instant) -> bool {
        let mut state = self.lock();
        while state.is_open && !state.has_ended {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.wait(state, Some(left));
        }
        false
    }

    fn leave(&self) {
        self.lock().is_busy = false;
        self.changed.notify_all();
    }

    /// Does steps at a rate while the gate is open, until the end.
    fn work(&self, per_second: f64, mut step: impl FnMut() -> Result<()>) -> Result<Rate> {
        let _ending = Ending(self);
        let mut rate = Rate {
            wanted_per_second: per_second,
            ..Rate::default()
        };
        let mut worked = Duration::ZERO;
        while self.enter() {
            let begun = Instant::now();
            let mut steps = 0_u64;
            let due = |steps: u64| begun + Duration::from_secs_f64(steps as f64 / per_second);
            while self.is_open_until(due(steps)) {
                step()?;
                steps += 1;
            }
            worked += begun.elapsed();
            rate.steps += steps;
            self.leave();
        }
        rate.seconds = worked.as_secs_f64();
        rate.per_second = rate.steps as f64 / rate.seconds.max(1e-9);
        Ok(rate)
    }
}

/// Calls `measure` with a gate; while it is open, another thread does steps at a rate.
pub(super) fn while_working<T>(
    per_second: f64,
    step: impl FnMut() -> Result<()> + Send,
    measure: impl FnOnce(&Gate) -> Result<T>,
) -> Result<(T, Rate)> {
    let gate = Gate::default();
    let (measured, worked) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| gate.work(per_second, step));
        let ending = Ending(&gate);
        let measured = measure(&gate);
        drop(ending);
        (measured, thread.join())
    });
    let worked = worked.map_err(|_| anyhow::anyhow!("the thread beside panicked"))?;
    // If it failed, its error is the cause.
    let rate = worked?;
    Ok((measured?, rate))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn steps_are_done_only_while_the_gate_is_open() {
        let steps = AtomicU64::new(0);
        let step = || {
            steps.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let (_, rate) = while_working(1000.0, step, |gate| {
            for _ in 0..3 {
                gate.open();
                std::thread::sleep(Duration::from_millis(20));
                gate.close();
                let before = steps.load(Ordering::SeqCst);
                assert!(before > 0);
                std::thread::sleep(Duration::from_millis(5));
                assert_eq!(steps.load(Ordering::SeqCst), before);
            }
            Ok(())
        })
        .expect("nothing fails");
        assert_eq!(rate.steps, steps.load(Ordering::SeqCst));
        assert!(rate.seconds >= 0.05, "{rate:?}");
        // At most one step for each begun millisecond.
        assert!(rate.per_second <= 1100.0, "{rate:?}");
    }

    #[test]
    fn an_error_beside_ends_the_measurement_with_it() {
        let failing = || anyhow::bail!("the device is gone");
        let outcome = while_working(1000.0, failing, |gate| {
            gate.open();
            std::thread::sleep(Duration::from_millis(5));
            gate.close();
            Ok(())
        });
        let error = outcome.expect_err("the step fails").to_string();
        assert_eq!(error, "the device is gone");
    }

    #[test]
    fn a_failed_measurement_ends_the_thread() {
        let outcome = while_working(
            1000.0,
            || Ok(()),
            |gate| {
                gate.open();
                anyhow::bail!("no such query") as Result<()>
            },
        );
        let error = outcome.expect_err("it fails").to_string();
        assert_eq!(error, "no such query");
    }
}
