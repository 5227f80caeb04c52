//! Tests of the parser as a whole: against oxttl, the W3C suites, and hostile files.

mod collect;
mod compressed;
mod differential;
mod documents;
mod hostile;
mod w3c;
