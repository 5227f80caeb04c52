//! Admission: a bounded number of requests run at once; the others wait in bounded queues, one per client.
//!
//! A turn is permission to run: it holds one of the places. A free place goes to the waiting client with the
//! fewest running requests, and among equals to the one that has waited longest. A client that sends a thousand
//! requests therefore waits behind itself, and so does one whose requests run long. No client holds all places. A
//! [`Slot`] gives its place back while its answer waits for a reader. A client with several unread answers gets
//! fewer places, gets them after others, and at last none.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::config::Limits;
use crate::network::network_of;

/// Limit on answers that wait for their readers, each with a blocked thread: of all clients, and of one client.
pub(crate) const PARKED_MAX: usize = 256;
const PARKED_PER_CLIENT: usize = 64;
/// A client with this many unread answers has half of its places, with twice as many a third, and so on.
const PARKED_FREE: usize = 4;

/// The client of a request: a user's name, or the address of an anonymous client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    User(Arc<str>),
    Address(IpAddr),
}

impl Client {
    /// Returns the client that the queues count: an IPv6 address stands for its /64 network.
    pub(crate) fn in_turn(&self) -> Self {
        match self {
            Self::User(name) => Self::User(Arc::clone(name)),
            Self::Address(address) => Self::Address(network_of(*address)),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shed {
    /// All queues together are full.
    Full,
    /// The client's own queue is full.
    ClientFull,
    /// Too many answers of the client wait to be read.
    Unread,
    /// The turn did not come within the queue time.
    Late,
}

/// Error of [`Slot::pause`]: too many answers wait for their readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

/// Grants turns.
#[derive(Debug)]
pub(crate) struct Admission {
    queues: Mutex<Queues>,
    /// Running average of how long requests took, in microseconds; used for `Retry-After`.
    usual_us: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    running: usize,
    waiting: usize,
    parked: usize,
    clients: HashMap<Client, Queue>,
    /// Clients with waiting requests, in the order in which they are served.
    turns: VecDeque<Client>,
    /// Places in all, and places per client, from the limits of the last request.
    most: usize,
    most_per_client: usize,
}

/// Counts of one client. Clients without any request or answer have no entry.
#[derive(Debug, Default)]
struct Queue {
    running: usize,
    parked: usize,
    waiters: VecDeque<oneshot::Sender<Permit>>,
}

/// Permission to run. Dropping it hands the place to the next request.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    client: Client,
    since: Instant,
}

/// A request that waits for its turn. Dropping it removes it from the queue: because its turn came, because the
/// queue time is over, or because the client has gone.
#[derive(Debug)]
struct Waiting {
    admission: Arc<Admission>,
    client: Client,
    turn: Option<oneshot::Receiver<Permit>>,
}

/// A turn that can be paused while nothing is computed, and resumed.
#[derive(Debug)]
pub(crate) struct Slot {
    admission: Arc<Admission>,
    client: Client,
    permit: Mutex<Option<Permit>>,
}

/// An answer that waits for its reader, without a turn.
#[derive(Debug)]
pub(crate) struct Parked {
    admission: Arc<Admission>,
    client: Client,
}

impl Admission {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            usual_us: AtomicUsize::new(0),
        })
    }

    /// Waits for a turn for this client.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        client: &Client,
        limits: &Limits,
    ) -> Result<Slot, Shed> {
        let client = client.in_turn();
        let turn = {
            let mut queues = self.queues.lock();
            queues.most = limits.running;
            queues.most_per_client = limits.running_per_client();
            if queues.parked_of(&client) >= PARKED_PER_CLIENT {
                return Err(Shed::Unread);
            }
            if queues.is_free_for(&client) {
                queues.begin(&client);
                drop(queues);
                return Ok(self.slot(client.clone(), self.permit(client)));
            }
            queues.enter(&client, limits)?
        };
        let mut waiting = Waiting {
            admission: Arc::clone(self),
            client,
            turn: Some(turn),
        };
        self.hand_out();
        let turn = waiting.turn.as_mut().expect("it waits");
        match tokio::time::timeout(limits.queue_time, turn).await {
            Ok(Ok(permit)) => Ok(self.slot(waiting.client.clone(), permit)),
            _ => Err(Shed::Late),
        }
    }

    /// Returns the numbers of running and waiting requests.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queues = self.queues.lock();
        (queues.running, queues.waiting)
    }

    /// Returns the number of answers that wait for their readers.
    pub(crate) fn parked(&self) -> usize {
        self.queues.lock().parked
    }

    /// Estimates, in seconds, when a retry may succeed: when the requests that wait now will be done.
    pub(crate) fn retry_after(&self) -> u64 {
        let (waiting, most) = {
            let queues = self.queues.lock();
            (queues.waiting, queues.most.max(1))
        };
        let usual = self.usual_us.load(Ordering::Relaxed);
        let wait = Duration::from_micros((usual * (waiting + 1) / most) as u64);
        wait.as_secs().clamp(1, 60)
    }

    fn permit(self: &Arc<Self>, client: Client) -> Permit {
        Permit {
            admission: Arc::clone(self),
            client,
            since: Instant::now(),
        }
    }

    fn slot(self: &Arc<Self>, client: Client, permit: Permit) -> Slot {
        Slot {
            admission: Arc::clone(self),
            client,
            permit: Mutex::new(Some(permit)),
        }
    }

    /// Gives free places to waiting requests.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let Some((client, waiter)) = self.queues.lock().leave() else {
                return;
            };
            // If the request has gone meanwhile, the permit comes back here; dropping it serves the next one.
            drop(waiter.send(self.permit(client)));
        }
    }
}

impl Queues {
    /// Returns whether a client may run without waiting.
    fn is_free_for(&self, client: &Client) -> bool {
        let has_place = |client| match self.clients.get(client) {
            Some(queue) => queue.running < queue.most(self.most_per_client),
            None => true,
        };
        // Clients that hold all their places wait behind themselves and do not block others.
        self.running < self.most && has_place(client) && !self.turns.iter().any(has_place)
    }

    fn parked_of(&self, client: &Client) -> usize {
        self.clients.get(client).map_or(0, |queue| queue.parked)
    }

    fn begin(&mut self, client: &Client) {
        self.running += 1;
        self.clients.entry(client.clone()).or_default().running += 1;
    }

    fn end(&mut self, client: &Client) {
        self.running -= 1;
        let queue = self.clients.get_mut(client).expect("it runs something");
        queue.running -= 1;
        self.forget_idle(client);
    }

    fn enter(
        &mut self,
        client: &Client,
        limits: &Limits,
    ) -> Result<oneshot::Receiver<Permit>, Shed> {
        if self.waiting >= limits.queued {
            return Err(Shed::Full);
        }
        let waiting = self.clients.get(client).map_or(0, |q| q.waiters.len());
        if waiting >= limits.queued_per_client {
            return Err(Shed::ClientFull);
        }
        Ok(self.wait(client, VecDeque::push_back))
    }

    /// Adds a waiting request to a client's queue.
    fn wait(
        &mut self,
        client: &Client,
        add: impl FnOnce(&mut VecDeque<oneshot::Sender<Permit>>, oneshot::Sender<Permit>),
    ) -> oneshot::Receiver<Permit> {
        let queue = self.clients.entry(client.clone()).or_default();
        if queue.waiters.is_empty() {
            self.turns.push_back(client.clone());
        }
        let (turn, wait) = oneshot::channel();
        add(&mut queue.waiters, turn);
        self.waiting += 1;
        wait
    }

    /// Takes the next request that may run off its queue and counts it as running.
    fn leave(&mut self) -> Option<(Client, oneshot::Sender<Permit>)> {
        while self.running < self.most {
            let most = self.most_per_client;
            let places = self.turns.iter().enumerate();
            let places = places.map(|(place, client)| (place, &self.clients[client]));
            let places = places.filter(|(_, queue)| queue.running < queue.most(most));
            let (place, _) = places.min_by_key(|(place, queue)| (queue.rank(), *place))?;
            let client = self.turns.remove(place)?;
            let queue = self.clients.get_mut(&client)?;
            let waiter = queue.waiters.pop_front();
            if !queue.waiters.is_empty() {
                self.turns.push_back(client.clone());
            }
            let Some(waiter) = waiter else { continue };
            self.waiting -= 1;
            if !waiter.is_closed() {
                self.begin(&client);
                return Some((client, waiter));
            }
            self.forget_idle(&client);
        }
        None
    }

    /// Removes a client's requests that no longer wait.
    fn forget_gone(&mut self, client: &Client) {
        let Some(queue) = self.clients.get_mut(client) else {
            return;
        };
        let before = queue.waiters.len();
        queue.waiters.retain(|waiter| !waiter.is_closed());
        self.waiting -= before - queue.waiters.len();
        if queue.waiters.is_empty() {
            self.turns.retain(|other| other != client);
        }
        self.forget_idle(client);
    }

    fn forget_idle(&mut self, client: &Client) {
        let is_idle =
            |queue: &Queue| queue.running == 0 && queue.parked == 0 && queue.waiters.is_empty();
        if self.clients.get(client).is_some_and(is_idle) {
            self.clients.remove(client);
        }
    }
}

impl Queue {
    /// Returns whether several answers of the client are unread.
    fn is_behind(&self) -> bool {
        self.parked >= PARKED_FREE
    }

    /// Returns how many places the client may hold, given the limit per client.
    fn most(&self, most_per_client: usize) -> usize {
        (most_per_client / (1 + self.parked / PARKED_FREE)).max(1)
    }

    /// Returns the sort key. The lowest goes first. All unread answers together count as one running request, because
    /// a client with unread answers must still get its turn while other clients come and go.
    fn rank(&self) -> usize {
        self.running + usize::from(self.is_behind())
    }
}

impl Slot {
    /// Returns whether several answers of the client are unread.
    pub(crate) fn is_behind(&self) -> bool {
        let queues = self.admission.queues.lock();
        queues
            .clients
            .get(&self.client)
            .is_some_and(Queue::is_behind)
    }

    /// Gives the turn back until [`Self::resume`].
    ///
    /// # Errors
    /// If too many answers wait for their readers; the turn is kept.
    pub(crate) fn pause(&self) -> Result<Parked, Crowded> {
        {
            let mut queues = self.admission.queues.lock();
            let others = queues.parked;
            let queue = queues.clients.entry(self.client.clone()).or_default();
            if others >= PARKED_MAX || queue.parked >= PARKED_PER_CLIENT {
                return Err(Crowded);
            }
            queue.parked += 1;
            queues.parked += 1;
        }
        drop(self.permit.lock().take());
        Ok(Parked {
            admission: Arc::clone(&self.admission),
            client: self.client.clone(),
        })
    }

    /// Returns the turn permanently.
    pub(crate) fn release(&self) {
        drop(self.permit.lock().take());
    }

    /// Waits for a turn again, ahead of the client's requests that have not begun. Blocks: not for threads of the
    /// runtime.
    pub(crate) fn resume(&self, parked: Parked, runtime: &Handle) {
        let turn = self
            .admission
            .queues
            .lock()
            .wait(&self.client, VecDeque::push_front);
        self.admission.hand_out();
        if let Ok(permit) = runtime.block_on(turn) {
            *self.permit.lock() = Some(permit);
        }
        drop(parked);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A permit that was sent meanwhile is dropped with the channel and so passed on.
        drop(self.turn.take());
        self.admission.queues.lock().forget_gone(&self.client);
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        {
            let mut queues = self.admission.queues.lock();
            queues.parked -= 1;
            if let Some(queue) = queues.clients.get_mut(&self.client) {
                queue.parked -= 1;
            }
            queues.forget_idle(&self.client);
        }
        // The client has one unread answer less, so it may be allowed another place.
        self.admission.hand_out();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let took = usize::try_from(self.since.elapsed().as_micros()).unwrap_or(usize::MAX);
        let usual = self.admission.usual_us.load(Ordering::Relaxed);
        let usual = usual - usual / 16 + took / 16;
        self.admission.usual_us.store(usual, Ordering::Relaxed);
        self.admission.queues.lock().end(&self.client);
        self.admission.hand_out();
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

    fn roomy(running: usize) -> Limits {
        Limits {
            running,
            queue_time: Duration::from_secs(60),
            ..Limits::default()
        }
    }

    /// Waits for a turn in the background and returns its slot.
    fn waiting(
        admission: &Arc<Admission>,
        name: &str,
        limits: Limits,
    ) -> tokio::task::JoinHandle<Slot> {
        let (admission, client) = (Arc::clone(admission), user(name));
        tokio::spawn(async move { admission.admit(&client, &limits).await.unwrap() })
    }

    async fn until_waiting(admission: &Admission, count: usize) {
        while admission.load().1 < count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_has_fewer_running_goes_first() {
        let admission = Admission::new();
        let limits = roomy(4);
        let mut held = Vec::new();
        for name in ["a", "a", "a", "b"] {
            held.push(admission.admit(&user(name), &limits).await.unwrap());
        }
        let a = waiting(&admission, "a", limits.clone());
        until_waiting(&admission, 1).await;
        let b = waiting(&admission, "b", limits.clone());
        until_waiting(&admission, 2).await;
        let c = waiting(&admission, "c", limits.clone());
        until_waiting(&admission, 3).await;
        held.remove(0);
        let c = c.await.unwrap();
        assert!(!a.is_finished() && !b.is_finished());
        drop(held.pop());
        let b = b.await.unwrap();
        assert!(!a.is_finished());
        drop((b, c));
        drop(a.await.unwrap());
    }

    #[tokio::test]
    async fn no_client_has_all_places() {
        let admission = Admission::new();
        let limits = roomy(4);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(admission.admit(&user("a"), &limits).await.unwrap());
        }
        let fourth = waiting(&admission, "a", limits.clone());
        until_waiting(&admission, 1).await;
        assert_eq!(admission.load(), (3, 1));
        // Another client takes the place that is left, although a request of the first waits.
        let other = admission.admit(&user("b"), &limits).await.unwrap();
        assert_eq!(admission.load(), (4, 1));
        drop(held.remove(0));
        let fourth = fourth.await.unwrap();
        drop((held, fourth, other));
        assert_eq!(admission.load(), (0, 0));
        assert!(admission.queues.lock().clients.is_empty());
    }

    #[tokio::test]
    async fn an_answer_that_waits_for_its_reader_leaves_its_place_to_others() {
        let admission = Admission::new();
        let limits = roomy(1);
        let slot = admission.admit(&user("a"), &limits).await.unwrap();
        let other = waiting(&admission, "b", limits.clone());
        until_waiting(&admission, 1).await;
        let parked = slot.pause().unwrap();
        let other = other.await.unwrap();
        assert_eq!((admission.load(), admission.parked()), ((1, 0), 1));
        let runtime = Handle::current();
        let resumed = tokio::task::spawn_blocking(move || {
            slot.resume(parked, &runtime);
            slot
        });
        until_waiting(&admission, 1).await;
        drop(other);
        let slot = resumed.await.unwrap();
        assert_eq!((admission.load(), admission.parked()), ((1, 0), 0));
        drop(slot);
        assert!(admission.queues.lock().clients.is_empty());
    }

    #[tokio::test]
    async fn answers_that_wait_are_bounded() {
        let admission = Admission::new();
        let limits = roomy(200);
        let mut parked = Vec::new();
        let late = admission.admit(&user("a"), &limits).await.unwrap();
        for _ in 0..PARKED_PER_CLIENT {
            let slot = admission.admit(&user("a"), &limits).await;
            parked.push(slot.unwrap().pause().unwrap());
        }
        // At the limit a running request may finish, but cannot be paused, and no new one starts.
        assert_eq!(late.pause().unwrap_err(), Crowded);
        drop(late);
        let shed = admission.admit(&user("a"), &limits).await.err();
        assert_eq!(shed, Some(Shed::Unread));
        let slot = admission.admit(&user("b"), &limits).await.unwrap();
        assert!(slot.pause().is_ok());
        drop(slot);
        drop(parked.pop());
        assert!(admission.admit(&user("a"), &limits).await.is_ok());
        drop(parked);
        assert_eq!(admission.parked(), 0);
        assert!(admission.queues.lock().clients.is_empty());
    }

    #[tokio::test]
    async fn who_has_answers_waiting_has_fewer_places_and_later() {
        let admission = Admission::new();
        let limits = roomy(4);
        let mut parked = Vec::new();
        for count in 1..=3 * PARKED_FREE {
            let slot = admission.admit(&user("a"), &limits).await.unwrap();
            parked.push(slot.pause().unwrap());
            assert_eq!(slot.is_behind(), count >= PARKED_FREE);
        }
        // One of its three places is left.
        let first = admission.admit(&user("a"), &limits).await.unwrap();
        let second = waiting(&admission, "a", limits.clone());
        until_waiting(&admission, 1).await;
        let mut others = Vec::new();
        for name in ["b", "b", "c"] {
            others.push(waiting(&admission, name, limits.clone()).await.unwrap());
        }
        assert_eq!(admission.load(), (4, 1));
        let other = waiting(&admission, "d", limits.clone());
        until_waiting(&admission, 2).await;
        drop(first);
        let other = other.await.unwrap();
        assert!(!second.is_finished());
        drop(others);
        drop((second.await.unwrap(), other, parked));
        assert!(admission.queues.lock().clients.is_empty());
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
        assert_eq!(admission.load(), (1, 0), "it has left the queue");
        drop(held);
        assert_eq!(admission.load(), (0, 0));
        assert!(admission.admit(&user("b"), &limits()).await.is_ok());
    }

    #[tokio::test]
    async fn free_places_are_given_beside_full_queues_of_those_who_have_all_they_may() {
        let admission = Admission::new();
        let limits = Limits {
            queued: 2,
            ..roomy(4)
        };
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(admission.admit(&user("a"), &limits).await.unwrap());
        }
        let waiters = [(); 2].map(|()| waiting(&admission, "a", limits.clone()));
        until_waiting(&admission, 2).await;
        let other = admission.admit(&user("b"), &limits).await;
        assert!(other.is_ok(), "{:?}", other.err());
        drop((held, other));
        for waiter in waiters {
            drop(waiter.await.unwrap());
        }
    }

    #[tokio::test]
    async fn answers_that_end_while_they_wait_give_their_clients_places_back() {
        let admission = Admission::new();
        let limits = roomy(4);
        let mut parked = Vec::new();
        for _ in 0..3 * PARKED_FREE {
            let slot = admission.admit(&user("a"), &limits).await.unwrap();
            parked.push(slot.pause().unwrap());
        }
        let first = admission.admit(&user("a"), &limits).await.unwrap();
        let second = waiting(&admission, "a", limits.clone());
        until_waiting(&admission, 1).await;
        drop(parked);
        drop((first, second.await.unwrap()));
        assert!(admission.queues.lock().clients.is_empty());
    }
}
