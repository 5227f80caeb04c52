//! Paths as results: against a brute-force search, and at the edges of what is asked.

mod forms;
mod oracle;
mod random;
