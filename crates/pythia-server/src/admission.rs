//! Who may run now: a bounded number at once, and a bounded queue that serves clients in turn.
//!
//! A client that sends a thousand requests waits behind itself, not before everyone else: each client has
//! a queue of its own, and the queues take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::config::Limits;

/// Who waits, for the order of turns: a user's name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    User(Arc<str>),
    Address(std::net::IpAddr),
}

/// Why a request may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shed {
    /// All queues together are full.
    Full,
    /// The client's own queue is full.
    ClientFull,
    /// Its turn did not come in time.
    Late,
}

/// Gives turns.
#[derive(Debug)]
pub(crate) struct Admission {
    queues: Mutex<Queues>,
    /// How long requests ran of late, in microseconds, to say when to try again.
    usual_us: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    running: usize,
    waiting: usize,
    clients: HashMap<Client, VecDeque<Waiter>>,
    /// Clients that wait, in order of their turns.
    turns: VecDeque<Client>,
    /// How many may run at once, as the last request was told.
    most: usize,
}

#[derive(Debug)]
struct Waiter {
    turn: oneshot::Sender<Permit>,
}

/// Leave to run; the next one's turn comes when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    since: Instant,
}

impl Admission {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            usual_us: AtomicUsize::new(0),
        })
    }

    /// Waits for a turn of this client.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        client: &Client,
        limits: &Limits,
    ) -> Result<Permit, Shed> {
        let turn = {
            let mut queues = self.queues.lock();
            queues.most = limits.running;
            if queues.running < queues.most && queues.waiting == 0 {
                queues.running += 1;
                return Ok(self.permit());
            }
            queues.enter(client, limits)?
        };
        // A permit that comes when nobody waits any more is dropped in the channel, and so passed on.
        match tokio::time::timeout(limits.queue_time, turn).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => {
                self.queues.lock().forget_gone(client);
                Err(Shed::Late)
            }
        }
    }

    /// Requests that run, and that wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queues = self.queues.lock();
        (queues.running, queues.waiting)
    }

    /// When it may be worth trying again: when those who wait will be done, in seconds.
    pub(crate) fn retry_after(&self) -> u64 {
        let (waiting, most) = {
            let queues = self.queues.lock();
            (queues.waiting, queues.most.max(1))
        };
        let usual = self.usual_us.load(Ordering::Relaxed);
        let wait = Duration::from_micros((usual * (waiting + 1) / most) as u64);
        wait.as_secs().clamp(1, 60)
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit {
            admission: Arc::clone(self),
            since: Instant::now(),
        }
    }

    /// One has ended: those who wait take its place.
    fn release(self: &Arc<Self>) {
        let mut next = None;
        let mut queues = self.queues.lock();
        queues.running -= 1;
        if queues.running < queues.most {
            next = queues.leave();
        }
        if next.is_some() {
            queues.running += 1;
        }
        drop(queues);
        if let Some(waiter) = next {
            // If it has gone meanwhile, the permit comes back here and is dropped: the next one's turn.
            drop(waiter.turn.send(self.permit()));
        }
    }
}

impl Queues {
    fn enter(
        &mut self,
        client: &Client,
        limits: &Limits,
    ) -> Result<oneshot::Receiver<Permit>, Shed> {
        if self.waiting >= limits.queued {
            return Err(Shed::Full);
        }
        let queue = self.clients.entry(client.clone()).or_default();
        if queue.len() >= limits.queued_per_client {
            return Err(Shed::ClientFull);
        }
        if queue.is_empty() {
            self.turns.push_back(client.clone());
        }
        let (turn, wait) = oneshot::channel();
        queue.push_back(Waiter { turn });
        self.waiting += 1;
        Ok(wait)
    }

    /// The next in turn.
    fn leave(&mut self) -> Option<Waiter> {
        while let Some(client) = self.turns.pop_front() {
            let queue = self.clients.get_mut(&client)?;
            let waiter = queue.pop_front();
            if queue.is_empty() {
                self.clients.remove(&client);
            } else {
                self.turns.push_back(client);
            }
            if let Some(waiter) = waiter {
                self.waiting -= 1;
                if !waiter.turn.is_closed() {
                    return Some(waiter);
                }
            }
        }
        None
    }

    /// Takes those of a client out who do not wait any more.
    fn forget_gone(&mut self, client: &Client) {
        let Some(queue) = self.clients.get_mut(client) else {
            return;
        };
        let before = queue.len();
        queue.retain(|waiter| !waiter.turn.is_closed());
        self.waiting -= before - queue.len();
        if queue.is_empty() {
            self.clients.remove(client);
            self.turns.retain(|other| other != client);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let took = usize::try_from(self.since.elapsed().as_micros()).unwrap_or(usize::MAX);
        let usual = self.admission.usual_us.load(Ordering::Relaxed);
        let usual = usual - usual / 16 + took / 16;
        self.admission.usual_us.store(usual, Ordering::Relaxed);
        self.admission.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            running: 1,
            queued: 6,
            queued_per_client: 3,
            queue_time: Duration::from_millis(200),
            ..Limits::default()
        }
    }

    fn user(name: &str) -> Client {
        Client::User(name.into())
    }

    #[tokio::test]
    async fn clients_take_turns() {
        let admission = Admission::new();
        let held = admission.admit(&user("x"), &limits()).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for name in ["a", "a", "a", "b", "c"] {
            let (admission, order) = (Arc::clone(&admission), Arc::clone(&order));
            let before = admission.load().1;
            waiting.push(tokio::spawn({
                let admission = Arc::clone(&admission);
                async move {
                    let limits = Limits {
                        queue_time: Duration::from_secs(60),
                        ..limits()
                    };
                    let _permit = admission.admit(&user(name), &limits).await.unwrap();
                    order.lock().push(name);
                }
            }));
            while admission.load().1 == before {
                tokio::task::yield_now().await;
            }
        }
        drop(held);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["a", "b", "c", "a", "a"]);
        assert_eq!(admission.load(), (0, 0));
    }

    #[tokio::test]
    async fn queues_are_bounded() {
        let admission = Admission::new();
        let _held = admission.admit(&user("x"), &limits()).await.unwrap();
        let waiting: Vec<_> = ["a", "a", "a", "b", "b", "b"]
            .map(|name| {
                let admission = Arc::clone(&admission);
                tokio::spawn(async move { admission.admit(&user(name), &limits()).await.err() })
            })
            .into();
        while admission.load().1 < 6 {
            tokio::task::yield_now().await;
        }
        let shed = admission.admit(&user("c"), &limits()).await.err();
        assert_eq!(shed, Some(Shed::Full));
        let wider = Limits {
            queued: 100,
            ..limits()
        };
        let shed = admission.admit(&user("a"), &wider).await.err();
        assert_eq!(shed, Some(Shed::ClientFull));
        for task in waiting {
            assert_eq!(task.await.unwrap(), Some(Shed::Late));
        }
        assert_eq!(admission.load(), (1, 0));
    }

    #[tokio::test]
    async fn who_gives_up_takes_no_turn() {
        let admission = Admission::new();
        let held = admission.admit(&user("x"), &limits()).await.unwrap();
        let gone = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.admit(&user("a"), &limits()).await.map(drop) }
        });
        while admission.load().1 == 0 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        drop(held);
        assert_eq!(admission.load(), (0, 0));
        assert!(admission.admit(&user("b"), &limits()).await.is_ok());
    }
}
