//! Tests of the parser as a whole: against oxttl, the W3C suites, and hostile files.

mod bases;
mod blank;
mod collect;
mod compressed;
mod differential;
mod documents;
mod hostile;
mod random_turtle;
mod w3c;
