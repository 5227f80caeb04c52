//! Splits an update into its operations.
//!
//! The parser translates some operations into several simple ones, loses SILENT, and accepts a prologue only
//! at the start. So the text is cut into sections that each begin with a prologue, and the keyword of each
//! operation is recorded. Long data is a section of its own, which is not parsed at once ([`crate::data`]).

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::grammar::Fault;
use crate::token::{Kind, Token, tokens};

/// Prologues are repeated before each later section. Maximum bytes of all copies together.
const REPEATED_BYTES_MAX: usize = 64 << 20;

/// INSERT DATA and DELETE DATA with more bytes than this are long data.
const LONG_BYTES: usize = 64 << 10;

/// An operation in the text.
#[derive(Debug)]
pub(crate) struct Statement {
    /// Bytes of the operation, without the `;` after it.
    pub(crate) range: Range<usize>,
    pub(crate) verb: Verb,
    pub(crate) silent: bool,
    /// True if source and destination of a transfer are written alike.
    pub(crate) is_loop: bool,
    /// The kind of INSERT DATA or DELETE DATA.
    pub(crate) data: Option<DataVerb>,
}

/// The direction of a data operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataVerb {
    Insert,
    Delete,
}

/// The kind of an operation, as far as the parser loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Add,
    Copy,
    Move,
    Other,
}

impl Verb {
    /// Returns the number of simple operations that the parser makes of a transfer between different graphs.
    pub(crate) fn parts(self) -> usize {
        match self {
            Self::Add | Self::Other => 1,
            Self::Copy => 2,
            Self::Move => 3,
        }
    }
}

/// Operations after one prologue.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// Prologues of the earlier sections.
    pub(crate) prologue: String,
    /// From its own prologue to the next section's.
    pub(crate) range: Range<usize>,
    pub(crate) statements: Vec<Statement>,
    /// True if long data is the only statement.
    pub(crate) is_long_data: bool,
}

impl Section {
    /// Returns the section as a self-contained update.
    pub(crate) fn source<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let own = &text[self.range.clone()];
        match self.prologue.is_empty() {
            true => Cow::Borrowed(own),
            false => Cow::Owned(format!("{}{own}", self.prologue)),
        }
    }

    /// Returns one statement as a self-contained update.
    pub(crate) fn source_of(&self, statement: &Statement, text: &str) -> String {
        let first = self
            .statements
            .first()
            .map_or(self.range.end, |s| s.range.start);
        let own_prologue = &text[self.range.start..first];
        format!(
            "{}{own_prologue}{}",
            self.prologue,
            &text[statement.range.clone()]
        )
    }
}

/// Returns the sections of a text, at least one.
pub(crate) fn sections(text: &str) -> Result<Vec<Section>, Fault> {
    let mut cutter = Cutter {
        text,
        sections: vec![Section::default()],
        prologues: String::new(),
        repeated_bytes: 0,
        labels: HashMap::new(),
        statements: 0,
    };
    let mut tokens = tokens(text);
    while let Some(token) = tokens.next() {
        if token.text == ";" {
            continue;
        }
        match declaration_length(&token) {
            Some(length) => {
                let last = tokens.by_ref().take(length).last().unwrap_or(token);
                cutter.declaration(token.start..last.end)?;
            }
            None => cutter.statement(token, &mut tokens)?,
        }
    }
    let last = cutter.sections.last_mut().expect("there is one");
    last.range.end = text.len();
    Ok(cutter.sections)
}

/// Returns the number of tokens of a declaration after its keyword, or `None` for other tokens.
fn declaration_length(token: &Token<'_>) -> Option<usize> {
    let is = |word: &str| token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word);
    if is("PREFIX") {
        return Some(2);
    }
    (is("BASE") || is("VERSION")).then_some(1)
}

struct Cutter<'t> {
    text: &'t str,
    sections: Vec<Section>,
    /// All declarations so far.
    prologues: String,
    /// Bytes of prologues repeated so far.
    repeated_bytes: usize,
    /// Blank nodes of INSERT DATA, with the number of the statement that uses each.
    labels: HashMap<&'t str, usize>,
    statements: usize,
}

impl<'t> Cutter<'t> {
    fn declaration(&mut self, range: Range<usize>) -> Result<(), Fault> {
        let last = self.sections.last_mut().expect("there is one");
        if !last.statements.is_empty() {
            self.section(range.start)?;
        }
        self.prologues.push_str(&self.text[range]);
        self.prologues.push('\n');
        Ok(())
    }

    /// Begins a section.
    fn section(&mut self, start: usize) -> Result<(), Fault> {
        self.repeated_bytes += self.prologues.len();
        if self.repeated_bytes > REPEATED_BYTES_MAX {
            return Err(Fault {
                at: start,
                message: "there are too many prologues; declare all prefixes at the start"
                    .to_owned(),
            });
        }
        let last = self.sections.last_mut().expect("there is one");
        last.range.end = last.range.end.max(start);
        self.sections.push(Section {
            prologue: self.prologues.clone(),
            range: start..start,
            ..Section::default()
        });
        Ok(())
    }

    /// Reads a statement, starting with its first token, and the `;` after it.
    fn statement(
        &mut self,
        first: Token<'t>,
        tokens: &mut impl Iterator<Item = Token<'t>>,
    ) -> Result<(), Fault> {
        self.statements += 1;
        let is = |token: Token<'_>, word: &str| {
            token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word)
        };
        let verb = match () {
            () if is(first, "ADD") => Verb::Add,
            () if is(first, "COPY") => Verb::Copy,
            () if is(first, "MOVE") => Verb::Move,
            () => Verb::Other,
        };
        let (mut depth, mut end, mut second) = (0_usize, first.end, None);
        let mut after = first.end;
        let mut data = None;
        let mut operands: Vec<&str> = Vec::new();
        for token in tokens {
            after = token.end;
            if depth == 0 && token.text == ";" {
                break;
            }
            end = token.end;
            match token.text {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if second.is_none() && is(token, "DATA") {
                let verbs = [("INSERT", DataVerb::Insert), ("DELETE", DataVerb::Delete)];
                let named = verbs.into_iter().find(|(word, _)| is(first, word));
                data = named.map(|(_, verb)| verb);
            }
            if data == Some(DataVerb::Insert) && token.kind == Kind::BlankNode {
                self.label(token)?;
            }
            if verb != Verb::Other && !["GRAPH", "SILENT"].iter().any(|word| is(token, word)) {
                operands.push(token.text);
            }
            second = second.or(Some(token));
        }
        let is_closed = self.text[..end].ends_with('}');
        let is_long = data.is_some() && is_closed && end - first.start > LONG_BYTES;
        if is_long {
            self.section(first.start)?;
        }
        let last = self.sections.last_mut().expect("there is one");
        last.is_long_data = is_long;
        last.range.end = after;
        last.statements.push(Statement {
            range: first.start..end,
            verb,
            silent: second.is_some_and(|word| is(word, "SILENT")),
            is_loop: matches!(operands[..], [from, _, to] if from == to),
            data,
        });
        if is_long {
            self.section(after)?;
        }
        Ok(())
    }

    /// Records a blank node of INSERT DATA. No other operation may use its label (SPARQL 1.1 Update, note 11
    /// of the grammar).
    fn label(&mut self, token: Token<'t>) -> Result<(), Fault> {
        let number = *self.labels.entry(token.text).or_insert(self.statements);
        if number == self.statements {
            return Ok(());
        }
        let label = token.text;
        Err(Fault {
            at: token.start,
            message: format!(
                "{label} is in an INSERT DATA before; put both into one, or rename it"
            ),
        })
    }
}
