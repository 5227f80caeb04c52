use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;

use super::*;

/// The numbers of a range.
struct Numbers(Range<usize>);

impl Items for Numbers {
    type Item = usize;

    fn next(&mut self) -> Result<Option<usize>, QueryError> {
        Ok(self.0.next())
    }
}

/// Returns a number as often as it says, after some time.
struct Repeats {
    left: Range<usize>,
    number: usize,
    /// The number at which the work fails.
    fails_at: Option<usize>,
    has_failed: bool,
    most_ahead: Arc<AtomicUsize>,
}

/// The number at which work panics.
const PANICS: usize = 1_000_000;

impl Work for Repeats {
    type Item = usize;
    type Output = (usize, usize);

    fn begin(&mut self, number: usize) {
        assert!(!self.has_failed, "failed work does not go on");
        self.number = number;
        self.left = 0..number % 7;
    }

    fn next(&mut self) -> Result<Option<(usize, usize)>, QueryError> {
        sleep(Duration::from_micros((self.number * 31 % 17 * 10) as u64));
        assert!(self.number < PANICS, "work fails");
        if self.fails_at == Some(self.number) {
            self.has_failed = true;
            return Err(QueryError::Execution("as asked".to_owned()));
        }
        self.most_ahead.fetch_max(self.number, Ordering::Relaxed);
        Ok(self.left.next().map(|time| (self.number, time)))
    }

    fn bytes(_: &(usize, usize)) -> usize {
        1024
    }
}

fn repeats(
    numbers: Range<usize>,
    fails_at: Option<usize>,
    cores: &Arc<Cores>,
) -> (Ordered<Numbers, Repeats>, Arc<AtomicUsize>) {
    let most_ahead: Arc<AtomicUsize> = Arc::default();
    let most = Arc::clone(&most_ahead);
    let work = move || Repeats {
        left: 0..0,
        number: 0,
        fails_at,
        has_failed: false,
        most_ahead: Arc::clone(&most),
    };
    let governor = Governor::with_memory(AHEAD_PART * AHEAD_BYTES.0).with_cores(cores);
    (
        Ordered::new(Numbers(numbers), usize::MAX, work, &governor),
        most_ahead,
    )
}

fn cores(limit: usize) -> Arc<Cores> {
    Arc::new(Cores::new(NonZero::new(limit)))
}

/// Returns all results, and the error at the end, if there is one.
fn all(ordered: &mut Ordered<Numbers, Repeats>) -> (Vec<(usize, usize)>, Option<QueryError>) {
    let mut results = Vec::new();
    loop {
        match ordered.next() {
            Ok(Some(result)) => results.push(result),
            Ok(None) => return (results, None),
            Err(error) => return (results, Some(error)),
        }
    }
}

fn expected(numbers: Range<usize>) -> Vec<(usize, usize)> {
    let times = numbers.map(|number| (0..number % 7).map(move |time| (number, time)));
    times.flatten().collect()
}

#[test]
fn results_come_in_the_order_of_the_items_with_any_number_of_threads() {
    for limit in [1, 2, 5] {
        let cores = cores(limit);
        let query = cores.compute();
        let (mut ordered, _) = repeats(0..400, None, &cores);
        assert_eq!(all(&mut ordered).0, expected(0..400), "{limit} threads");
        drop((ordered, query));
        cores.wait_until_idle();
        assert!(cores.helpers() < limit && (limit == 1 || cores.jobs() > 0));
    }
}

#[test]
fn helpers_hold_a_part_of_the_memory() {
    let cores = cores(5);
    let query = cores.compute();
    let governor = Governor::with_memory(1 << 20).with_cores(&cores);
    let eighth = (1 << 20) / HELD_PART;
    for (bytes, helpers_max) in [(eighth + 1, 0), (eighth, 1), (eighth / 3, 3)] {
        let (ordered, _) = repeats(0..400, None, &cores);
        let mut ordered = ordered.with_held(bytes, &governor);
        let mut most = 0;
        let mut found = Vec::new();
        while let Some(result) = ordered.next().unwrap() {
            most = ordered.helpers.number().max(most);
            found.push(result);
        }
        assert_eq!(found, expected(0..400));
        assert_eq!(most, helpers_max, "{bytes} bytes each");
    }
    drop(query);
}

#[test]
fn more_items_may_come_after_the_last() {
    for limit in [1, 2, 5] {
        let cores = cores(limit);
        let query = cores.compute();
        let (mut ordered, _) = repeats(0..30, None, &cores);
        assert_eq!(all(&mut ordered).0, expected(0..30));
        for start in [30, 130, 230] {
            let numbers = start..start + 100;
            ordered.go_on(100, |items| items.0 = numbers.clone());
            assert_eq!(all(&mut ordered).0, expected(numbers), "{limit} threads");
        }
        ordered.go_on(0, |_| ());
        assert!(all(&mut ordered).0.is_empty());
        drop((ordered, query));
        cores.wait_until_idle();
        assert_eq!(cores.jobs() > 0, limit > 1);
    }
}

#[test]
fn an_error_comes_behind_the_results_before_it() {
    for fails_at in 100..140 {
        let cores = cores(1 + fails_at % 3);
        let (mut ordered, _) = repeats(0..400, Some(fails_at), &cores);
        let (results, error) = all(&mut ordered);
        assert_eq!(results, expected(0..fails_at));
        assert!(matches!(error, Some(QueryError::Execution(_))), "{error:?}");
    }
}

#[test]
fn the_panic_of_a_helper_is_that_of_the_query() {
    let cores = cores(4);
    let (mut ordered, _) = repeats(PANICS - 300..PANICS + 300, None, &cores);
    let panicked = catch_unwind(AssertUnwindSafe(|| all(&mut ordered)));
    assert!(panicked.is_err());
    drop(ordered);
    cores.wait_until_idle();
}

#[test]
fn helpers_wait_for_a_slow_reader_and_end_with_it() {
    let cores = cores(3);
    let (mut ordered, most_ahead) = repeats(0..100_000, None, &cores);
    for result in &expected(0..100) {
        assert_eq!(ordered.next().unwrap().as_ref(), Some(result));
    }
    sleep(Duration::from_millis(20));
    // Each item has three results on average.
    let most = most_ahead.load(Ordering::Relaxed);
    assert!(most < 100 + AHEAD_BYTES.0 / 1024, "{most}");
    drop(ordered);
    cores.wait_until_idle();
}

#[test]
fn helpers_come_when_the_work_is_long_or_much_is_left() {
    let micros = Duration::from_micros;
    assert!(!is_long(micros(100), 1, usize::MAX));
    assert!(is_long(micros(400), 1, usize::MAX));
    assert!(is_long(micros(400), 2, 8));
    assert!(!is_long(micros(400), 6, 8), "little is left");
    assert!(!is_long(micros(400), 8, 2));
    assert!(is_long(micros(1000), 6, 8));
    // Nobody knows how many items there are, and the first took long.
    assert!(is_long(Duration::from_secs(100), 1, usize::MAX));
}

#[test]
fn helpers_come_during_the_first_item_or_at_once() {
    let cores = cores(2);
    let query = cores.compute();
    // Number 6 gives six results, 180 microseconds each.
    let (mut ordered, _) = repeats(6..400, None, &cores);
    for time in 0..6 {
        assert_eq!(ordered.next().unwrap(), Some((6, time)));
        assert!(time > 0 || cores.jobs() == 0, "one result may be enough");
    }
    assert!(
        ordered.is_long() && cores.jobs() > 0,
        "more than 300 microseconds have gone by"
    );
    drop((ordered, query));

    let cores = self::cores(2);
    let query = cores.compute();
    let (ordered, _) = repeats(1..400, None, &cores);
    let mut ordered = ordered.at_once();
    assert_eq!(ordered.next().unwrap(), Some((1, 0)));
    assert_eq!(cores.jobs(), 1);
    drop((ordered, query));
}
