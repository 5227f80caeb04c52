//! Dates, dateTimes and years as payloads, ordered by the instant at which they begin.
//!
//! There are 116 timezones: none, `Z`, `-00:00`, and the multiples of 15 minutes from `-14:00` to `+14:00`. A
//! second's fraction has at most three digits, and their number matters (`.5` is not `.50`).

use oxsdatatypes::{Date, DateTime, GYear};

use super::CalendarFields;

const DAY_MINUTES: i64 = 24 * 60;
const DAY_SECONDS: i64 = 86_400;

/// Timezones are numbered so that, for equal local times, numbers order like instants: `+14:00` first.
const ZONE_NONE: u64 = 57;
const ZONE_Z: u64 = 58;
const ZONE_MINUS_ZERO: u64 = 59;
const ZONES: u64 = 116;
pub(super) const ZONE_BITS: u32 = 7;

/// Parses `""`, `Z`, `+hh:mm` or `-hh:mm` as a zone number.
fn parse_zone(text: &[u8]) -> Option<u64> {
    match text {
        b"" => return Some(ZONE_NONE),
        b"Z" => return Some(ZONE_Z),
        b"-00:00" => return Some(ZONE_MINUS_ZERO),
        _ => {}
    }
    let [sign @ (b'+' | b'-'), hour1, hour2, b':', minute1, minute2] = text else {
        return None;
    };
    let minutes = two_digits(*minute1, *minute2)?;
    let quarters = two_digits(*hour1, *hour2)? * 4 + minutes / 15;
    if minutes % 15 != 0 || minutes > 59 || quarters > 56 {
        return None;
    }
    Some(match sign {
        b'+' => 56 - quarters as u64,
        _ => 59 + quarters as u64,
    })
}

/// Returns the minutes east of UTC; `None` for no timezone.
fn zone_minutes(zone: u64) -> Option<i64> {
    match zone {
        0..=56 => Some((56 - zone as i64) * 15),
        ZONE_NONE => None,
        ZONE_Z | ZONE_MINUS_ZERO => Some(0),
        _ => Some(-(zone as i64 - 59) * 15),
    }
}

fn write_zone(zone: u64, out: &mut String) -> Option<()> {
    match zone {
        ZONE_NONE => {}
        ZONE_Z => out.push('Z'),
        ZONE_MINUS_ZERO => out.push_str("-00:00"),
        ZONES.. => return None,
        _ => {
            let minutes = zone_minutes(zone)?;
            out.push(if zone <= 56 { '+' } else { '-' });
            push_two(minutes.abs() / 60, out);
            out.push(':');
            push_two(minutes.abs() % 60, out);
        }
    }
    Some(())
}

fn two_digits(high: u8, low: u8) -> Option<i64> {
    (high.is_ascii_digit() && low.is_ascii_digit())
        .then(|| i64::from(high - b'0') * 10 + i64::from(low - b'0'))
}

fn push_two(value: i64, out: &mut String) {
    out.push(char::from(b'0' + (value / 10) as u8));
    out.push(char::from(b'0' + (value % 10) as u8));
}

/// Reads a year: four digits, or more without a leading zero, possibly negative. Also returns the rest of the
/// text.
fn split_year(text: &[u8]) -> Option<(i64, &[u8])> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let length = digits
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(digits.len());
    if !(4..=8).contains(&length) || (length > 4 && digits[0] == b'0') {
        return None;
    }
    let year = digits[..length]
        .iter()
        .fold(0, |year, digit| year * 10 + i64::from(digit - b'0'));
    if negative && year == 0 {
        return None;
    }
    Some((if negative { -year } else { year }, &digits[length..]))
}

fn write_year_number(year: i64, out: &mut String) {
    use std::fmt::Write;
    if year < 0 {
        out.push('-');
    }
    write!(out, "{:04}", year.unsigned_abs()).expect("strings take all text");
}

/// Reads year, month and day, checked against the calendar. Also returns the rest of the text.
fn split_date(text: &[u8]) -> Option<(i64, &[u8])> {
    let (year, rest) = split_year(text)?;
    let [b'-', month1, month2, b'-', day1, day2, rest @ ..] = rest else {
        return None;
    };
    let (month, day) = (two_digits(*month1, *month2)?, two_digits(*day1, *day2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    Some((days_from_civil(year, month, day), rest))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so that the
/// leap day is the last day of its year; 400 years have 146,097 days.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns year, month and day of a day number: the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

fn write_civil(days: i64, out: &mut String) {
    let (year, month, day) = civil_from_days(days);
    write_year_number(year, out);
    out.push('-');
    push_two(month, out);
    out.push('-');
    push_two(day, out);
}

const YEAR_BIAS: i64 = 1 << 48;

pub(super) fn parse_year(lexical: &[u8]) -> Option<u64> {
    let (year, rest) = split_year(lexical)?;
    Some(((year + YEAR_BIAS) as u64) << ZONE_BITS | parse_zone(rest)?)
}

fn split_zone(payload: u64) -> Option<(u64, u64)> {
    let zone = payload & ((1 << ZONE_BITS) - 1);
    (zone < ZONES).then_some((payload >> ZONE_BITS, zone))
}

/// Returns year and zone. `None` if [`split_year`] reads no such year.
fn year_of(payload: u64) -> Option<(i64, u64)> {
    let (year, zone) = split_zone(payload)?;
    let year = year as i64 - YEAR_BIAS;
    (year.abs() < 100_000_000).then_some((year, zone))
}

pub(super) fn write_year(payload: u64, out: &mut String) -> Option<()> {
    let (year, zone) = year_of(payload)?;
    write_year_number(year, out);
    write_zone(zone, out)
}

pub(super) fn year(payload: u64) -> Option<GYear> {
    let (year, zone) = year_of(payload)?;
    // XML Schema places a year on the timeline by its last day (`timeOnTimeline`).
    let day = days_from_civil(year, 12, 31) * DAY_SECONDS;
    Some(GYear::from_be_bytes(timestamp(day, 0, zone)))
}

pub(super) fn year_fields(payload: u64) -> Option<CalendarFields> {
    let (year, _) = year_of(payload)?;
    Some(CalendarFields {
        year,
        date: None,
        time: None,
    })
}

const MINUTE_BIAS: i64 = 1 << 48;

pub(super) fn parse_date(lexical: &[u8]) -> Option<u64> {
    let (days, rest) = split_date(lexical)?;
    let zone = parse_zone(rest)?;
    let minute = days * DAY_MINUTES - zone_minutes(zone).unwrap_or(0);
    Some(((minute + MINUTE_BIAS) as u64) << ZONE_BITS | zone)
}

/// Returns local day number and zone. `None` if the payload is not a day's start.
fn local_day(payload: u64) -> Option<(i64, u64)> {
    let (minute, zone) = split_zone(payload)?;
    let local = minute as i64 - MINUTE_BIAS + zone_minutes(zone).unwrap_or(0);
    (local % DAY_MINUTES == 0).then_some((local / DAY_MINUTES, zone))
}

pub(super) fn write_date(payload: u64, out: &mut String) -> Option<()> {
    let (days, zone) = local_day(payload)?;
    write_civil(days, out);
    write_zone(zone, out)
}

pub(super) fn date(payload: u64) -> Option<Date> {
    let (days, zone) = local_day(payload)?;
    Some(Date::from_be_bytes(timestamp(days * DAY_SECONDS, 0, zone)))
}

pub(super) fn date_fields(payload: u64) -> Option<CalendarFields> {
    let (days, _) = local_day(payload)?;
    let (year, month, day) = civil_from_days(days);
    Some(CalendarFields {
        year,
        date: Some((month, day)),
        time: None,
    })
}

/// Number of fractions with no, one, two and three digits: 1 + 10 + 100 + 1000.
const FRACTIONS: u64 = 1111;
pub(super) const SECOND_SHIFT: u32 = 17;
/// The first second that is inlined (UTC). The payload has 39 bits for the seconds, which cover 17,420 years.
const SECOND_MIN: i64 = -SECOND_RANGE / 2;
const SECOND_RANGE: i64 = 1 << (56 - SECOND_SHIFT);

const _: () = assert!(FRACTIONS * ZONES <= 1 << SECOND_SHIFT);

/// Returns the number of a fraction among all fractions, in the order of thousandths, fewer digits first.
fn parse_fraction(digits: &[u8]) -> Option<u64> {
    if digits.len() > 3 {
        return None;
    }
    let mut thousandths = 0;
    for place in 0..3 {
        let digit = *digits.get(place).unwrap_or(&b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        thousandths = thousandths * 10 + u64::from(digit - b'0');
    }
    // Fractions with fewer thousandths, then those of equal value with fewer digits.
    let smaller = |step: u64| thousandths.div_ceil(step);
    let below = smaller(1) + smaller(10) + smaller(100) + smaller(1000);
    let shorter = (0..digits.len())
        .filter(|&length| thousandths.is_multiple_of(10_u64.pow(3 - length as u32)))
        .count();
    Some(below + shorter as u64)
}

/// Thousandths and number of digits of each fraction.
const FRACTION_TABLE: [(u16, u8); FRACTIONS as usize] = {
    let mut table = [(0, 0); FRACTIONS as usize];
    let (mut at, mut thousandths) = (0, 0);
    while thousandths < 1000 {
        let mut digits = 0;
        let mut step = 1000;
        while digits <= 3 {
            if thousandths % step == 0 {
                table[at] = (thousandths, digits);
                at += 1;
            }
            digits += 1;
            step /= 10;
        }
        thousandths += 1;
    }
    assert!(at == FRACTIONS as usize);
    table
};

pub(super) fn parse_date_time(lexical: &[u8]) -> Option<u64> {
    let (days, rest) = split_date(lexical)?;
    let [b'T', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = rest else {
        return None;
    };
    let (hour, minute, second) = (
        two_digits(*h1, *h2)?,
        two_digits(*m1, *m2)?,
        two_digits(*s1, *s2)?,
    );
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, rest) = match rest.strip_prefix(b".") {
        None => (0, rest),
        Some(rest) => {
            let length = rest
                .iter()
                .position(|byte| !byte.is_ascii_digit())
                .unwrap_or(rest.len());
            if length == 0 {
                return None;
            }
            (parse_fraction(&rest[..length])?, &rest[length..])
        }
    };
    let zone = parse_zone(rest)?;
    let local = days * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    let since_min = local - zone_minutes(zone).unwrap_or(0) * 60 - SECOND_MIN;
    if !(0..SECOND_RANGE).contains(&since_min) {
        return None;
    }
    Some((since_min as u64) << SECOND_SHIFT | (fraction * ZONES + zone))
}

/// Returns local second, fraction and zone of a dateTime.
fn local_second(payload: u64) -> Option<(i64, (u16, u8), u64)> {
    let detail = payload & ((1 << SECOND_SHIFT) - 1);
    let (fraction, zone) = (detail / ZONES, detail % ZONES);
    let fraction = *FRACTION_TABLE.get(fraction as usize)?;
    let second = (payload >> SECOND_SHIFT) as i64 + SECOND_MIN;
    Some((
        second + zone_minutes(zone).unwrap_or(0) * 60,
        fraction,
        zone,
    ))
}

pub(super) fn write_date_time(payload: u64, out: &mut String) -> Option<()> {
    use std::fmt::Write;
    let (local, (thousandths, digits), zone) = local_second(payload)?;
    write_civil(local.div_euclid(DAY_SECONDS), out);
    let second = local.rem_euclid(DAY_SECONDS);
    out.push('T');
    push_two(second / 3600, out);
    out.push(':');
    push_two(second / 60 % 60, out);
    out.push(':');
    push_two(second % 60, out);
    if digits > 0 {
        let width = usize::from(digits);
        let value = u32::from(thousandths) / 10_u32.pow(3 - u32::from(digits));
        write!(out, ".{value:0width$}").expect("strings take all text");
    }
    write_zone(zone, out)
}

pub(super) fn date_time(payload: u64) -> Option<DateTime> {
    let (local, (thousandths, _), zone) = local_second(payload)?;
    Some(DateTime::from_be_bytes(timestamp(local, thousandths, zone)))
}

pub(super) fn date_time_fields(payload: u64) -> Option<CalendarFields> {
    let (local, _, _) = local_second(payload)?;
    let (year, month, day) = civil_from_days(local.div_euclid(DAY_SECONDS));
    let second = local.rem_euclid(DAY_SECONDS);
    Some(CalendarFields {
        year,
        date: Some((month, day)),
        time: Some((second / 3600, second / 60 % 60)),
    })
}

/// Returns the bytes of an `oxsdatatypes` timestamp: UTC seconds from 0001-01-01 as a decimal, and the offset.
///
/// `local` is in seconds from 1970-01-01.
fn timestamp(local: i64, thousandths: u16, zone: u64) -> [u8; 18] {
    const FROM_YEAR_ONE: i64 = 719_162 * DAY_SECONDS;
    const NO_TIMEZONE: i16 = -1;
    let offset = zone_minutes(zone);
    let second = local + FROM_YEAR_ONE - offset.unwrap_or(0) * 60;
    let decimal = i128::from(second) * 1_000_000_000_000_000_000
        + i128::from(thousandths) * 1_000_000_000_000_000;
    let offset = offset.map_or(NO_TIMEZONE, |minutes| minutes as i16);
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&decimal.to_be_bytes());
    bytes[16..].copy_from_slice(&offset.to_be_bytes());
    bytes
}
